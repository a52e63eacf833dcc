import type { Trace } from "../../api/types";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, formatShare, plural } from "../../model/number";
import { formatTime, milliseconds } from "../../model/time";
import { uncertain } from "../../model/tree";
import type { Tree } from "../../model/tree";
import { Copy } from "../../parts/Copy";
import { Prose } from "../../parts/Prose";
import { serviceStyle } from "../../parts/Service";
import { setFilter } from "./state";

export function TraceHead({ tree, filter }: { tree: Tree; filter: string }) {
  const { trace } = tree;
  const root = trace.spans[0];
  const errors = trace.spans.filter((span) => span.status === "error").length;
  const doubtful = uncertain(trace);
  return (
    <header className="trace-head">
      <div className="trace-title">
        <h1 className="cut" title={root ? `${root.service} ${root.operation}` : trace.trace_id}>
          <span className="from">{root?.service}</span>
          <span className="cut">{root?.operation ?? "A trace without spans"}</span>
        </h1>
        <div className="actions">
          <Copy className="button" text={window.location.href} label="Link" />
          <button
            className="button"
            type="button"
            onClick={() => download(trace)}
            title="Download this trace as JSON"
          >
            JSON
          </button>
        </div>
      </div>
      <div className="facts">
        <span data-testid="trace-duration">
          <b>{formatDuration(tree.aligned ? tree.length : nano(trace.duration_nano))}</b>
          {tree.aligned && " with clocks aligned"}
        </span>
        <span>{formatTime(milliseconds(trace.start_unix_nano), Date.now())}</span>
        <span>
          <b>{formatCount(trace.span_count)}</b> {trace.span_count === 1 ? "span" : "spans"}
        </span>
        <span>
          <b>{trace.services.length}</b> {trace.services.length === 1 ? "service" : "services"}
        </span>
        <span>
          <b>{tree.depth + 1}</b> deep
        </span>
        {errors > 0 && (
          <span className="is-error">
            <b>{formatCount(errors)}</b> {errors === 1 ? "error" : "errors"}
          </span>
        )}
        {doubtful > 0 && (
          <span
            className="warn-text"
            title="Spans whose parent is a guess, or was not chosen because several could be it"
          >
            <b>{doubtful}</b> uncertain {doubtful === 1 ? "link" : "links"}
          </span>
        )}
        <span className="id">
          <code className="quiet" data-testid="trace-id">
            {trace.trace_id}
          </code>
          <Copy text={trace.trace_id} />
        </span>
      </div>
      {trace.warnings.length > 0 && (
        <div className="trace-warnings">
          {trace.warnings.slice(0, 3).map((warning) => (
            <div key={warning} className="notice warn" data-testid="warning">
              {/* One child: the notice lays out its children side by side. */}
              <span>
                <Prose text={warning} />
              </span>
            </div>
          ))}
          {trace.warnings.length > 3 && (
            <span className="label" title={trace.warnings.slice(3).join("\n")}>
              and {plural(trace.warnings.length - 3, "more warning", "more warnings")}
            </span>
          )}
        </div>
      )}
      <Sums trace={trace} filter={filter} />
    </header>
  );
}

/** How the time is shared: each service's own time. */
function Sums({ trace, filter }: { trace: Trace; filter: string }) {
  const total = trace.services.reduce((sum, service) => sum + nano(service.busy_nano), 0) || 1;
  const sorted = [...trace.services].sort((a, b) => nano(b.busy_nano) - nano(a.busy_nano));
  return (
    <>
      <div className="sums" aria-hidden="true">
        {sorted.map((service) => (
          <i
            key={service.name}
            style={{ ...serviceStyle(service.name), flexGrow: nano(service.busy_nano) / total }}
          />
        ))}
      </div>
      <div className="sum-legend" role="group" aria-label="Own time of each service">
        {sorted.map((service) => (
          <button
            key={service.name}
            type="button"
            style={serviceStyle(service.name)}
            aria-pressed={filter === service.name}
            title={`${service.name}: ${plural(service.spans, "span")}, ${plural(service.errors, "error")}. Click shows only these.`}
            onClick={() => setFilter(filter === service.name ? "" : service.name)}
          >
            <span className="swatch" />
            <span className={service.errors > 0 ? "is-error" : ""}>{service.name}</span>
            <span className="quiet">
              {formatDuration(nano(service.busy_nano))} ·{" "}
              {formatShare(nano(service.busy_nano) / total)}
            </span>
          </button>
        ))}
      </div>
    </>
  );
}

function download(trace: Trace): void {
  const url = URL.createObjectURL(
    new Blob([JSON.stringify(trace, null, 1)], { type: "application/json" }),
  );
  const link = document.createElement("a");
  link.href = url;
  link.download = `trace-${trace.trace_id}.json`;
  link.click();
  URL.revokeObjectURL(url);
}
