import { useRef } from "react";
import { useChains } from "../../api/queries";
import type { ChainSummary } from "../../api/types";
import { Link, usePlace } from "../../app/router";
import { useScroll } from "../../app/visit";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, formatRate, formatShare, plural } from "../../model/number";
import { Blank, Failure } from "../../parts/Blank";
import { Service } from "../../parts/Service";
import { usePageRange, withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";
import { CapacityBox } from "./CapacityBox";
import { Head, Observed } from "./Head";

/** Chains: traces of one shape, and what more of them would cause. */
export function ChainsPage() {
  const { entry } = usePlace();
  const range = usePageRange();
  const answer = useChains(range.start, range.end);
  const page = useRef<HTMLElement>(null);
  useScroll(page, entry, "chains", answer.data !== undefined);
  const list = answer.data;
  return (
    <main className="page" ref={page} tabIndex={-1} data-testid="chains-page">
      <div className="overview">
        <Head range={range}>
          <h1>Chains</h1>
        </Head>
        {answer.error && <Failure error={answer.error} />}
        {!list && !answer.error && <Blank title="Reading traces" busy />}
        {list && list.chains.length === 0 && (
          <Blank title="No whole trace in this time">
            <p>A longer range of time may have some.</p>
          </Blank>
        )}
        {list && list.chains.length > 0 && (
          <section className="card" aria-labelledby="chains-title">
            <h2 id="chains-title">Runs of one entrance with nearly the same calls</h2>
            <List chains={list.chains} range={range} />
            {list.total > list.chains.length && (
              <p className="folded quiet">
                {plural(list.total - list.chains.length, "more chain")} with fewer runs.
              </p>
            )}
          </section>
        )}
        {list && list.chains.length > 0 && <CapacityBox range={range} />}
        {list && <Observed observed={list.observed} warnings={list.warnings} />}
      </div>
    </main>
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
