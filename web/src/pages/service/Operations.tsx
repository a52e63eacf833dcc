import { Link } from "../../app/router";
import { formatDuration } from "../../model/duration";
import { formatRate, formatShare, plural } from "../../model/number";
import { failedShare, middle } from "../../model/series";
import type { Red } from "../../model/series";
import { Spark } from "../../parts/Spark";
import { withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

const MOST_OPERATIONS = 50;

export function Operations(props: {
  service: string;
  red: readonly Red[];
  /** The length of time that rates are over. */
  seconds: number;
  range: PageRange;
}) {
  const all = [...props.red].sort((a, b) => b.requests - a.requests);
  return (
    <section className="card" aria-labelledby="operations-title" data-testid="operations">
      <h2 id="operations-title">Operations</h2>
      <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of operations">
        <table className="red-table">
          <thead>
            <tr>
              <th scope="col">Operation</th>
              <th scope="col">Requests</th>
              <th scope="col">Errors</th>
              <th scope="col" title="The middle of the 95th percentiles of all steps">
                p95
              </th>
            </tr>
          </thead>
          <tbody>
            {all.slice(0, MOST_OPERATIONS).map((one) => (
              <Row key={one.name} {...props} red={one} />
            ))}
          </tbody>
        </table>
      </div>
      {all.length > MOST_OPERATIONS && (
        <p className="folded quiet">
          {plural(all.length - MOST_OPERATIONS, "more operation")} with fewer requests.
        </p>
      )}
    </section>
  );
}

function Row(props: { red: Red; service: string; seconds: number; range: PageRange }) {
  const { red } = props;
  const rate = formatRate(red.requests / props.seconds);
  const share = failedShare(red);
  const typical = middle(red.latency.values);
  const latency = typical === null ? "–" : formatDuration(typical * 1e9);
  return (
    <tr data-operation={red.name}>
      <th scope="row">
        <Link
          className="cut"
          to={withRange("/search", props.range, { service: props.service, operation: red.name })}
        >
          {red.name}
        </Link>
      </th>
      <td className="number">
        <Spark values={red.rate.values} tone="rate" text={`Requests over time: ${rate}`} />
        <span>{rate}</span>
      </td>
      <td className={`number${share > 0 ? " is-error" : ""}`}>
        <Spark values={red.errors.values} tone="error" top={1} text="Errors over time" />
        <span>{formatShare(share)}</span>
      </td>
      <td className="number">
        <Spark values={red.latency.values} tone="latency" text={`p95 over time: ${latency}`} />
        <span>{latency}</span>
      </td>
    </tr>
  );
}
