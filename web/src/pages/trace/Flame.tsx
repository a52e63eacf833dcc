import { useMemo } from "react";
import { useServiceStyle } from "../../app/palette";
import { setParams, usePlace } from "../../app/router";
import { callAt, callTree, flame } from "../../model/callTree";
import { formatDuration } from "../../model/duration";
import { formatShare, plural } from "../../model/number";
import type { Tree } from "../../model/tree";

const LEVEL_HEIGHT = 24;

/** Calls merged by name and place; a box is as wide as its time. A click zooms into a box. */
export function Flame({ tree }: { tree: Tree }) {
  const { params } = usePlace();
  const serviceStyle = useServiceStyle();
  const tops = useMemo(() => callTree(tree), [tree]);
  const box = params.get("box");
  const zoomed = box === null ? undefined : callAt(tops, Number(box));
  const { boxes, levels, hidden } = useMemo(() => flame(zoomed ? [zoomed] : tops), [tops, zoomed]);
  const total = tops.reduce((sum, call) => sum + call.totalNano, 0) || 1;
  return (
    <div className="trace-view" tabIndex={0} role="group" aria-label="Flame graph">
      <p className="explained">
        Calls of the same name from the same place share a box. A box is as wide as their time
        together; calls at the same time share the width of their caller.
        {hidden > 0 && ` ${plural(hidden, "call")} too short to draw.`}{" "}
        {zoomed && (
          <button
            type="button"
            className="button tiny"
            onClick={() => setParams({ box: null }, "push")}
          >
            Whole trace
          </button>
        )}
      </p>
      <div
        className="flame"
        style={{ height: levels * LEVEL_HEIGHT }}
        data-testid="flame"
        data-boxes={boxes.length}
      >
        {boxes.map(({ call, level, left, width }) => {
          const said = `${call.service} ${call.operation}: ${formatDuration(call.totalNano)} (${formatShare(call.totalNano / total)}), own ${formatDuration(call.selfNano)}, ${plural(call.count, "call")}${call.errors > 0 ? `, ${plural(call.errors, "error")}` : ""}`;
          return (
            <button
              key={call.id}
              type="button"
              className={call.errors > 0 ? "box failed" : "box"}
              style={{
                ...serviceStyle(call.service),
                left: `${left * 100}%`,
                width: `${width * 100}%`,
                top: level * LEVEL_HEIGHT,
              }}
              title={said}
              onClick={() =>
                setParams({ box: call.id === zoomed?.id ? null : String(call.id) }, "push")
              }
            >
              <span className="cut">
                {call.operation} <span className="from">{call.service}</span>
                {call.count > 1 && ` ×${call.count}`}
              </span>
            </button>
          );
        })}
      </div>
    </div>
  );
}
