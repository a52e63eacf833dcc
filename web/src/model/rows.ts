/** The order of a table's rows, as the address says it. */

/** A figure or a name to sort by. */
export type SortKey = number | string | null;

export interface Order {
  column: string;
  /** Names go up, figures down; reversed is the other way. */
  reversed: boolean;
}

/** `errors` or `-errors`; null if no column has that name. */
export function orderOf(text: string | null, columns: readonly string[]): Order | null {
  const reversed = text?.startsWith("-") ?? false;
  const column = reversed ? text!.slice(1) : text;
  return column !== null && columns.includes(column) ? { column, reversed } : null;
}

export const orderText = ({ column, reversed }: Order): string =>
  reversed ? `-${column}` : column;

/** The order after a click on a column: again on the same one turns it round. */
export const clicked = (now: Order | null, column: string): Order => ({
  column,
  reversed: now?.column === column && !now.reversed,
});

/** Figures with the largest first, names from A to Z; what is not known comes last, always. */
export function ordered<R>(
  rows: readonly R[],
  key: (row: R) => SortKey,
  reversed: boolean,
): readonly R[] {
  const turn = reversed ? -1 : 1;
  return rows
    .map((row, at) => ({ row, at, key: key(row) }))
    .sort((a, b) => {
      if (a.key === null || b.key === null) {
        return Number(a.key === null) - Number(b.key === null) || a.at - b.at;
      }
      const order =
        typeof a.key === "number" && typeof b.key === "number"
          ? b.key - a.key
          : String(a.key).localeCompare(String(b.key));
      return turn * order || a.at - b.at;
    })
    .map(({ row }) => row);
}
