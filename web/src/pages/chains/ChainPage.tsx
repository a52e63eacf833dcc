import { useRef } from "react";
import { useChain } from "../../api/queries";
import type { ChainCall, DependencyVerdict } from "../../api/types";
import { Link, usePlace } from "../../app/router";
import { useTitle } from "../../app/title";
import { useScroll } from "../../app/visit";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, formatRate, formatShare, plural } from "../../model/number";
import { Blank, Failure } from "../../parts/Blank";
import { Service } from "../../parts/Service";
import { usePageRange, withRange } from "../../parts/range";
import { Examples } from "./ChainsPage";
import { Head, Observed } from "../../parts/AnalysisHead";

/** The deepest level that is indented. */
const DEEPEST_INDENT = 20;

/** One chain: its calls, with their shares of the response time and how often they are made. */
export function ChainPage({ id }: { id: string }) {
  const { entry } = usePlace();
  const range = usePageRange();
  const answer = useChain(id, range);
  const page = useRef<HTMLElement>(null);
  useScroll(page, entry, "chain", answer.data !== undefined);
  const chain = answer.data?.chain;
  useTitle(chain ? `${chain.service} ${chain.operation}` : "Chain");
  return (
    <main className="page" ref={page} tabIndex={-1} data-testid="chain-page">
      <div className="overview">
        <Head range={range}>
          <h1>{chain ? `${chain.service} ${chain.operation}` : "Chain"}</h1>
          <Link className="button" to={withRange("/chains", range)}>
            All chains
          </Link>
        </Head>
        {answer.error && <Failure error={answer.error} />}
        {!answer.data && !answer.error && <Blank title="Reading traces" busy />}
        {answer.data && chain && (
          <>
            <p className="chain-facts">
              <span>{formatRate(chain.runs_per_second)}</span>
              <span>{plural(chain.runs, "run")}</span>
              <span>{formatShare(chain.share)} of all</span>
              <span className={chain.errors > 0 ? "is-error" : ""}>
                {formatShare(chain.error_share)} failed
              </span>
              <span>p50 {formatDuration(nano(chain.p50_nano))}</span>
              <span>p95 {formatDuration(nano(chain.p95_nano))}</span>
              <span>p99 {formatDuration(nano(chain.p99_nano))}</span>
              <Examples chain={chain} />
            </p>
            <section className="card" aria-labelledby="calls-title">
              <h2 id="calls-title">Calls</h2>
              <Calls calls={answer.data.calls} />
              {answer.data.total > answer.data.calls.length && (
                <p className="folded quiet">
                  {plural(answer.data.total - answer.data.calls.length, "more call")}.
                </p>
              )}
            </section>
            <Observed observed={answer.data.observed} warnings={answer.data.warnings} />
          </>
        )}
      </div>
    </main>
  );
}

const COLUMNS: readonly [name: string, title: string][] = [
  ["Level", "Calls between the entrance and this one"],
  ["Service and operation", "What is called"],
  ["LR", "Its share of the chain's response time"],
  ["DR", "How often its caller calls it, for each call of that caller"],
  ["CR", "How often a run calls it"],
  ["Self", "The mean time in which none of its own calls ran"],
  ["Errors", "Calls that failed"],
  ["For its caller", "Whether its caller goes on when it fails"],
  ["For the chain", "Whether the rest of the run goes on when it fails"],
];

function Calls({ calls }: { calls: readonly ChainCall[] }) {
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of calls">
      <table className="red-table chain-table" data-testid="chain-calls">
        <thead>
          <tr>
            {COLUMNS.map(([name, title]) => (
              <th key={name} scope="col" title={title}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {calls.map((call, at) => (
            <tr key={at} data-level={call.level} data-service={call.service} data-cr={call.cr}>
              <td className="number">{call.level}</td>
              <th
                scope="row"
                style={{ paddingLeft: 14 + 16 * Math.min(call.level, DEEPEST_INDENT) }}
              >
                <Service name={call.service} /> <span>{call.operation}</span>
              </th>
              <td className="number">{formatShare(call.lr)}</td>
              <td className="number">{call.dr.toFixed(2)}</td>
              <td className="number">{call.cr.toFixed(2)}</td>
              <td className="number">{formatDuration(nano(call.mean_self_nano))}</td>
              <td className={`number ${call.errors > 0 ? "is-error" : "quiet"}`}>
                {call.errors > 0 ? formatCount(call.errors) : "–"}
              </td>
              <Verdict of={call.level === 0 ? null : call.dependency} />
              <Verdict of={call.level === 0 ? null : call.chain_dependency} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Verdict({ of }: { of: DependencyVerdict | null }) {
  if (of === null) return <td className="text" />;
  const failures = plural(of.failures, "failure");
  if (of.verdict === "unknown") {
    return (
      <td className="text quiet" title="Too few failures were observed, or they do not agree">
        unknown{of.failures > 0 ? ` (${failures})` : ""}
      </td>
    );
  }
  return (
    <td className="text" title={`${formatShare(of.confidence)} sure`}>
      <b>{of.verdict}</b> <span className="quiet">({failures})</span>
    </td>
  );
}
