import { useRef } from "react";
import { useDependencies, useServices } from "../../api/queries";
import type { DependencyEdge } from "../../api/types";
import { setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import {
  MEANINGS,
  ofVerdict,
  verdictCounts,
  verdictOf,
  verdictReason,
  VERDICTS,
} from "../../model/dependencies";
import { formatCount, formatShare, plural } from "../../model/number";
import { AnalysisPage } from "../../parts/AnalysisPage";
import { Combobox } from "../../parts/Combobox";
import { OperationLink, operationKey } from "../../parts/OperationLink";
import { RowTable } from "../../parts/RowTable";
import type { Column } from "../../parts/RowTable";
import { usePageRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

/** What breaks if a call fails: edges with their verdicts. */
export default function DependenciesPage({ when }: { when: string }) {
  const { params } = usePlace();
  const range = usePageRange();
  const service = params.get("service") ?? "";
  const verdict = verdictOf(params.get("verdict"));
  const answer = useDependencies(range, service);
  const services = useServices();
  const field = useRef<HTMLInputElement>(null);
  useShortcuts({ "/": () => field.current?.focus() });
  const counts = answer.data && verdictCounts(answer.data.edges);
  return (
    <AnalysisPage
      title="Dependencies"
      when={when}
      testid="dependencies"
      range={range}
      answer={answer}
      tools={
        <>
          <Combobox
            inputRef={field}
            label="Service"
            testid="dependencies-service"
            placeholder="Any service"
            value={service}
            choices={(services.data?.services ?? []).map(({ name }) => ({ value: name }))}
            onChoose={(chosen) => setParams({ service: chosen || null }, "push")}
          />
          <span className="segments" role="group" aria-label="Verdict">
            {[null, ...VERDICTS].map((one) => (
              <button
                key={one ?? "all"}
                type="button"
                className="button"
                aria-pressed={verdict === one}
                title={one === null ? "All edges" : MEANINGS[one]}
                data-testid={`verdict-${one ?? "all"}`}
                onClick={() => setParams({ verdict: one }, "push")}
              >
                {one ?? "all"}
                {counts && one !== null && (
                  <span className="quiet">{formatCount(counts[one])}</span>
                )}
              </button>
            ))}
          </span>
        </>
      }
    >
      {(found) => {
        const edges = ofVerdict(found.edges, verdict);
        return (
          <section className="card" aria-labelledby="edges-title">
            <h2 id="edges-title">{verdict === null ? "Who depends on whom" : MEANINGS[verdict]}</h2>
            {edges.length === 0 ? (
              <p>
                {verdict === null
                  ? "No call was seen in this time."
                  : `None of these ${formatCount(found.edges.length)} calls is ${verdict}. A verdict needs at least five failures that were seen.`}
              </p>
            ) : (
              <RowTable
                label="Table of dependencies"
                testid="dependencies"
                rows={edges}
                columns={columns(range)}
                rowKey={(edge) => `${operationKey(edge.caller)}\n${operationKey(edge.called)}`}
                rowData={(edge) => ({
                  verdict: edge.dependency.verdict,
                  failures: edge.dependency.failures,
                  called: edge.called.service,
                  caller: edge.caller.service,
                })}
              />
            )}
            {found.total > found.edges.length && (
              <p className="folded quiet">
                {plural(found.total - found.edges.length, "more edge")} with fewer failures. Choose
                a service to see its own.
              </p>
            )}
          </section>
        );
      }}
    </AnalysisPage>
  );
}

const columns = (range: PageRange): readonly Column<DependencyEdge>[] => [
  {
    id: "caller",
    name: "Caller",
    by: (edge) => `${edge.caller.service} ${edge.caller.operation}`,
    show: (edge) => <OperationLink of={edge.caller} range={range} />,
  },
  {
    id: "called",
    name: "Called",
    words: true,
    by: (edge) => `${edge.called.service} ${edge.called.operation}`,
    show: (edge) => <OperationLink of={edge.called} range={range} />,
  },
  {
    id: "verdict",
    name: "Dependency",
    title: "Whether the caller goes on when the call fails",
    words: true,
    by: ({ dependency }) => ["strong", "weak", "unknown"].indexOf(dependency.verdict) + "",
    show: ({ dependency }) => (
      <span className="verdict" data-verdict={dependency.verdict} title={verdictReason(dependency)}>
        {dependency.verdict}
      </span>
    ),
  },
  {
    id: "confidence",
    name: "Sure",
    title: "How sure the verdict is: 50% is a coin",
    by: ({ dependency }) => (dependency.verdict === "unknown" ? null : dependency.confidence),
    show: ({ dependency }) =>
      dependency.verdict === "unknown" ? "–" : formatShare(dependency.confidence),
  },
  {
    id: "failures",
    name: "Failures seen",
    title: "Failures that the verdict is concluded from: those that were not retried",
    by: ({ dependency }) => dependency.failures,
    show: ({ dependency }) => formatCount(dependency.failures),
  },
  {
    id: "stopped",
    name: "Nothing followed",
    title: "The share of these failures after which nothing that would follow was called",
    by: ({ dependency }) => (dependency.failures === 0 ? null : dependency.stopped_share),
    show: ({ dependency }) =>
      dependency.failures === 0 ? "–" : formatShare(dependency.stopped_share),
  },
  { id: "calls", name: "Calls", by: (edge) => edge.calls, show: (edge) => formatCount(edge.calls) },
  {
    id: "errors",
    name: "Failed",
    by: (edge) => edge.errors,
    isError: (edge) => edge.errors > 0,
    show: (edge) => (edge.errors > 0 ? formatShare(edge.errors / edge.calls) : "–"),
  },
];
