import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import type { GraphEdge } from "../../api/types";
import { found, useScroll } from "../../app/visit";
import { formatDuration, nano } from "../../model/duration";
import { resentShare, UNSEEN } from "../../model/network";
import { formatCount, formatRate, formatShare } from "../../model/number";
import { Service } from "../../parts/Service";
import { CHANGES } from "./differences";
import type { Compared, EdgeChange } from "./differences";
import { edgeId } from "./edges";

const ROW_HEIGHT = 30;

interface Column {
  name: string;
  number: boolean;
  /** Whether the column is hidden in narrow windows. */
  wide?: boolean;
  sort: (edge: GraphEdge) => number | string;
}

const COLUMNS: readonly Column[] = [
  { name: "Caller", number: false, sort: (edge) => edge.client },
  { name: "Called", number: false, sort: (edge) => edge.server },
  { name: "Protocol", number: false, wide: true, sort: (edge) => edge.protocol },
  { name: "Rate", number: true, sort: (edge) => edge.requests_per_second },
  { name: "Requests", number: true, wide: true, sort: (edge) => edge.requests },
  { name: "Errors", number: true, sort: (edge) => edge.error_share },
  { name: "p50", number: true, wide: true, sort: (edge) => nano(edge.p50_nano) },
  { name: "p95", number: true, sort: (edge) => nano(edge.p95_nano) },
  { name: "p99", number: true, wide: true, sort: (edge) => nano(edge.p99_nano) },
  { name: "Resent", number: true, wide: true, sort: (edge) => resentShare(edge.network) ?? -1 },
  { name: "Certain", number: true, wide: true, sort: (edge) => edge.certain_share },
];

/** The edges of the map as a table. Only the visible rows are elements. */
export function EdgeTable(props: {
  edges: readonly GraphEdge[];
  chosen: string | null;
  visit: string;
  /** What differs from an earlier time, by the ids of edges; null if nothing is compared. */
  changes: Compared["edges"] | null;
  onChoose: (id: string) => void;
}) {
  const { edges, chosen, changes } = props;
  const box = useRef<HTMLDivElement>(null);
  const [by, setBy] = useState<{ column: number; down: boolean }>({ column: 3, down: true });
  const sorted = useMemo(() => {
    const { sort } = COLUMNS[by.column]!;
    // What differs comes first.
    const rank = (edge: GraphEdge) => {
      const change = changes?.get(edgeId(edge))?.change;
      return change === undefined ? CHANGES.length : CHANGES.findIndex(([one]) => one === change);
    };
    return edges
      .map((edge) => ({ edge, key: sort(edge), rank: rank(edge) }))
      .sort(
        (a, b) =>
          a.rank - b.rank || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0) * (by.down ? -1 : 1),
      )
      .map(({ edge }) => edge);
  }, [edges, by, changes]);
  const virtual = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
  });
  useScroll(box, props.visit, "edges", true);
  const restored = useRef(found(props.visit, "edges") !== undefined);
  useEffect(() => {
    if (restored.current) {
      restored.current = false;
      return;
    }
    const at = sorted.findIndex((edge) => edgeId(edge) === chosen);
    if (at >= 0) virtual.scrollToIndex(at, { align: "auto" });
  }, [chosen]);
  const items = virtual.getVirtualItems();
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <div
      className="grid-box"
      ref={box}
      tabIndex={0}
      data-focus-home
      role="group"
      aria-label="Calls between services"
    >
      <table
        className="grid"
        data-testid="edges"
        aria-label="Calls between services"
        aria-rowcount={sorted.length + 1}
      >
        <thead>
          <tr aria-rowindex={1}>
            {COLUMNS.map((column, at) => (
              <th
                key={column.name}
                scope="col"
                className={`${column.number ? "number" : "text"}${column.wide ? " wide" : ""}`}
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
          {above > 0 && <Gap height={above} />}
          {items.map((item) => {
            const edge = sorted[item.index]!;
            return (
              <Row
                key={edgeId(edge)}
                edge={edge}
                at={item.index + 2}
                chosen={chosen === edgeId(edge)}
                change={changes?.get(edgeId(edge)) ?? null}
                onChoose={props.onChoose}
              />
            );
          })}
          {below > 0 && <Gap height={below} />}
        </tbody>
      </table>
    </div>
  );
}

/**
 * Fills the space of the rows that are not visible. Its cell has no `colspan`, which would bring
 * back the columns that narrow windows hide.
 */
function Gap({ height }: { height: number }) {
  return (
    <tr className="gap" aria-hidden="true">
      <td style={{ height }} />
    </tr>
  );
}

function Row(props: {
  edge: GraphEdge;
  at: number;
  chosen: boolean;
  change: { change: EdgeChange; text: string } | null;
  onChoose: (id: string) => void;
}) {
  const { edge, change } = props;
  return (
    <tr
      className={props.chosen ? "chosen" : ""}
      aria-rowindex={props.at}
      data-client={edge.client}
      data-server={edge.server}
      data-protocol={edge.protocol}
      data-requests={edge.requests}
      data-change={change?.change}
      onClick={() => props.onChoose(edgeId(edge))}
    >
      <td>
        <button
          type="button"
          className="row-button"
          aria-pressed={props.chosen}
          aria-label={`Calls from ${edge.client} to ${edge.server}`}
          onClick={(event) => {
            event.stopPropagation();
            props.onChoose(edgeId(edge));
          }}
        >
          <Service name={edge.client} />
        </button>
      </td>
      <td>
        <Service name={edge.server} />
        {change && (
          <span className="change" data-change={change.change}>
            {change.text}
          </span>
        )}
      </td>
      <td className="quiet wide">{edge.protocol}</td>
      <td className="number">{formatRate(edge.requests_per_second)}</td>
      <td className="number wide">{formatCount(edge.requests)}</td>
      <td className={`number ${edge.errors > 0 ? "is-error" : "quiet"}`}>
        {edge.errors > 0 ? formatShare(edge.error_share) : "–"}
      </td>
      <td className="number wide">{formatDuration(nano(edge.p50_nano))}</td>
      <td className="number">{formatDuration(nano(edge.p95_nano))}</td>
      <td className="number wide">{formatDuration(nano(edge.p99_nano))}</td>
      <Resent edge={edge} />
      <td className="number wide quiet">{formatShare(edge.certain_share)}</td>
    </tr>
  );
}

/** The share of calls of which something was sent again; a dash where no kernel saw any. */
function Resent({ edge }: { edge: GraphEdge }) {
  const share = resentShare(edge.network);
  return (
    <td
      className={`number wide ${share ? "is-error" : "quiet"}`}
      title={share === null ? UNSEEN : undefined}
    >
      {share === null ? "–" : formatShare(share)}
    </td>
  );
}
