/** Strong and weak dependencies: which are shown, and in what words. */
import type { Dependency, DependencyEdge, DependencyVerdict } from "../api/types";
import { formatShare, plural } from "./number";

export const VERDICTS: readonly Dependency[] = ["strong", "weak", "unknown"];

export const MEANINGS: Record<Dependency, string> = {
  strong: "If it fails, nothing that would follow is called.",
  weak: "If it fails, some or all of what would follow is still called.",
  unknown: "Too few failures were seen, or they do not agree.",
};

export function verdictOf(text: string | null): Dependency | null {
  return VERDICTS.find((one) => one === text) ?? null;
}

/** How many edges have each verdict. */
export function verdictCounts(edges: readonly DependencyEdge[]): Record<Dependency, number> {
  const counts = { strong: 0, weak: 0, unknown: 0 };
  for (const edge of edges) counts[edge.dependency.verdict] += 1;
  return counts;
}

/** Why the verdict is what it is. */
export function verdictReason(of: DependencyVerdict): string {
  if (of.failures === 0) return "no failure was seen";
  const stopped = `after ${formatShare(of.stopped_share)} of ${plural(of.failures, "failure")} nothing followed`;
  return of.verdict === "unknown" ? stopped : `${stopped}; ${formatShare(of.confidence)} sure`;
}

/** Edges of one verdict; null is all. */
export const ofVerdict = (
  edges: readonly DependencyEdge[],
  verdict: Dependency | null,
): readonly DependencyEdge[] =>
  verdict === null ? edges : edges.filter((edge) => edge.dependency.verdict === verdict);

const RANK: Record<Dependency, number> = { strong: 0, weak: 1, unknown: 2 };

/** What a service needs, and who needs it: strong ones first, then by calls. Its own calls are neither. */
export function byService(edges: readonly DependencyEdge[], service: string) {
  const sorted = [...edges].sort(
    (a, b) => RANK[a.dependency.verdict] - RANK[b.dependency.verdict] || b.calls - a.calls,
  );
  return {
    needs: sorted.filter(
      (edge) => edge.caller.service === service && edge.called.service !== service,
    ),
    neededBy: sorted.filter(
      (edge) => edge.called.service === service && edge.caller.service !== service,
    ),
  };
}
