import { useState } from "react";
import { ApiError } from "../../api/client";
import { useLive } from "../../api/live";
import type { LiveSpan } from "../../model/live";
import { Link, setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { useZone } from "../../app/zone";
import { formatDuration } from "../../model/duration";
import { plural } from "../../model/number";
import { formatTime, milliseconds } from "../../model/time";
import { faultIn } from "../../model/traceql";
import { Blank, Failure } from "../../parts/Blank";
import { QueryBox } from "../../parts/QueryBox";
import { Service } from "../../parts/Service";
import { usePageRange } from "../../parts/range";

const QUERIES: readonly [name: string, query: string][] = [
  ["Everything", "{ }"],
  ["Requests", "{ kind = server }"],
  ["Failures", "{ status = error }"],
  ["Slower than 100 ms", "{ duration > 100ms }"],
];

/** Spans that fit a query, as they come. */
export default function LivePage() {
  const { params } = usePlace();
  const query = params.get("q") ?? "{ }";
  const [paused, setPaused] = useState(false);
  const live = useLive(query, paused);
  const range = usePageRange();
  useShortcuts({ p: () => setPaused(!paused) });
  const fault =
    live.error instanceof ApiError && live.error.status === 400
      ? faultIn(live.error.message)
      : null;
  const { tail } = live;
  const ask = (q: string) => setParams({ q: q === "{ }" || q === "" ? null : q }, "push");
  return (
    <main
      className="page live"
      tabIndex={-1}
      data-testid="live-page"
      data-paused={paused}
      data-arrived={tail.arrived}
    >
      <div className="live-head">
        <h1>Live</h1>
        <QueryBox key={query} query={query} on={range.on} fault={fault} onAsk={ask} />
        <button
          type="button"
          className="button"
          aria-pressed={paused}
          title="Pause and go on (p)"
          data-testid="pause"
          onClick={() => setPaused(!paused)}
        >
          {paused ? "Go on" : "Pause"}
        </button>
        <Link className="button" to={`/search?q=${encodeURIComponent(query)}`}>
          Search for them
        </Link>
        <span className="segments" role="group" aria-label="Queries">
          {QUERIES.map(([name, one]) => (
            <button
              key={one}
              type="button"
              className="button"
              aria-pressed={query === one}
              onClick={() => ask(one)}
            >
              {name}
            </button>
          ))}
        </span>
        <p className="quiet" role="status" data-testid="live-sum">
          {paused ? "Paused. " : ""}
          {plural(tail.arrived, "span")} since this page was opened, the minute before included
          {tail.dropped > 0 && `; the oldest ${plural(tail.dropped, "span")} are no longer listed`}.
        </p>
      </div>
      {live.overflowed && (
        <div className="notice warn">
          More spans fit than can be followed, and some are not shown. Narrow the query, for example
          to one service.
        </div>
      )}
      {live.error && fault === null && <Failure error={live.error} />}
      {tail.spans.length === 0 && !live.error && (
        <Blank
          title={live.asked ? "No span fits so far" : "Waiting for spans"}
          busy={!paused && !live.asked}
        >
          {live.asked && <p>It goes on asking every two seconds.</p>}
        </Blank>
      )}
      {tail.spans.length > 0 && <Lines spans={tail.spans} />}
    </main>
  );
}

function Lines({ spans }: { spans: readonly LiveSpan[] }) {
  const zone = useZone();
  const now = Date.now();
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label="Spans as they come">
      <table className="live-table" data-testid="live-spans">
        <thead>
          <tr>
            <th scope="col">Start</th>
            <th scope="col">Service</th>
            <th scope="col">Operation</th>
            <th scope="col">Kind</th>
            <th scope="col">Duration</th>
          </tr>
        </thead>
        <tbody>
          {spans.map((span) => (
            <tr
              key={`${span.traceId} ${span.spanId}`}
              data-span={span.spanId}
              data-failed={span.failed}
              data-service={span.service}
            >
              <td className="mono">{formatTime(milliseconds(span.startUnixNano), now, zone)}</td>
              <td>
                <Service name={span.service} />
              </td>
              <th scope="row">
                <Link className="cut" to={`/trace/${span.traceId}?span=${span.spanId}`}>
                  {span.operation || "unnamed"}
                </Link>
              </th>
              <td className="quiet">{span.kind}</td>
              <td className={`number${span.failed ? " is-error" : ""}`}>
                {formatDuration(span.durationNano)}
                {span.failed && <span className="unseen"> failed</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
