import { describe, expect, test } from "vitest";
import type { Graph, GraphEdge, GraphNode } from "../../api/types";
import { applied, clustered, prefixOf } from "./clusters";
import { changeCounts, compared } from "./differences";
import { MOST_STEPS, stepsBack, windowAt } from "./windows";

const node = (name: string, more: Partial<GraphNode> = {}): GraphNode => ({
  name,
  kind: "service",
  system: null,
  protocols: ["http"],
  requests: 100,
  errors: 1,
  p50_nano: "1000000",
  p95_nano: "3000000",
  ...more,
});
const edge = (client: string, server: string, more: Partial<GraphEdge> = {}): GraphEdge => ({
  client,
  server,
  protocol: "http",
  requests: 100,
  errors: 0,
  requests_per_second: 2,
  error_share: 0,
  p50_nano: "1000000",
  p95_nano: "3000000",
  p99_nano: "3000000",
  certain_share: 1,
  ...more,
});
const graph = (nodes: GraphNode[], edges: GraphEdge[]): Graph => ({
  nodes,
  edges,
  window_seconds: 50,
  warnings: [],
});
const word = (name: string) => prefixOf(name, 1);

describe("groups", () => {
  test("a prefix is the first words of a longer name", () => {
    expect(prefixOf("checkout-api-2", 1)).toBe("checkout");
    expect(prefixOf("shop/checkout.api", 2)).toBe("shop-checkout");
    expect(prefixOf("redis", 1)).toBeNull();
    expect(prefixOf("", 1)).toBeNull();
  });

  const given = graph(
    [node("a-1"), node("a-2", { p95_nano: "9000000" }), node("b-1"), node("redis")],
    [
      edge("a-1", "a-2"),
      edge("a-1", "redis", { errors: 10, error_share: 0.1 }),
      edge("a-2", "redis", { requests: 300, certain_share: 0 }),
      edge("b-1", "a-1"),
    ],
  );

  test("a closed group is one node, and its calls to one other are one edge", () => {
    const { graph: made, members, groups } = clustered(given, word, new Set());
    expect(groups).toBe(1);
    expect(made.nodes.map((one) => one.name)).toEqual(["b-1", "redis", "a (2 services)"]);
    expect(members.get("a (2 services)")).toEqual({ group: "a", services: ["a-1", "a-2"] });
    expect(made.nodes[2]).toMatchObject({ requests: 200, errors: 2, p95_nano: "9000000" });
    const merged = made.edges.find((one) => one.server === "redis")!;
    expect(merged).toMatchObject({
      client: "a (2 services)",
      requests: 400,
      errors: 10,
      error_share: 0.025,
      requests_per_second: 4,
      certain_share: 0.25,
    });
    // The call inside is not drawn, the one from outside is.
    expect(made.edges).toHaveLength(2);
  });

  test("groups of a map are those of an earlier one, of which some services are missing", () => {
    const { members } = clustered(given, word, new Set());
    const earlier = graph([node("a-1"), node("redis")], [edge("a-1", "redis")]);
    const { nodes, edges } = applied(earlier, members);
    expect(nodes.map((one) => one.name)).toEqual(["redis", "a (2 services)"]);
    expect(edges[0]!.client).toBe("a (2 services)");
  });

  test("an open group is as it was", () => {
    expect(clustered(given, word, new Set(["a"])).graph).toBe(given);
    expect(clustered(given, () => null, new Set()).graph).toBe(given);
  });

  test("a service that calls itself keeps that call", () => {
    const loop = graph([node("a-1"), node("a-2"), node("x")], [edge("x", "x")]);
    expect(clustered(loop, word, new Set()).graph.edges).toHaveLength(1);
  });
});

describe("against an earlier time", () => {
  const before = graph(
    [node("a"), node("b"), node("old")],
    [edge("a", "b"), edge("a", "old"), edge("b", "b", { requests: 3 })],
  );
  const now = graph(
    [node("a"), node("b"), node("new")],
    [
      edge("a", "b", { p95_nano: "9000000" }),
      edge("a", "new"),
      edge("b", "b", { requests: 3, error_share: 1, errors: 3 }),
    ],
  );

  test("calls are new, gone or slower, and what is gone is still drawn", () => {
    const found = compared(before, now)!;
    expect(changeCounts(found.edges)).toEqual({ new: 1, gone: 1, slower: 1, failing: 0 });
    expect(found.edges.get("a→b/http")!.text).toBe("p95 3 ms → 9 ms");
    expect(found.graph.nodes.map((one) => one.name)).toContain("old");
    expect(found.graph.edges.find((one) => one.server === "old")!.requests).toBe(0);
    expect([...found.nodes]).toEqual([
      ["new", "new"],
      ["old", "gone"],
    ]);
  });

  test("failures count before latency, and not of a few calls", () => {
    const failing = graph(now.nodes, [edge("a", "b", { error_share: 0.5, p95_nano: "9000000" })]);
    expect(compared(before, failing)!.edges.get("a→b/http")).toEqual({
      change: "failing",
      text: "errors 0% → 50%",
    });
  });

  test("nothing is new if nothing was seen before", () => {
    expect(compared(graph([], []), now)).toBeNull();
  });
});

describe("windows of time", () => {
  test("steps go back by quarters of a window, and its length stays", () => {
    const hour = 3_600_000;
    const now = windowAt(0, hour, 0);
    const back = windowAt(0, hour, 6);
    expect(back.toMilliseconds).toBe(now.toMilliseconds - 1.5 * hour);
    expect(back.toMilliseconds - back.fromMilliseconds).toBe(hour);
    expect(back.start).toBe(String(BigInt(back.fromMilliseconds) * 1_000_000n));
  });

  test("the window does not move with every millisecond", () => {
    expect(windowAt(5, 3_600_005, 1)).toEqual(windowAt(900, 3_600_900, 1));
  });

  test("an address that means nothing is now", () => {
    expect(["x", "-3", "1.5", null].map(stepsBack)).toEqual([0, 0, 0, 0]);
    expect(stepsBack("9999")).toBe(MOST_STEPS);
  });
});
