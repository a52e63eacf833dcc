import type { TracePage } from "../../api/types";
import { formatCount } from "../../model/number";

/** Loads spans that are not loaded yet; null if there are none. */
export interface More {
  busy: boolean;
  failed: boolean;
  after: (() => void) | null;
  before: (() => void) | null;
}

/** Shows which spans of the trace are loaded. Scrolling loads the others. */
export function Progress(props: {
  trace: TracePage;
  more: More;
  stopped: boolean;
  onGo: () => void;
}) {
  const { trace, more } = props;
  const to = trace.first + trace.spans.length;
  return (
    <div
      className="progress"
      role="status"
      data-testid="progress"
      data-first={trace.first}
      data-to={to}
    >
      <span>
        Spans {formatCount(trace.first + 1)} – {formatCount(to)} of {formatCount(trace.span_count)}
      </span>
      {more.failed && !more.busy ? (
        <button type="button" className="button tiny" onClick={props.onGo}>
          The next did not come. Try again
        </button>
      ) : props.stopped ? (
        <button type="button" className="button tiny" onClick={props.onGo}>
          Look through the next
        </button>
      ) : (
        <span className="quiet">{more.busy ? "loading…" : "scroll for more"}</span>
      )}
    </div>
  );
}
