import type { Ref } from "react";
import type { TracePage } from "../../api/types";
import { plural } from "../../model/number";
import { CaptureTag } from "../../parts/CaptureTag";
import { setAligned, setFilter, setMerge } from "./state";
import type { Shown } from "./state";

/** Controls for the view of the trace, and the meaning of its symbols. */
export function TraceTools(props: {
  trace: TracePage;
  shown: Shown;
  found: number;
  findRef: Ref<HTMLInputElement>;
  onOpenAll: () => void;
  onCloseAll: () => void;
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
          spellCheck={false}
          autoComplete="off"
        />
        {shown.filter !== "" && <span className="label">{plural(props.found, "span")}</span>}
      </div>
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
