import { useChains, useDependencies } from "../../api/queries";
import type { DependencyEdge } from "../../api/types";
import { Link } from "../../app/router";
import { formatDuration, nano } from "../../model/duration";
import { byService, verdictReason } from "../../model/dependencies";
import { formatCount, formatRate, formatShare, plural } from "../../model/number";
import { Failure } from "../../parts/Blank";
import { OperationLink, operationKey } from "../../parts/OperationLink";
import { Service } from "../../parts/Service";
import { withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

const MOST_ROWS = 12;

interface Of {
  service: string;
  range: PageRange;
}

/** What a service needs, and who needs it, with the strength of each dependency. */
export function Strengths({ service, range }: Of) {
  const answer = useDependencies(range, service);
  if (answer.error) return <Failure error={answer.error} />;
  const { needs, neededBy } = byService(answer.data?.edges ?? [], service);
  return (
    <div className="overview-pair">
      <Edges
        title="What it depends on"
        testid="needs"
        busy={answer.isPending}
        none="It was not seen to call anything as part of a whole trace."
        edges={needs}
        shown="called"
        service={service}
        range={range}
      />
      <Edges
        title="Who depends on it"
        testid="needed-by"
        busy={answer.isPending}
        none="Nobody was seen to call it as part of a whole trace."
        edges={neededBy}
        shown="caller"
        service={service}
        range={range}
      />
    </div>
  );
}

function Edges(
  props: Of & {
    title: string;
    testid: string;
    busy: boolean;
    none: string;
    edges: readonly DependencyEdge[];
    /** The other end of the edges. */
    shown: "called" | "caller";
  },
) {
  const { edges, shown, range, service } = props;
  return (
    <section className="card" aria-labelledby={`${props.testid}-title`} data-testid={props.testid}>
      <h2 id={`${props.testid}-title`}>
        {props.title}
        <Link className="button tiny" to={withRange("/dependencies", range, { service })}>
          All
        </Link>
      </h2>
      {edges.length === 0 ? (
        <p>{props.busy ? "Reading traces…" : props.none}</p>
      ) : (
        <div className="scroll-x" tabIndex={0} role="group" aria-label={props.title}>
          <table className="red-table row-table">
            <tbody>
              {edges.slice(0, MOST_ROWS).map((edge) => (
                <tr
                  key={`${operationKey(edge.caller)}\n${operationKey(edge.called)}`}
                  data-other={edge[shown].service}
                  data-verdict={edge.dependency.verdict}
                >
                  <th scope="row">
                    <OperationLink of={edge[shown]} range={range} />
                  </th>
                  <td className="number">{plural(edge.calls, "call")}</td>
                  <td className="number">
                    {plural(edge.dependency.failures, "failure")}
                    {edge.dependency.verdict !== "unknown" &&
                      `, ${formatShare(edge.dependency.confidence)} sure`}
                  </td>
                  <td className="number">
                    <span
                      className="verdict"
                      data-verdict={edge.dependency.verdict}
                      title={verdictReason(edge.dependency)}
                    >
                      {edge.dependency.verdict}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {edges.length > MOST_ROWS && (
        <p className="folded quiet">{plural(edges.length - MOST_ROWS, "more edge")}.</p>
      )}
    </section>
  );
}

/** The chains that a service takes part in. */
export function ChainsThrough({ service, range }: Of) {
  const answer = useChains(range, service);
  if (answer.error) return <Failure error={answer.error} />;
  const chains = answer.data?.chains ?? [];
  return (
    <section className="card" aria-labelledby="through-title" data-testid="chains-through">
      <h2 id="through-title">
        Chains through it
        <Link className="button tiny" to={withRange("/chains", range, { service })}>
          All
        </Link>
      </h2>
      {chains.length === 0 ? (
        <p>{answer.isPending ? "Reading traces…" : "No whole trace of this time has it."}</p>
      ) : (
        <div className="scroll-x" tabIndex={0} role="group" aria-label="Chains through it">
          <table className="red-table row-table">
            <thead>
              <tr>
                <th scope="col" className="words">
                  Entrance
                </th>
                <th scope="col">Rate</th>
                <th scope="col">Runs</th>
                <th scope="col">Errors</th>
                <th scope="col">p95</th>
              </tr>
            </thead>
            <tbody>
              {chains.slice(0, MOST_ROWS).map((chain) => (
                <tr key={chain.id} data-chain={chain.id}>
                  <th scope="row">
                    <Link to={withRange(`/chains/${chain.id}`, range)}>
                      <Service name={chain.service} />{" "}
                      <span className="cut">{chain.operation}</span>
                    </Link>
                  </th>
                  <td className="number">{formatRate(chain.runs_per_second)}</td>
                  <td className="number">{formatCount(chain.runs)}</td>
                  <td className={`number${chain.errors > 0 ? " is-error" : ""}`}>
                    {chain.errors > 0 ? formatShare(chain.error_share) : "–"}
                  </td>
                  <td className="number">{formatDuration(nano(chain.p95_nano))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {(answer.data?.total ?? 0) > Math.min(MOST_ROWS, chains.length) && (
        <p className="folded quiet">
          {plural(answer.data!.total - Math.min(MOST_ROWS, chains.length), "more chain")}.
        </p>
      )}
    </section>
  );
}
