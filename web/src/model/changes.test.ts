import { describe, expect, it } from "vitest";
import type { Graph, GraphEdge, GraphNode } from "../api/types";
import { changes, errorGroups, newErrors, pattern } from "./changes";

const node = (name: string, fields: Partial<GraphNode> = {}): GraphNode => ({
  name,
  kind: "service",
  requests: 100,
  errors: 0,
  p50_nano: "1000000",
  p95_nano: "2000000",
  protocols: [],
  system: null,
  ...fields,
});
const edge = (client: string, server: string): GraphEdge =>
  ({ client, server, protocol: "http", requests: 5 }) as GraphEdge;
const graph = (nodes: GraphNode[], edges: GraphEdge[] = []): Graph => ({
  nodes,
  edges,
  warnings: [],
  window_seconds: 60,
});

describe("changes", () => {
  it("cannot be told without an earlier time", () => {
    expect(changes(graph([]), graph([node("a")]))).toBe(null);
  });
  it("are services and calls that came and went", () => {
    const got = changes(
      graph([node("a"), node("b"), node("old")], [edge("a", "old"), edge("b", "a")]),
      graph([node("a"), node("b"), node("new")], [edge("a", "new"), edge("a", "b")]),
    )!;
    expect(got.map((one) => [one.kind, ...one.services])).toEqual([
      ["new-service", "new"],
      ["gone-service", "old"],
      ["new-call", "a", "b"],
      ["gone-call", "b", "a"],
    ]);
  });
  it("are more errors and slower answers, but not noise", () => {
    const got = changes(
      graph([node("a"), node("b"), node("c", { requests: 3 })]),
      graph([
        node("a", { errors: 10, p95_nano: "2500000" }),
        node("b", { p95_nano: "9000000" }),
        node("c", { requests: 3, errors: 3 }),
      ]),
    )!;
    expect(got.map((one) => [one.kind, ...one.services, one.now])).toEqual([
      ["errors", "a", 0.1],
      ["slower", "b", 9e6],
    ]);
  });
});

describe("errors by text", () => {
  it("lose what differs each time", () => {
    expect(pattern("card 4711 declined")).toBe("card # declined");
    expect(pattern("no key 'abc' in 9f86d081884c7d65")).toBe("no key '…' in #");
    expect(pattern("dead beef facade")).toBe("dead beef facade");
  });
  it("are grouped, and new ones found", () => {
    const groups = errorGroups([
      { service: "a", text: "card 1", count: 2 },
      { service: "a", text: "card 22", count: 3 },
      { service: "b", text: "card 1", count: 1 },
      { service: "b", text: "none", count: 0 },
    ]);
    expect(groups.map((one) => [one.service, one.text, one.count])).toEqual([
      ["a", "card #", 5],
      ["b", "card #", 1],
    ]);
    expect(newErrors(groups.slice(0, 1), groups).map((one) => one.services)).toEqual([["b"]]);
  });
});
