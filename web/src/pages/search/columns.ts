/** The columns of the list of traces, as the page's address says them. */

/** In the order in which they are shown. The trace itself is always the first. */
export const COLUMNS = [
  ["services", "Services"],
  ["protocols", "Protocols"],
  ["spans", "Spans"],
  ["errors", "Errors"],
  ["duration", "Duration"],
  ["started", "Started"],
  ["id", "Trace id"],
] as const;

export type ColumnId = (typeof COLUMNS)[number][0];

const USUAL: readonly ColumnId[] = ["services", "spans", "errors", "duration", "started"];

/** The name of the parameter. */
export const PARAM = "columns";
/** Only the trace: an empty parameter would be left out of the address. */
const NONE = "none";

/** What the address says; the usual columns if it says nothing that is known. */
export function columnsOf(text: string | null): readonly ColumnId[] {
  if (text === NONE) return [];
  const named = new Set(text?.split(","));
  const known = COLUMNS.flatMap(([id]) => (named.has(id) ? [id] : []));
  return known.length > 0 ? known : USUAL;
}

/** What the address has to say; null for the usual columns. */
export function columnsText(chosen: Iterable<ColumnId>): string | null {
  const named = new Set(chosen);
  const inOrder = COLUMNS.flatMap(([id]) => (named.has(id) ? [id] : []));
  if (inOrder.join() === USUAL.join()) return null;
  return inOrder.join() || NONE;
}

/** The columns after one is shown or hidden. */
export const toggled = (now: readonly ColumnId[], id: ColumnId): readonly ColumnId[] =>
  now.includes(id) ? now.filter((one) => one !== id) : [...now, id];
