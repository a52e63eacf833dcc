import type { Graph } from "../../api/types";
import { Link } from "../../app/router";
import { formatDuration, nano } from "../../model/duration";
import { formatRate, formatShare } from "../../model/number";
import { Service } from "../../parts/Service";
import { withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

const WORDS = {
  callers: ["Called by", "Nobody was seen to call it in this time."],
  callees: ["Calls", "It was not seen to call anything in this time."],
} as const;

export function Calls(props: {
  graph: Graph;
  name: string;
  side: "callers" | "callees";
  range: PageRange;
}) {
  const { side, name } = props;
  const [title, none] = WORDS[side];
  const edges = props.graph.edges
    .filter((edge) => (side === "callers" ? edge.server : edge.client) === name)
    .sort((a, b) => b.requests - a.requests);
  return (
    <section className="card" aria-labelledby={`${side}-title`} data-testid={side}>
      <h2 id={`${side}-title`}>{title}</h2>
      {edges.length === 0 ? (
        <p className="quiet">{none}</p>
      ) : (
        <div className="scroll-x" tabIndex={0} role="group" aria-label={title}>
          <table className="red-table">
            <thead>
              <tr>
                <th scope="col">Service</th>
                <th scope="col">Calls</th>
                <th scope="col">Errors</th>
                <th scope="col">p95</th>
              </tr>
            </thead>
            <tbody>
              {edges.map((edge) => {
                const other = side === "callers" ? edge.client : edge.server;
                return (
                  <tr key={`${other} ${edge.protocol}`} data-other={other}>
                    <th scope="row">
                      <Link to={withRange(`/service/${encodeURIComponent(other)}`, props.range)}>
                        <Service name={other} />
                      </Link>
                      <span className="label"> {edge.protocol}</span>
                    </th>
                    <td className="number">{formatRate(edge.requests_per_second)}</td>
                    <td className={`number${edge.errors > 0 ? " is-error" : ""}`}>
                      {formatShare(edge.error_share)}
                    </td>
                    <td className="number">{formatDuration(nano(edge.p95_nano))}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
