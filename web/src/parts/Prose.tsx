/** A sentence in which text in backticks is set as code. */
export function Prose({ text }: { text: string }) {
  const pieces = text.split("`");
  // With an odd number of backticks, the text is shown unchanged.
  if (pieces.length % 2 === 0) return <span>{text}</span>;
  // A single element, because a flex container would split several.
  return (
    <span>{pieces.map((piece, at) => (at % 2 === 1 ? <code key={at}>{piece}</code> : piece))}</span>
  );
}
