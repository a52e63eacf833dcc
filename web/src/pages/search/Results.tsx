import { useEffect, useMemo, useRef, useState } from "react";
import type { Nano, ServiceShare, TraceSummary } from "../../api/types";
import { Link, navigate, setParams } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, plural } from "../../model/number";
import { formatAge, formatTime, milliseconds } from "../../model/time";
import { serviceStyle } from "../../parts/Service";
import { useNow } from "../../parts/useNow";
import type { Sort } from "./question";

const ORDER: Record<Sort, (a: TraceSummary, b: TraceSummary) => number> = {
  newest: () => 0,
  slowest: (a, b) => nano(b.duration_nano) - nano(a.duration_nano),
  spans: (a, b) => b.spans - a.spans,
  errors: (a, b) => b.errors - a.errors,
};

export function Results(props: {
  traces: readonly TraceSummary[];
  sort: Sort;
  olderEnd: Nano | null;
}) {
  const now = useNow();
  const [chosen, setChosen] = useState(-1);
  const list = useRef<HTMLDivElement>(null);
  const sorted = useMemo(
    () => [...props.traces].sort(ORDER[props.sort]),
    [props.traces, props.sort],
  );
  const slowest = useMemo(
    () => props.traces.reduce((most, trace) => Math.max(most, nano(trace.duration_nano)), 1),
    [props.traces],
  );
  const failed = props.traces.filter((trace) => trace.status === "error").length;
  const move = (by: number) => setChosen((at) => Math.max(0, Math.min(sorted.length - 1, at + by)));
  const next = () => move(1);
  const previous = () => move(-1);
  useShortcuts({
    j: next,
    f: next,
    ArrowDown: next,
    k: previous,
    b: previous,
    ArrowUp: previous,
    Enter: () => sorted[chosen] && navigate(`/trace/${sorted[chosen].trace_id}`),
    Escape: () => setChosen(-1),
  });
  useEffect(() => {
    list.current?.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return (
    <div className="results" ref={list} data-testid="results" data-count={sorted.length}>
      <div className="results-head">
        <span>
          <b>{plural(sorted.length, "trace")}</b>
          {failed > 0 && <span className="is-error"> · {formatCount(failed)} failed</span>}
        </span>
        <span>Services</span>
        <SortButton sort="spans" now={props.sort} name="Spans" className="number" />
        <SortButton sort="errors" now={props.sort} name="Errors" className="number" />
        <SortButton sort="slowest" now={props.sort} name="Duration" className="number" />
        <SortButton sort="newest" now={props.sort} name="Age" className="number" />
      </div>
      {sorted.map((trace, at) => (
        <Result
          key={trace.trace_id}
          trace={trace}
          slowest={slowest}
          now={now}
          chosen={at === chosen}
        />
      ))}
      <div className="results-foot">
        {props.olderEnd !== null ? (
          <>
            There are older ones.
            <button
              className="button"
              type="button"
              data-testid="older"
              onClick={() => setParams({ end: props.olderEnd, live: null })}
            >
              Show them
            </button>
          </>
        ) : (
          <span className="label">That is all.</span>
        )}
      </div>
    </div>
  );
}

function SortButton(props: { sort: Sort; now: Sort; name: string; className: string }) {
  const on = props.sort === props.now;
  return (
    <button
      type="button"
      className={props.className}
      aria-pressed={on}
      title={`Sort: ${props.sort} first`}
      onClick={() => setParams({ sort: props.sort === "newest" ? null : props.sort })}
    >
      {on ? "↓ " : ""}
      {props.name}
    </button>
  );
}

function Result(props: { trace: TraceSummary; slowest: number; now: number; chosen: boolean }) {
  const { trace } = props;
  const duration = nano(trace.duration_nano);
  const started = milliseconds(trace.start_unix_nano);
  return (
    <Link
      to={`/trace/${trace.trace_id}`}
      className={`result${trace.status === "error" ? " failed" : ""}${props.chosen ? " chosen" : ""}`}
      style={serviceStyle(trace.root.service)}
      data-testid="result"
      data-trace-id={trace.trace_id}
      data-service={trace.root.service}
      data-operation={trace.root.operation}
      data-spans={trace.spans}
      data-errors={trace.errors}
      data-services={trace.services.map((service) => service.name).join(" ")}
    >
      <span className="what">
        <span className="from cut" title={trace.root.service}>
          {trace.root.service}
        </span>
        <b className="cut" title={trace.root.operation}>
          {trace.root.operation}
        </b>
        {trace.uncertain_links > 0 && (
          <span
            className="badge warn"
            title={`${plural(trace.uncertain_links, "link")} of this trace ${trace.uncertain_links === 1 ? "is" : "are"} not certain`}
          >
            {trace.uncertain_links}?
          </span>
        )}
        {!trace.complete && (
          <span className="badge" title="Spans of this trace may still be arriving">
            partial
          </span>
        )}
      </span>
      <Chips services={trace.services} />
      <span className="number quiet">{formatCount(trace.spans)}</span>
      <span className="number">
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
      <span className="number quiet" title={formatTime(started, props.now)}>
        {formatAge(started, props.now)}
      </span>
    </Link>
  );
}

function Chips({ services }: { services: readonly ServiceShare[] }) {
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
