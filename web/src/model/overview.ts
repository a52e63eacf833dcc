/** The rows of the overview: what the graph counts, with what changes over time. */
import type { Graph, GraphNode } from "../api/types";
import { nano } from "./duration";
import type { Red } from "./series";
import { theirs, UNKNOWN } from "./theirs";

export interface ServiceRow {
  node: GraphNode;
  /** Null for what is called but does not report: databases, brokers and others. */
  red: Red | null;
  requestsPerSecond: number;
  errorShare: number;
  p95Nano: number;
  /** What kind of program it is, if it is none of the user's services. */
  theirs: string | null;
}

export const SORTS = ["name", "rate", "errors", "latency"] as const;
export type OverviewSort = (typeof SORTS)[number];

const KEYS: Record<OverviewSort, (row: ServiceRow) => number> = {
  name: () => 0,
  rate: (row) => row.requestsPerSecond,
  errors: (row) => row.errorShare,
  latency: (row) => row.p95Nano,
};

/** Everything that calls or is called: services first, what only others name after them. */
export function serviceRows(graph: Graph, all: readonly Red[], sort: OverviewSort): ServiceRow[] {
  const series = new Map(all.map((one) => [one.name, one]));
  const seconds = Math.max(1, graph.window_seconds);
  const rows = graph.nodes.map((node): ServiceRow => ({
    node,
    red: series.get(node.name) ?? null,
    requestsPerSecond: node.requests / seconds,
    errorShare: node.requests === 0 ? 0 : node.errors / node.requests,
    p95Nano: nano(node.p95_nano),
    theirs: theirs(node.name) ?? (node.name === UNKNOWN ? "what nobody named" : null),
  }));
  const kind = (row: ServiceRow) => (row.node.kind === "service" ? 0 : 1);
  const key = KEYS[sort];
  return rows.sort(
    (a, b) => kind(a) - kind(b) || key(b) - key(a) || a.node.name.localeCompare(b.node.name),
  );
}
