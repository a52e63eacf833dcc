import { useEffect, useMemo, useRef, useState } from "react";
import type { SearchAnswer, ServiceShare, Sort, TraceError, TraceSummary } from "../../api/types";
import { useServiceStyle } from "../../app/palette";
import { cameBack, Link, navigate, setParams } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { found, leave, useScroll } from "../../app/visit";
import { useZone } from "../../app/zone";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, plural } from "../../model/number";
import { outcome } from "../../model/outcome";
import { formatAge, formatDate, formatMoment, formatSecond, milliseconds } from "../../model/time";
import { Prose } from "../../parts/Prose";
import { useNow } from "../../parts/useNow";
import { coveredText } from "./covered";
import { rootOf } from "./root";

export function Results(props: {
  answer: SearchAnswer;
  visit: string;
  ready: boolean;
  /** Whether the server can order otherwise than by start. */
  fixedOrder?: boolean;
}) {
  const { traces, sort, covered, older_end_unix_nano: olderEnd } = props.answer;
  const now = useNow();
  const zone = useZone();
  // The selection is kept by trace id, because a live list moves.
  const [chosen, setChosen] = useState(() => String(found(props.visit, "chosen") ?? ""));
  const lastAt = useRef(-1);
  const list = useRef<HTMLDivElement>(null);
  useScroll(list, props.visit, "results", props.ready);
  const slowest = useMemo(
    () => traces.reduce((most, trace) => Math.max(most, nano(trace.duration_nano)), 1),
    [traces],
  );
  const failed = traces.filter((trace) => trace.status === "error").length;
  const at = traces.findIndex((trace) => trace.trace_id === chosen);
  if (at >= 0) lastAt.current = at;
  const choose = (id: string) => {
    setChosen(id);
    leave(props.visit, "chosen", id);
  };
  const move = (by: number) => {
    // If the selected trace has left the list, the trace that took its place is next.
    const from = at >= 0 ? at : lastAt.current >= 0 ? lastAt.current - Math.max(0, by) : -1;
    const next = traces[Math.max(0, Math.min(traces.length - 1, from + by))];
    if (next) choose(next.trace_id);
  };
  const next = () => move(1);
  const previous = () => move(-1);
  useShortcuts({
    j: next,
    f: next,
    ArrowDown: next,
    k: previous,
    b: previous,
    ArrowUp: previous,
    Enter: () => at >= 0 && navigate(`/trace/${chosen}`),
    Escape: () => choose(""),
  });
  // After Back, the focus is where it was, so that Tab continues from there.
  useEffect(() => {
    if (cameBack() && document.activeElement?.matches("body, main")) {
      list.current?.querySelector<HTMLElement>(".chosen")?.focus({ preventScroll: true });
    }
  }, []);
  const moved = useRef(chosen);
  useEffect(() => {
    const left = found(props.visit, "chosen");
    if (left === undefined) return;
    moved.current = String(left);
    setChosen(String(left));
  }, [props.visit]);
  useEffect(() => {
    if (moved.current === chosen) return;
    moved.current = chosen;
    const row = list.current?.querySelector<HTMLElement>(".chosen");
    // Moves the focus too, so that Tab and Enter continue from this row.
    row?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return (
    <div className="results" ref={list} data-testid="results" data-count={traces.length}>
      <div className={`covered${covered.complete ? "" : " warn-text"}`} data-testid="covered">
        <b>{plural(traces.length, "trace")}</b>
        {failed > 0 && <span className="is-error">{formatCount(failed)} failed</span>}
        <span data-complete={covered.complete}>{coveredText(sort, covered, now, zone)}</span>
      </div>
      {props.answer.warnings.map((warning) => (
        <div key={warning} className="notice warn" data-testid="search-warning">
          <span>
            <Prose text={warning} />
          </span>
        </div>
      ))}
      <div className="results-head">
        <span>Trace</span>
        <span>Services</span>
        <SortButton sort="largest" now={sort} name="Spans" fixed={props.fixedOrder} />
        <SortButton sort="errors" now={sort} name="Errors" fixed={props.fixedOrder} />
        <SortButton sort="slowest" now={sort} name="Duration" fixed={props.fixedOrder} />
        <SortButton sort="newest" now={sort} name="Started" fixed={props.fixedOrder} />
      </div>
      {traces.map((trace) => (
        <Result
          key={trace.trace_id}
          trace={trace}
          slowest={slowest}
          now={now}
          chosen={trace.trace_id === chosen}
          onOpen={() => {
            moved.current = trace.trace_id;
            choose(trace.trace_id);
          }}
        />
      ))}
      <div className="results-foot">
        {olderEnd !== null ? (
          <>
            There are older ones.
            <button
              className="button"
              type="button"
              data-testid="older"
              onClick={() => setParams({ end: olderEnd, live: null }, "push")}
            >
              Show them
            </button>
          </>
        ) : (
          <span className="label">
            {sort === "newest"
              ? "That is all."
              : "The first of this order; narrow the search for others."}
          </span>
        )}
      </div>
    </div>
  );
}

function SortButton(props: { sort: Sort; now: Sort; name: string; fixed: boolean | undefined }) {
  const on = props.sort === props.now;
  if (props.fixed) return <span className="number">{on ? `↓ ${props.name}` : props.name}</span>;
  return (
    <button
      type="button"
      className="number"
      aria-pressed={on}
      title={`${props.sort === "errors" ? "Most errors" : props.sort} first, of all that fit`}
      data-testid={`sort-${props.sort}`}
      onClick={() => setParams({ sort: props.sort === "newest" ? null : props.sort }, "push")}
    >
      {on ? "↓ " : ""}
      {props.name}
    </button>
  );
}

function Result(props: {
  trace: TraceSummary;
  slowest: number;
  now: number;
  chosen: boolean;
  onOpen: () => void;
}) {
  const { trace, now } = props;
  const zone = useZone();
  const serviceStyle = useServiceStyle();
  const duration = nano(trace.duration_nano);
  const started = milliseconds(trace.start_unix_nano);
  const root = rootOf(trace);
  return (
    <Link
      to={`/trace/${trace.trace_id}`}
      className={`result${trace.status === "error" ? " failed" : ""}${props.chosen ? " chosen" : ""}`}
      style={serviceStyle(root.service)}
      aria-current={props.chosen || undefined}
      data-testid="result"
      data-trace-id={trace.trace_id}
      data-service={root.service}
      data-operation={root.operation}
      data-spans={trace.spans}
      data-errors={trace.errors}
      data-duration={trace.duration_nano}
      data-start={trace.start_unix_nano}
      data-services={trace.services.map((service) => service.name).join(" ")}
      onClick={props.onOpen}
    >
      <span className="what">
        <span className="from cut" title={root.service}>
          {root.service}
        </span>
        <b className="cut" title={root.operation}>
          {root.operation}
        </b>
        {!trace.complete && (
          <span
            className="badge"
            title="The parent of a span of this trace is missing: it may still arrive"
          >
            partial
          </span>
        )}
        {trace.uncertain_links > 0 && (
          <span
            className={trace.doubtful ? "badge warn" : "label"}
            title={`${plural(trace.uncertain_links, "link")} of this trace ${trace.uncertain_links === 1 ? "is" : "are"} a guess`}
          >
            ~{formatCount(trace.uncertain_links)}
          </span>
        )}
      </span>
      <Chips services={trace.services} />
      <span className="spans number quiet">
        {formatCount(trace.spans)}
        <span className="unit"> {trace.spans === 1 ? "span" : "spans"}</span>
      </span>
      <span className="errors number">
        {trace.errors > 0 ? (
          <span className="badge error">{formatCount(trace.errors)}</span>
        ) : (
          <span className="quiet">–</span>
        )}
      </span>
      <span className="time">
        <span className="track">
          <i style={{ width: `${(100 * duration) / props.slowest}%` }} />
        </span>
        <span className="number">{formatDuration(duration)}</span>
      </span>
      <span className="started number quiet" title={formatMoment(started, zone)}>
        {formatSecond(started, now, zone)}
        {formatDate(started, zone) === formatDate(now, zone) && (
          <span className="age"> · {formatAge(started, now)}</span>
        )}
      </span>
      {trace.error && <Why error={trace.error} />}
    </Link>
  );
}

/** The failure that is nearest to the cause: service, operation, code and text. */
function Why({ error }: { error: TraceError }) {
  const { text } = outcome({
    status: "error",
    ...(error.status_code !== null && { status_code: error.status_code }),
    ...(error.text !== null && { error: error.text }),
  });
  return (
    <span
      className="why cut"
      data-testid="why"
      title={`${error.service} ${error.operation}: ${text}`}
    >
      <span className="from">
        {error.service} {error.operation}
      </span>
      {error.side === "client" && <span className="quiet"> was told</span>}{" "}
      <span className="is-error">{text}</span>
    </span>
  );
}

function Chips({ services }: { services: readonly ServiceShare[] }) {
  const serviceStyle = useServiceStyle();
  const all = services.map((service) => `${service.name}: ${plural(service.spans, "span")}`);
  return (
    <span className="chips" title={all.join("\n")}>
      {services.map((service) => (
        <span
          key={service.name}
          className={`service${service.errors > 0 ? " failed" : ""}`}
          style={serviceStyle(service.name)}
        >
          <span className="swatch" /> {service.name}
        </span>
      ))}
    </span>
  );
}
