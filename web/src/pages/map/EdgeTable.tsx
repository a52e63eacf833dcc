import { useState } from "react";
import type { GraphEdge } from "../../api/types";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, formatRate, formatShare } from "../../model/number";
import { Service } from "../../parts/Service";
import { edgeId } from "./edges";

interface Column {
  name: string;
  number: boolean;
  sort: (edge: GraphEdge) => number | string;
}

const COLUMNS: readonly Column[] = [
  { name: "Caller", number: false, sort: (edge) => edge.client },
  { name: "Called", number: false, sort: (edge) => edge.server },
  { name: "Protocol", number: false, sort: (edge) => edge.protocol },
  { name: "Rate", number: true, sort: (edge) => edge.requests_per_second },
  { name: "Requests", number: true, sort: (edge) => edge.requests },
  { name: "Errors", number: true, sort: (edge) => edge.error_share },
  { name: "p50", number: true, sort: (edge) => nano(edge.p50_nano) },
  { name: "p95", number: true, sort: (edge) => nano(edge.p95_nano) },
  { name: "p99", number: true, sort: (edge) => nano(edge.p99_nano) },
  { name: "Certain", number: true, sort: (edge) => edge.certain_share },
];

/** The map's edges in words and numbers. */
export function EdgeTable(props: {
  edges: readonly GraphEdge[];
  chosen: string | null;
  onChoose: (id: string) => void;
}) {
  const [by, setBy] = useState<{ column: number; down: boolean }>({ column: 3, down: true });
  const { sort } = COLUMNS[by.column]!;
  const sorted = [...props.edges].sort((a, b) => {
    const [x, y] = [sort(a), sort(b)];
    return (x < y ? -1 : x > y ? 1 : 0) * (by.down ? -1 : 1);
  });
  return (
    <table className="grid" data-testid="edges" aria-label="Calls between services">
      <thead>
        <tr>
          {COLUMNS.map((column, at) => (
            <th
              key={column.name}
              scope="col"
              className={column.number ? "number" : ""}
              aria-sort={by.column === at ? (by.down ? "descending" : "ascending") : undefined}
            >
              <button
                type="button"
                onClick={() =>
                  setBy({ column: at, down: by.column === at ? !by.down : column.number })
                }
              >
                {by.column === at ? (by.down ? "↓ " : "↑ ") : ""}
                {column.name}
              </button>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {sorted.map((edge) => (
          <tr
            key={edgeId(edge)}
            data-client={edge.client}
            data-server={edge.server}
            data-protocol={edge.protocol}
            data-requests={edge.requests}
            aria-selected={props.chosen === edgeId(edge)}
            tabIndex={0}
            onClick={() => props.onChoose(edgeId(edge))}
            onKeyDown={(event) => event.key === "Enter" && props.onChoose(edgeId(edge))}
          >
            <td>
              <Service name={edge.client} />
            </td>
            <td>
              <Service name={edge.server} />
            </td>
            <td className="quiet">{edge.protocol}</td>
            <td className="number">{formatRate(edge.requests_per_second)}</td>
            <td className="number">{formatCount(edge.requests)}</td>
            <td className={`number ${edge.errors > 0 ? "is-error" : "quiet"}`}>
              {edge.errors > 0 ? formatShare(edge.error_share) : "–"}
            </td>
            <td className="number">{formatDuration(nano(edge.p50_nano))}</td>
            <td className="number">{formatDuration(nano(edge.p95_nano))}</td>
            <td className="number">{formatDuration(nano(edge.p99_nano))}</td>
            <td className={`number ${edge.certain_share < 0.999 ? "warn-text" : "quiet"}`}>
              {formatShare(edge.certain_share)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
