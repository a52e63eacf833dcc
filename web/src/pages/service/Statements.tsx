import { useCalls } from "../../api/red";
import type { Call } from "../../api/red";
import { Link } from "../../app/router";
import { formatDuration } from "../../model/duration";
import { formatCount, formatShare, plural } from "../../model/number";
import { failedShare, middle } from "../../model/series";
import { Failure } from "../../parts/Blank";
import { withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

const MOST_CALLS = 15;

/** What a service waits for: its statements, commands, topics and requests, by their time. */
export function Statements({ service, range }: { service: string; range: PageRange }) {
  const { data, error } = useCalls(service, range.on);
  if (error) return <Failure error={error} />;
  if (!data || data.length === 0) return null;
  const all = data.reduce((sum, one) => sum + one.totalSeconds, 0);
  return (
    <section className="card" aria-labelledby="statements-title" data-testid="statements">
      <h2 id="statements-title">What it waits for: statements, commands, topics, requests</h2>
      <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of calls">
        <table className="red-table">
          <thead>
            <tr>
              <th scope="col">Call</th>
              <th scope="col">Calls</th>
              <th scope="col">Errors</th>
              <th scope="col" title="The middle of the 95th percentiles of all steps">
                p95
              </th>
              <th scope="col" title="Of the time that all calls took together">
                Share of time
              </th>
              <th scope="col" title="Of examples">
                Longest
              </th>
            </tr>
          </thead>
          <tbody>
            {data.slice(0, MOST_CALLS).map((one) => (
              <Row key={one.red.name} call={one} all={all} service={service} range={range} />
            ))}
          </tbody>
        </table>
      </div>
      {data.length > MOST_CALLS && (
        <p className="folded quiet">
          {plural(data.length - MOST_CALLS, "more call")} with less time.
        </p>
      )}
    </section>
  );
}

function Row(props: { call: Call; all: number; service: string; range: PageRange }) {
  const { red, totalSeconds } = props.call;
  const share = failedShare(red);
  const typical = middle(red.latency.values);
  const longest = red.latency.exemplars.toSorted((a, b) => b.value - a.value)[0];
  const search = { service: props.service, operation: red.name, sort: "slowest" };
  return (
    <tr data-call={red.name}>
      <th scope="row">
        <Link className="cut" to={withRange("/search", props.range, search)}>
          {red.name}
        </Link>
      </th>
      <td className="number">{formatCount(Math.round(red.requests))}</td>
      <td className={`number${share > 0 ? " is-error" : ""}`}>{formatShare(share)}</td>
      <td className="number">{typical === null ? "–" : formatDuration(typical * 1e9)}</td>
      <td className="number">{formatShare(props.all > 0 ? totalSeconds / props.all : 0)}</td>
      <td className="number">
        {!longest && "–"}
        {longest && (
          <Link to={`/trace/${longest.traceId}?span=${longest.spanId}`}>
            {formatDuration(longest.value * 1e9)}
          </Link>
        )}
      </td>
    </tr>
  );
}
