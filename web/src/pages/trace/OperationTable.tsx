import { useMemo } from "react";
import { setParams, usePlace } from "../../app/router";
import { operationRows } from "../../model/callTree";
import type { OperationRow } from "../../model/callTree";
import { formatDuration } from "../../model/duration";
import { formatCount, formatShare } from "../../model/number";
import type { Tree } from "../../model/tree";
import { Service } from "../../parts/Service";

const COLUMNS = [
  ["self", "Own time", (row: OperationRow) => row.selfNano],
  ["total", "Total", (row: OperationRow) => row.totalNano],
  ["longest", "Longest", (row: OperationRow) => row.longestNano],
  ["mean", "Mean", (row: OperationRow) => row.totalNano / row.count],
  ["count", "Count", (row: OperationRow) => row.count],
  ["errors", "Errors", (row: OperationRow) => row.errors],
] as const;

/** What each service did under each name: time of its own, count, and share. */
export function OperationTable({ tree }: { tree: Tree }) {
  const { params } = usePlace();
  const sort = COLUMNS.find(([key]) => key === params.get("by")) ?? COLUMNS[0];
  const rows = useMemo(() => operationRows(tree), [tree]);
  const [, , figure] = sort;
  const sorted = [...rows].sort((a, b) => figure(b) - figure(a));
  const own = rows.reduce((sum, row) => sum + row.selfNano, 0) || 1;
  return (
    <div className="trace-view" tabIndex={0} role="group" aria-label="Operations">
      <table className="trace-table" data-testid="operation-table">
        <thead>
          <tr>
            <th scope="col">Service and operation</th>
            {COLUMNS.map(([key, name]) => (
              <th key={key} scope="col" aria-sort={sort[0] === key ? "descending" : "none"}>
                <button
                  type="button"
                  className="button tiny plain"
                  onClick={() => setParams({ by: key === "self" ? null : key })}
                >
                  {sort[0] === key ? "↓ " : ""}
                  {name}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <tr key={`${row.service} ${row.operation}`} data-count={row.count}>
              <th scope="row">
                <Service name={row.service} />
                <button
                  type="button"
                  className="link cut"
                  title={`Show these spans: ${row.operation}`}
                  onClick={() =>
                    setParams({ view: null, q: `${row.service} ${row.operation}` }, "push")
                  }
                >
                  {row.operation === "" ? "(no name)" : row.operation}
                </button>
              </th>
              <td className="number">
                {formatDuration(row.selfNano)}{" "}
                <span className="quiet">{formatShare(row.selfNano / own)}</span>
              </td>
              <td className="number">{formatDuration(row.totalNano)}</td>
              <td className="number">{formatDuration(row.longestNano)}</td>
              <td className="number">{formatDuration(row.totalNano / row.count)}</td>
              <td className="number">{formatCount(row.count)}</td>
              <td className={`number${row.errors > 0 ? " is-error" : ""}`}>
                {row.errors > 0 ? formatCount(row.errors) : "–"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
