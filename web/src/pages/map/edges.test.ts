import { expect, it } from "vitest";
import type { Graph, GraphEdge } from "../../api/types";
import { important, neighbourhood } from "./edges";

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

it("keeps callers and called of a service, and the calls among them", () => {
  const names = ["a", "b", "c", "d"];
  const graph: Graph = {
    nodes: names.map((name) => ({
      name,
      kind: "service",
      system: null,
      protocols: [],
      requests: 1,
      errors: 0,
      p50_nano: "1",
      p95_nano: "1",
    })),
    edges: [edge("a", "b"), edge("b", "c"), edge("a", "c"), edge("c", "d")],
    warnings: [],
    window_seconds: 60,
  };
  const near = neighbourhood(graph, "b");
  expect(near.nodes.map(({ name }) => name)).toEqual(["a", "b", "c"]);
  expect(near.edges).toHaveLength(3);
});
