/** A sentence in which what stands in backticks is code. */
export function Prose({ text }: { text: string }) {
  const pieces = text.split("`");
  // An odd backtick at the end is just a character.
  if (pieces.length % 2 === 0) return <span>{text}</span>;
  // One element: where boxes stand side by side, a sentence is one of them.
  return (
    <span>{pieces.map((piece, at) => (at % 2 === 1 ? <code key={at}>{piece}</code> : piece))}</span>
  );
}
