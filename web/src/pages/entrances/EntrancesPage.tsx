import { useEntrances } from "../../api/queries";
import type { Entrance, Entrances } from "../../api/types";
import { Link } from "../../app/router";
import { formatDuration, nano } from "../../model/duration";
import { knownBefore, together, trendOf } from "../../model/entrances";
import { formatCount, formatRate, formatShare, plural } from "../../model/number";
import { AnalysisPage } from "../../parts/AnalysisPage";
import { Service } from "../../parts/Service";
import { operationKey } from "../../parts/OperationLink";
import { RowTable } from "../../parts/RowTable";
import type { Column } from "../../parts/RowTable";
import { usePageRange, withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

/** Where load comes in, and how it changes against the period before. */
export default function EntrancesPage({ when }: { when: string }) {
  const range = usePageRange();
  const answer = useEntrances(range);
  return (
    <AnalysisPage title="Entrances" when={when} testid="entrances" range={range} answer={answer}>
      {(found) => (
        <section className="card" aria-labelledby="entrances-title">
          <h2 id="entrances-title">
            <Sum found={found} />
          </h2>
          <RowTable
            label="Table of entrances"
            testid="entrances"
            rows={found.entrances}
            columns={columns(range, knownBefore(found))}
            rowKey={operationKey}
            rowData={(one) => ({
              service: one.service,
              operation: one.operation,
              runs: one.runs,
              trend: trendOf(one.trend, knownBefore(found)).direction,
            })}
          />
          {found.total > found.entrances.length && (
            <p className="folded quiet">
              {plural(found.total - found.entrances.length, "more entrance")} with fewer runs.
            </p>
          )}
        </section>
      )}
    </AnalysisPage>
  );
}

function Sum({ found }: { found: Entrances }) {
  const { now, before } = together(found.entrances);
  if (!knownBefore(found)) {
    return <span>{formatRate(now)} in all; nothing is known of the time before</span>;
  }
  const trend = trendOf(before === 0 ? null : now / before - 1, true);
  return (
    <span>
      {formatRate(now)} in all, {formatRate(before)} in the same time before ({trend.text})
    </span>
  );
}

const columns = (range: PageRange, isKnownBefore: boolean): readonly Column<Entrance>[] => [
  {
    id: "entrance",
    name: "Entrance",
    by: (one) => `${one.service} ${one.operation}`,
    show: (one) => (
      <Link
        to={withRange("/search", range, { service: one.service, operation: one.operation })}
        title={`Traces of ${one.service} ${one.operation}`}
      >
        <Service name={one.service} /> <span className="cut">{one.operation}</span>
      </Link>
    ),
  },
  {
    id: "rate",
    name: "Rate",
    by: (one) => one.runs_per_second,
    show: (one) => formatRate(one.runs_per_second),
  },
  {
    id: "before",
    name: "Before",
    title: "The rate in the time before, which is as long",
    by: (one) => one.runs_per_second_before,
    show: (one) => (isKnownBefore ? formatRate(one.runs_per_second_before) : "–"),
  },
  {
    id: "trend",
    name: "Trend",
    by: (one) => one.trend,
    show: (one) => {
      const trend = trendOf(one.trend, isKnownBefore);
      const arrow = { up: "↑", down: "↓", same: "", new: "", unknown: "" }[trend.direction];
      return (
        <span className="trend" data-direction={trend.direction}>
          <span aria-hidden="true">{arrow}</span> {trend.text}
        </span>
      );
    },
  },
  { id: "runs", name: "Runs", by: (one) => one.runs, show: (one) => formatCount(one.runs) },
  {
    id: "errors",
    name: "Errors",
    by: (one) => one.error_share,
    isError: (one) => one.errors > 0,
    show: (one) => (one.errors > 0 ? formatShare(one.error_share) : "–"),
  },
  { id: "p50", name: "p50", by: (one) => nano(one.p50_nano), show: (one) => time(one.p50_nano) },
  { id: "p95", name: "p95", by: (one) => nano(one.p95_nano), show: (one) => time(one.p95_nano) },
  { id: "p99", name: "p99", by: (one) => nano(one.p99_nano), show: (one) => time(one.p99_nano) },
  {
    id: "calls",
    name: "Calls each",
    title: "Calls of a run, with that of the entrance",
    by: (one) => one.calls_per_run,
    show: (one) => one.calls_per_run.toFixed(1),
  },
  {
    id: "more",
    name: "Chains",
    by: (one) => one.chains,
    show: (one) => (
      <Link to={withRange("/chains", range, { entrance: one.service })}>
        {plural(one.chains, "chain")}
      </Link>
    ),
  },
  {
    id: "time",
    name: "Its time",
    show: (one) => (
      <Link
        className="button tiny"
        to={withRange("/bottlenecks", range, { entrance: one.service, operation: one.operation })}
      >
        where it goes
      </Link>
    ),
  },
];

const time = (text: string) => formatDuration(nano(text));
