/** The map against an earlier one: what is new, gone, slower, or fails more. */
import type { Graph, GraphEdge } from "../../api/types";
import { formatDuration, nano } from "../../model/duration";
import { formatShare, plural } from "../../model/number";
import { edgeId } from "./edges";

export type EdgeChange = "new" | "gone" | "failing" | "slower";

export interface Compared {
  /** The later graph, and what is gone with no calls. */
  graph: Graph;
  /** Calls that differ, by their ids, each with what differs in words. */
  edges: ReadonlyMap<string, { change: EdgeChange; text: string }>;
  /** Nodes that came or went. */
  nodes: ReadonlyMap<string, "new" | "gone">;
}

/** Fewer calls than this say nothing about latency and failures. */
const ENOUGH = 20;
const SLOWER = 1.5;
/** Below a millisecond, half as much again is noise. */
const LEAST_SLOWER_NANO = 1e6;
const MORE_FAILURES = 0.02;

/** Null if nothing was seen before: then nothing can be said to be new. */
export function compared(before: Graph, now: Graph): Compared | null {
  if (before.nodes.length === 0) return null;
  const edges = new Map<string, { change: EdgeChange; text: string }>();
  const nodes = new Map<string, "new" | "gone">();
  const was = new Map(before.edges.map((edge) => [edgeId(edge), edge]));
  const is = new Set(now.edges.map(edgeId));
  for (const edge of now.edges) {
    const difference = between(was.get(edgeId(edge)), edge);
    if (difference) edges.set(edgeId(edge), difference);
  }
  const gone = before.edges.filter((edge) => !is.has(edgeId(edge)));
  for (const edge of gone) {
    edges.set(edgeId(edge), { change: "gone", text: `gone; was ${plural(edge.requests, "call")}` });
  }
  const known = new Set(before.nodes.map((node) => node.name));
  const present = new Set(now.nodes.map((node) => node.name));
  for (const name of present) if (!known.has(name)) nodes.set(name, "new");
  for (const name of known) if (!present.has(name)) nodes.set(name, "gone");
  const nothing = { requests: 0, errors: 0 };
  return {
    graph: {
      ...now,
      nodes: [
        ...now.nodes,
        ...before.nodes
          .filter((node) => nodes.get(node.name) === "gone")
          .map((node) => ({ ...node, ...nothing })),
      ],
      edges: [
        ...now.edges,
        ...gone.map((edge) => ({ ...edge, ...nothing, requests_per_second: 0, error_share: 0 })),
      ],
    },
    edges,
    nodes,
  };
}

function between(before: GraphEdge | undefined, now: GraphEdge) {
  if (before === undefined) return { change: "new" as const, text: "new" };
  if (before.requests < ENOUGH || now.requests < ENOUGH) return null;
  if (
    now.error_share - before.error_share >= MORE_FAILURES &&
    now.error_share > before.error_share * SLOWER
  ) {
    const text = `errors ${formatShare(before.error_share)} → ${formatShare(now.error_share)}`;
    return { change: "failing" as const, text };
  }
  const [fast, slow] = [nano(before.p95_nano), nano(now.p95_nano)];
  if (slow > fast * SLOWER && slow - fast > LEAST_SLOWER_NANO) {
    const text = `p95 ${formatDuration(fast)} → ${formatDuration(slow)}`;
    return { change: "slower" as const, text };
  }
  return null;
}

export const CHANGES: readonly [change: EdgeChange, word: string][] = [
  ["failing", "fail more"],
  ["slower", "slower"],
  ["new", "new"],
  ["gone", "gone"],
];

/** How many calls differ in each way. */
export function changeCounts(edges: Compared["edges"]): Record<EdgeChange, number> {
  const counts = { new: 0, gone: 0, failing: 0, slower: 0 };
  for (const { change } of edges.values()) counts[change]++;
  return counts;
}
