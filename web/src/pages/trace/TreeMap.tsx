import { useMemo } from "react";
import { useServiceStyle } from "../../app/palette";
import { setParams } from "../../app/router";
import { operationRows } from "../../model/callTree";
import { formatDuration } from "../../model/duration";
import { formatShare, plural } from "../../model/number";
import type { Tree } from "../../model/tree";
import { treeMap } from "../../model/treeMap";

/** How much wider than high the picture usually is. */
const RATIO = 2;

/** Own time as areas: services, and within them their operations. A click shows the spans. */
export function TreeMap({ tree }: { tree: Tree }) {
  const serviceStyle = useServiceStyle();
  const rows = useMemo(() => operationRows(tree), [tree]);
  const { blocks, hidden } = useMemo(() => treeMap(rows, RATIO), [rows]);
  const total = rows.reduce((sum, row) => sum + row.selfNano, 0) || 1;
  return (
    <div className="trace-view map-view" tabIndex={0} role="group" aria-label="Tree map">
      <p className="explained">
        Areas are own time: of a service, and within it of its operations. A click shows the spans.
        {hidden > 0 && ` ${plural(hidden, "operation")} too short to draw.`}
      </p>
      {blocks.length === 0 && <p className="explained">No span has time of its own.</p>}
      <div className="tree-map" data-testid="tree-map">
        {blocks.flatMap((block) =>
          block.tiles.map(({ row, left, top, width, height }) => {
            const share = formatShare(row.selfNano / total);
            const said = `${row.service} ${row.operation}: own time ${formatDuration(row.selfNano)} (${share}), ${plural(row.count, "call")}${row.errors > 0 ? `, ${plural(row.errors, "error")}` : ""}`;
            return (
              <button
                key={`${row.service}\n${row.operation}`}
                type="button"
                className={row.errors > 0 ? "box failed" : "box"}
                style={{
                  ...serviceStyle(row.service),
                  left: `${left * 100}%`,
                  top: `${top * 100}%`,
                  width: `${width * 100}%`,
                  height: `${height * 100}%`,
                }}
                title={said}
                data-service={row.service}
                data-share={row.selfNano / total}
                onClick={() =>
                  setParams({ view: null, q: `${row.service} ${row.operation}` }, "push")
                }
              >
                <b className="cut">{row.operation}</b>
                <span className="cut">{row.service}</span>
                <span className="cut">
                  {formatDuration(row.selfNano)} · {share}
                </span>
              </button>
            );
          }),
        )}
      </div>
    </div>
  );
}
