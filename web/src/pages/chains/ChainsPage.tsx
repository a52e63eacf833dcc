import { useChains } from "../../api/queries";
import type { ChainSummary } from "../../api/types";
import { Link, usePlace } from "../../app/router";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, formatRate, formatShare, plural } from "../../model/number";
import { AnalysisPage } from "../../parts/AnalysisPage";
import { Blank } from "../../parts/Blank";
import { Only } from "../../parts/Only";
import { Service } from "../../parts/Service";
import { usePageRange, withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

/** Chains: traces of one shape. */
export function ChainsPage({ when }: { when: string }) {
  const { params } = usePlace();
  const range = usePageRange();
  const service = params.get("service") ?? "";
  const entrance = params.get("entrance") ?? "";
  const answer = useChains(range, service, entrance);
  const only = service || entrance;
  return (
    <AnalysisPage
      title="Chains"
      when={when}
      testid="chains"
      range={range}
      answer={answer}
      tools={
        only && (
          <>
            {service && <Only what="through" value={service} param="service" />}
            {entrance && <Only what="from" value={entrance} param="entrance" />}
          </>
        )
      }
    >
      {(list) =>
        list.chains.length === 0 ? (
          <Blank title="No chain of this service in this time">
            <p>A longer range of time may have some.</p>
          </Blank>
        ) : (
          <section className="card" aria-labelledby="chains-title">
            <h2 id="chains-title">
              Runs of one entrance with nearly the same calls
              <Link className="button tiny" to={withRange("/capacity", range)}>
                What if there were more?
              </Link>
            </h2>
            <List chains={list.chains} range={range} />
            {list.total > list.chains.length && (
              <p className="folded quiet">
                {plural(list.total - list.chains.length, "more chain")} with fewer runs.
              </p>
            )}
          </section>
        )
      }
    </AnalysisPage>
  );
}

function List(props: { chains: readonly ChainSummary[]; range: PageRange }) {
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of chains">
      <table className="red-table" data-testid="chains">
        <thead>
          <tr>
            <th scope="col">Entrance</th>
            <th scope="col">Rate</th>
            <th scope="col">Runs</th>
            <th scope="col">Errors</th>
            <th scope="col">p50</th>
            <th scope="col">p95</th>
            <th scope="col">p99</th>
            <th scope="col">Services</th>
            <th scope="col">Traces</th>
          </tr>
        </thead>
        <tbody>
          {props.chains.map((chain) => (
            <tr key={chain.id} data-chain={chain.id} data-runs={chain.runs}>
              <th scope="row">
                <Link to={withRange(`/chains/${chain.id}`, props.range)}>
                  <Service name={chain.service} /> <span>{chain.operation}</span>
                </Link>
              </th>
              <td className="number">{formatRate(chain.runs_per_second)}</td>
              <td className="number">{formatCount(chain.runs)}</td>
              <td className={`number ${chain.errors > 0 ? "is-error" : "quiet"}`}>
                {chain.errors > 0 ? formatShare(chain.error_share) : "–"}
              </td>
              <td className="number">{formatDuration(nano(chain.p50_nano))}</td>
              <td className="number">{formatDuration(nano(chain.p95_nano))}</td>
              <td className="number">{formatDuration(nano(chain.p99_nano))}</td>
              <td className="number">{formatCount(chain.services)}</td>
              <td className="number">
                <Examples chain={chain} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Links to a typical, a slow and a failed trace. */
export function Examples({ chain }: { chain: ChainSummary }) {
  const examples: readonly [name: string, id: string | null][] = [
    ["typical", chain.typical_trace],
    ["slow", chain.slow_trace],
    ["failed", chain.failed_trace],
  ];
  return (
    <span className="examples">
      {examples.map(([name, id]) =>
        id === null ? null : (
          <Link key={name} to={`/trace/${id}`} className="button tiny">
            {name}
          </Link>
        ),
      )}
    </span>
  );
}
