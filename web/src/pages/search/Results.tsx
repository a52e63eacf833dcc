import { useEffect, useMemo, useRef, useState } from "react";
import type { CSSProperties } from "react";
import type { SearchAnswer, ServiceShare, Sort, TraceError, TraceSummary } from "../../api/types";
import { useServiceStyle } from "../../app/palette";
import { cameBack, Link, navigate, setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { found, leave, useScroll } from "../../app/visit";
import { useZone } from "../../app/zone";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, plural } from "../../model/number";
import { outcome } from "../../model/outcome";
import { formatAge, formatDate, formatMoment, formatSecond, milliseconds } from "../../model/time";
import { Prose } from "../../parts/Prose";
import { useNow } from "../../parts/useNow";
import { ColumnMenu } from "./ColumnMenu";
import { COLUMNS, columnsOf, PARAM } from "./columns";
import type { ColumnId } from "./columns";
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
  const columns = columnsOf(usePlace().params.get(PARAM));
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
    <div
      className="results"
      ref={list}
      style={layout(columns)}
      data-testid="results"
      data-count={traces.length}
    >
      <div className={`covered${covered.complete ? "" : " warn-text"}`} data-testid="covered">
        <b>{plural(traces.length, "trace")}</b>
        {failed > 0 && <span className="is-error">{formatCount(failed)} failed</span>}
        <span data-complete={covered.complete}>{coveredText(sort, covered, now, zone)}</span>
        <ColumnMenu shown={columns} />
      </div>
      {props.answer.warnings.map((warning) => (
        <div key={warning} className="notice warn" data-testid="search-warning">
          <span>
            <Prose text={warning} />
          </span>
        </div>
      ))}
      <div className="results-head" data-testid="results-head">
        <span>Trace</span>
        {COLUMNS.map(([id, name]) => {
          if (!columns.includes(id)) return null;
          const order = ORDERS[id];
          return order === undefined ? (
            <span key={id} data-column={id}>
              {name}
            </span>
          ) : (
            <SortButton
              key={id}
              column={id}
              sort={order}
              now={sort}
              name={name}
              fixed={props.fixedOrder}
            />
          );
        })}
      </div>
      {traces.map((trace) => (
        <Result
          key={trace.trace_id}
          trace={trace}
          columns={columns}
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

/** The columns by which the server orders. */
const ORDERS: Partial<Record<ColumnId, Sort>> = {
  spans: "largest",
  errors: "errors",
  duration: "slowest",
  started: "newest",
};

/** The grid of the lines, for the style sheet. */
const layout = (columns: readonly ColumnId[]) =>
  ({
    "--areas": `"${["what", ...columns].join(" ")}"`,
    "--widths": ["what", ...columns].map((one) => `var(--${one}-width)`).join(" "),
  }) as CSSProperties;

function SortButton(props: {
  column: ColumnId;
  sort: Sort;
  now: Sort;
  name: string;
  fixed: boolean | undefined;
}) {
  const on = props.sort === props.now;
  if (props.fixed) {
    return (
      <span className="number" data-column={props.column}>
        {on ? `↓ ${props.name}` : props.name}
      </span>
    );
  }
  return (
    <button
      type="button"
      className="number"
      data-column={props.column}
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
  columns: readonly ColumnId[];
  slowest: number;
  now: number;
  chosen: boolean;
  onOpen: () => void;
}) {
  const { trace, columns, now } = props;
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
      {columns.includes("services") && <Chips services={trace.services} />}
      {columns.includes("protocols") && (
        <span className="protocols cut quiet" title={trace.protocols.join(", ")}>
          {trace.protocols.join(", ")}
        </span>
      )}
      {columns.includes("spans") && (
        <span className="spans number quiet">
          {formatCount(trace.spans)}
          <span className="unit"> {trace.spans === 1 ? "span" : "spans"}</span>
        </span>
      )}
      {columns.includes("errors") && (
        <span className="errors number">
          {trace.errors > 0 ? (
            <span className="badge error">{formatCount(trace.errors)}</span>
          ) : (
            <span className="quiet">–</span>
          )}
        </span>
      )}
      {columns.includes("duration") && (
        <span className="time">
          <span className="track">
            <i style={{ width: `${(100 * duration) / props.slowest}%` }} />
          </span>
          <span className="number">{formatDuration(duration)}</span>
        </span>
      )}
      {columns.includes("started") && (
        <span className="started number quiet" title={formatMoment(started, zone)}>
          {formatSecond(started, now, zone)}
          {formatDate(started, zone) === formatDate(now, zone) && (
            <span className="age"> · {formatAge(started, now)}</span>
          )}
        </span>
      )}
      {columns.includes("id") && (
        <span className="id mono cut quiet" title={trace.trace_id}>
          {trace.trace_id}
        </span>
      )}
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
