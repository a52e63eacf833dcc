import type { Ref } from "react";
import type { TracePage } from "../../api/types";
import { plural } from "../../model/number";
import { CaptureTag } from "../../parts/CaptureTag";
import { setAligned, setFilter, setFold, setMerge, setPath } from "./state";
import type { Shown } from "./state";

const DEPTHS = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20];

/** Controls for the view of the trace, and the meaning of its symbols. */
export function TraceTools(props: {
  trace: TracePage;
  shown: Shown;
  found: number;
  findRef: Ref<HTMLInputElement>;
  onOpenAll: () => void;
  onCloseAll: () => void;
  /** Collapses all that is deeper than this. */
  onDepth: (levels: number) => void;
  /** To the next found span (1) or the one before (-1). */
  onFound: (by: 1 | -1) => void;
}) {
  const { trace, shown } = props;
  return (
    <div className="trace-tools">
      <div className="find">
        <input
          ref={props.findRef}
          type="text"
          value={shown.filter}
          onChange={(event) => setFilter(event.target.value)}
          placeholder="Filter spans"
          title="Words of the name, service, error, attributes or span id; status:error"
          aria-label="Filter spans"
          data-testid="filter"
          data-set={shown.filter !== ""}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            event.preventDefault();
            props.onFound(event.shiftKey ? -1 : 1);
          }}
          spellCheck={false}
          autoComplete="off"
        />
        {shown.filter !== "" && <span className="label">{plural(props.found, "span")}</span>}
      </div>
      {shown.filter !== "" && (
        <div className="segments" role="group" aria-label="Found spans">
          <button
            type="button"
            className="button icon"
            aria-label="Previous found span"
            title="Previous found span (N, or Shift+Enter in the field)"
            onClick={() => props.onFound(-1)}
          >
            ↑
          </button>
          <button
            type="button"
            className="button icon"
            aria-label="Next found span"
            title="Next found span (n, or Enter in the field)"
            data-testid="find-next"
            onClick={() => props.onFound(1)}
          >
            ↓
          </button>
        </div>
      )}
      <button
        type="button"
        className="button"
        title="Collapse all ( [ )"
        onClick={props.onCloseAll}
      >
        Collapse
      </button>
      <button type="button" className="button" title="Expand all ( ] )" onClick={props.onOpenAll}>
        Expand
      </button>
      <select
        aria-label="Collapse to a depth"
        title="Collapse to a depth"
        data-testid="depth"
        value=""
        onChange={(event) => props.onDepth(Number(event.target.value))}
      >
        <option value="" disabled>
          Depth
        </option>
        {DEPTHS.filter((levels) => levels < trace.depth).map((levels) => (
          <option key={levels} value={levels}>
            {plural(levels, "level")}
          </option>
        ))}
      </select>
      <button
        type="button"
        className="button"
        aria-pressed={shown.fold}
        data-testid="fold"
        title="One line for three or more siblings of the same name; failed ones keep theirs (r)"
        onClick={() => setFold(!shown.fold)}
      >
        Fold repeats
      </button>
      <button
        type="button"
        className="button"
        aria-pressed={shown.path}
        data-testid="draw-path"
        title="Draw the critical path: what the trace waited for at every moment (c)"
        onClick={() => setPath(!shown.path)}
      >
        Critical path
      </button>
      <button
        type="button"
        className="button"
        aria-pressed={shown.merge}
        data-testid="merge"
        title="One line for both sides of a hop, with the network's time between them (m)"
        onClick={() => setMerge(!shown.merge)}
      >
        Merge hops
      </button>
      {trace.clocks.some((clock) => clock.notable) && (
        <button
          type="button"
          className="button"
          aria-pressed={shown.aligned}
          data-testid="align"
          title="Draw all hosts by the clock of the first, as far as their calls tell how far apart they are"
          onClick={() => setAligned(!shown.aligned)}
        >
          Align clocks
        </button>
      )}
      <Legend />
    </div>
  );
}

function Legend() {
  return (
    <div className="legend" aria-hidden="true">
      <span>
        <CaptureTag capture="client-process" /> client
      </span>
      <span>
        <CaptureTag capture="server-process" /> server
      </span>
      <span>
        <CaptureTag capture="app" /> sdk
      </span>
      <span>
        <svg width="22" height="8">
          <path d="M0 4.5h22" stroke="currentColor" />
        </svg>
        certain
      </span>
      <span className="warn-text">
        <svg width="22" height="8">
          <path d="M0 4.5h22" stroke="currentColor" strokeWidth="1.4" strokeDasharray="3 2.5" />
        </svg>
        guess
      </span>
    </div>
  );
}
