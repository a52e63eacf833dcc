import { expect, it } from "vitest";
import type { Graph, GraphEdge } from "../../api/types";
import { atLeast, foremost, important, neighbourhood } from "./edges";

const edge = (client: string, server: string, requests = 1, errors = 0): GraphEdge => ({
  client,
  server,
  protocol: "http",
  requests,
  errors,
  requests_per_second: requests,
  error_share: errors / requests,
  p50_nano: "1",
  p95_nano: "1",
  p99_nano: "1",
  certain_share: 1,
});

it("takes what fails before what is merely busy", () => {
  const edges = [edge("a", "b", 10), edge("b", "c", 300), edge("c", "d", 20, 10)];
  expect(important(edges, 2).map(({ server }) => server)).toEqual(["d", "c"]);
  expect(important(edges, 9)).toHaveLength(3);
});

const graph = (edges: GraphEdge[], requests: Record<string, [number, number?]> = {}): Graph => ({
  nodes: [..."abcd"].map((name) => ({
    name,
    kind: "service",
    system: null,
    protocols: [],
    requests: requests[name]?.[0] ?? 1,
    errors: requests[name]?.[1] ?? 0,
    p50_nano: "1",
    p95_nano: "1",
  })),
  edges,
  warnings: [],
  window_seconds: 60,
});
const names = ({ nodes }: Graph) => nodes.map(({ name }) => name).join("");

it("keeps callers and called of a service, and the calls among them", () => {
  const edges = [edge("a", "b"), edge("b", "c"), edge("a", "c"), edge("c", "d")];
  const near = neighbourhood(graph(edges), "b", 1);
  expect(names(near)).toBe("abc");
  expect(near.edges).toHaveLength(3);
});

it("goes as many calls far as it is told, in both directions", () => {
  const line = graph([edge("a", "b"), edge("b", "c"), edge("c", "d")]);
  expect([1, 2, 3, 9].map((hops) => names(neighbourhood(line, "a", hops)))).toEqual([
    "ab",
    "abc",
    "abcd",
    "abcd",
  ]);
  expect(names(neighbourhood(line, "d", 2))).toBe("bcd");
});

it("hides rare calls, and those who have no others", () => {
  const some = graph([edge("a", "b", 10), edge("b", "c", 0.5), edge("c", "d", 2)]);
  expect(names(atLeast(some, 1))).toBe("abcd");
  expect(names(atLeast(some, 5))).toBe("ab");
  expect(atLeast(some, 5).edges).toHaveLength(1);
  expect(atLeast(some, 0)).toBe(some);
});

it("keeps the busiest, those that fail, and the one that is looked at", () => {
  const edges = [edge("a", "b"), edge("b", "c"), edge("c", "d")];
  const some = graph(edges, { a: [100], b: [10], c: [20, 5], d: [1] });
  expect(names(foremost(some, 2, null))).toBe("ac");
  expect(names(foremost(some, 2, "d"))).toBe("cd");
  expect(foremost(some, 2, "d").edges).toHaveLength(1);
  expect(foremost(some, 4, null)).toBe(some);
});
