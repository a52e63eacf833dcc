/** What differs between two times: services, calls and errors that came, went, or got worse. */
import type { Graph, GraphEdge } from "../api/types";
import { nano } from "./duration";

export interface Change {
  kind:
    "new-service" | "gone-service" | "new-call" | "gone-call" | "errors" | "slower" | "new-error";
  /** The services, the caller first. */
  services: readonly string[];
  /** Figures before and now, if there are any: shares of errors, or nanoseconds. */
  before?: number;
  now?: number;
  /** The error's text. */
  text?: string;
  /** How many requests or errors it is about. */
  count: number;
}

/** Fewer requests than this say nothing about errors and latency. */
const ENOUGH = 20;
const MORE_ERRORS = 0.02;
const SLOWER = 1.5;

const edgeKey = (edge: GraphEdge) => `${edge.client}\n${edge.server}\n${edge.protocol}`;

/**
 * The changes from one graph to another, the gravest first. Null if nothing at all was seen before:
 * then nothing can be said about what is new.
 */
export function changes(before: Graph, now: Graph): Change[] | null {
  if (before.nodes.length === 0) return null;
  const result: Change[] = [];
  const nodesBefore = new Map(before.nodes.map((node) => [node.name, node]));
  const nodesNow = new Map(now.nodes.map((node) => [node.name, node]));
  for (const node of now.nodes) {
    const old = nodesBefore.get(node.name);
    const services = [node.name];
    if (!old) {
      result.push({ kind: "new-service", services, count: node.requests });
      continue;
    }
    if (node.requests < ENOUGH || old.requests < ENOUGH) continue;
    const [was, is] = [old.errors / old.requests, node.errors / node.requests];
    if (is - was >= MORE_ERRORS && is > was * 1.5) {
      result.push({ kind: "errors", services, before: was, now: is, count: node.errors });
    }
    const [fast, slow] = [nano(old.p95_nano), nano(node.p95_nano)];
    // Below a millisecond, half as much again is noise.
    if (slow > fast * SLOWER && slow - fast > 1e6) {
      result.push({ kind: "slower", services, before: fast, now: slow, count: node.requests });
    }
  }
  for (const node of before.nodes) {
    if (nodesNow.has(node.name)) continue;
    result.push({ kind: "gone-service", services: [node.name], count: node.requests });
  }
  const edgesBefore = new Set(before.edges.map(edgeKey));
  const edgesNow = new Set(now.edges.map(edgeKey));
  // A call to or from a new service is no news of its own.
  const known = (edge: GraphEdge, nodes: ReadonlyMap<string, unknown>) =>
    nodes.has(edge.client) && nodes.has(edge.server);
  for (const edge of now.edges) {
    if (edgesBefore.has(edgeKey(edge)) || !known(edge, nodesBefore)) continue;
    result.push({ kind: "new-call", services: [edge.client, edge.server], count: edge.requests });
  }
  for (const edge of before.edges) {
    if (edgesNow.has(edgeKey(edge)) || !known(edge, nodesNow)) continue;
    result.push({ kind: "gone-call", services: [edge.client, edge.server], count: edge.requests });
  }
  return sorted(result);
}

const GRAVITY: readonly Change["kind"][] = [
  "errors",
  "new-error",
  "slower",
  "new-service",
  "gone-service",
  "new-call",
  "gone-call",
];

export function sorted(all: readonly Change[]): Change[] {
  return [...all].sort(
    (a, b) => GRAVITY.indexOf(a.kind) - GRAVITY.indexOf(b.kind) || b.count - a.count,
  );
}

/** An error's text without what differs each time: numbers, ids, quoted values. */
export function pattern(text: string): string {
  return text
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "#")
    .replace(/\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b/gi, "#")
    .replace(/\d+(\.\d+)*/g, "#")
    .replace(/(["'`])(?:(?!\1).){1,200}\1/g, "$1…$1")
    .trim();
}

/** Errors of one service with one text. */
export interface ErrorGroup {
  service: string;
  text: string;
  count: number;
  /** One text as it was. */
  example: string;
}

/** Groups counted texts by service and pattern, the most frequent first. */
export function errorGroups(
  counted: readonly { service: string; text: string; count: number }[],
): ErrorGroup[] {
  const groups = new Map<string, ErrorGroup>();
  for (const { service, text, count } of counted) {
    if (count <= 0) continue;
    const shown = pattern(text);
    const key = `${service}\n${shown}`;
    const group = groups.get(key);
    if (group) group.count += count;
    else groups.set(key, { service, text: shown, count, example: text });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

/** Errors with a text that the earlier time did not have. */
export function newErrors(before: readonly ErrorGroup[], now: readonly ErrorGroup[]): Change[] {
  const known = new Set(before.map((one) => `${one.service}\n${one.text}`));
  return now
    .filter((one) => !known.has(`${one.service}\n${one.text}`))
    .map((one) => ({
      kind: "new-error",
      services: [one.service],
      text: one.text,
      count: one.count,
    }));
}
