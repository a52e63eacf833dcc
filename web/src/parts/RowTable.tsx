import type { HTMLAttributes, ReactNode } from "react";
import { setParams, usePlace } from "../app/router";
import { clicked, ordered, orderOf, orderText } from "../model/rows";
import type { SortKey } from "../model/rows";

export interface Column<R> {
  /** Its name in the address. */
  id: string;
  name: string;
  title?: string;
  /** What it is sorted by; a column without it is not. */
  by?: (row: R) => SortKey;
  /** Whether it holds words. */
  words?: boolean;
  show: (row: R) => ReactNode;
  isError?: (row: R) => boolean;
}

/** A table that a click on a column sorts. The first column names the row. */
export function RowTable<R>(props: {
  label: string;
  testid: string;
  rows: readonly R[];
  columns: readonly Column<R>[];
  rowKey: (row: R) => string;
  /** Attributes of a row, for tests. */
  rowData?: (row: R) => Record<string, string | number>;
  /** The parameter that holds the order. */
  param?: string;
}) {
  const { params } = usePlace();
  const { columns, param = "sort-by" } = props;
  const sortable = columns.filter((one) => one.by).map((one) => one.id);
  const order = orderOf(params.get(param), sortable);
  const by = columns.find((one) => one.id === order?.column)?.by;
  const rows = by && order ? ordered(props.rows, by, order.reversed) : props.rows;
  const sortOf = (column: Column<R>): HTMLAttributes<HTMLElement>["aria-sort"] => {
    if (order?.column !== column.id) return "none";
    return (column.words ?? column === columns[0]) !== order.reversed ? "ascending" : "descending";
  };
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label={props.label}>
      <table className="red-table row-table" data-testid={props.testid}>
        <thead>
          <tr>
            {columns.map((column, at) => (
              <th
                key={column.id}
                scope="col"
                title={column.title}
                className={column.words || at === 0 ? "words" : undefined}
                aria-sort={column.by ? sortOf(column) : undefined}
              >
                {column.by ? (
                  <button
                    type="button"
                    className="button tiny plain"
                    onClick={() =>
                      setParams({ [param]: orderText(clicked(order, column.id)) }, "push")
                    }
                  >
                    {order?.column === column.id ? (order.reversed ? "↑ " : "↓ ") : ""}
                    {column.name}
                  </button>
                ) : (
                  column.name
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={props.rowKey(row)} {...dataset(props.rowData?.(row) ?? {})}>
              {columns.map((column, at) => {
                const wrong = column.isError?.(row) ? " is-error" : "";
                return at === 0 ? (
                  <th key={column.id} scope="row">
                    {column.show(row)}
                  </th>
                ) : (
                  <td key={column.id} className={`${column.words ? "text" : "number"}${wrong}`}>
                    {column.show(row)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const dataset = (data: Record<string, string | number>) =>
  Object.fromEntries(Object.entries(data).map(([name, value]) => [`data-${name}`, value]));
