import type { TracePage } from "../../api/types";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, formatShare, plural } from "../../model/number";
import { formatMoment, milliseconds } from "../../model/time";
import { isWhole } from "../../api/pages";
import { useServiceStyle } from "../../app/palette";
import { useZone } from "../../app/zone";
import { uncertain } from "../../model/tree";
import type { Tree } from "../../model/tree";
import { Copy } from "../../parts/Copy";
import { Prose } from "../../parts/Prose";
import { Export } from "./Export";
import { setFilter } from "./state";

export function TraceHead(props: {
  tree: Tree;
  filter: string;
  missing: string | null;
  local: boolean;
}) {
  const { tree, filter } = props;
  const { trace } = tree;
  const zone = useZone();
  // The first span of a later page is not the trace's root.
  const root = trace.first === 0 ? trace.spans[0] : undefined;
  const errors = trace.error_count;
  // Counted only if all spans are loaded: the count of a part would be wrong.
  const doubtful = isWhole(trace) ? uncertain(trace) : 0;
  const nameless = trace.spans.length === 0 ? "A trace without spans" : `Trace ${trace.trace_id}`;
  return (
    <header className="trace-head">
      <div className="trace-title">
        <h1 className="cut" title={root ? `${root.service} ${root.operation}` : trace.trace_id}>
          <span className="from">{root?.service}</span>
          <span className="cut">{root?.operation ?? nameless}</span>
        </h1>
        <div className="actions">
          <Copy className="button" text={window.location.href} label="Link" />
          {!props.local && <Export id={trace.trace_id} />}
        </div>
      </div>
      <div className="facts">
        <span data-testid="trace-duration">
          <b>{formatDuration(tree.aligned ? tree.length : nano(trace.duration_nano))}</b>
          {tree.aligned && " with clocks aligned"}
        </span>
        <span data-testid="trace-start">
          {formatMoment(milliseconds(trace.start_unix_nano), zone)}
        </span>
        <span>
          <b data-testid="trace-spans">{formatCount(trace.span_count)}</b>{" "}
          {trace.span_count === 1 ? "span" : "spans"}
        </span>
        <span>
          <b>{trace.services.length}</b> {trace.services.length === 1 ? "service" : "services"}
        </span>
        <span>
          <b data-testid="trace-depth">{trace.depth}</b> deep
        </span>
        {errors > 0 && (
          <button
            type="button"
            className="fact is-error"
            title="Show only these"
            data-testid="trace-errors"
            onClick={() => setFilter(filter === "status:error" ? "" : "status:error")}
          >
            <b>{formatCount(errors)}</b> {errors === 1 ? "error" : "errors"}
          </button>
        )}
        {doubtful > 0 && (
          <span title="Spans whose parent is a guess, or was not chosen because several could be it">
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
      {props.missing !== null && (
        <div className="trace-warnings">
          <div className="notice warn" role="alert" data-testid="missing-span">
            <span>
              This trace has no span <code>{props.missing}</code>.
            </span>
          </div>
        </div>
      )}
      {trace.warnings.length > 0 && (
        <div className="trace-warnings">
          {trace.warnings.slice(0, 3).map((warning) => (
            <div key={warning} className="notice warn" data-testid="warning">
              <Prose text={warning} />
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

/** The own time of each service. */
function Sums({ trace, filter }: { trace: TracePage; filter: string }) {
  const serviceStyle = useServiceStyle();
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
