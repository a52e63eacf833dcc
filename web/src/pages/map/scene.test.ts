import { expect, it } from "vitest";
import type { Graph, GraphEdge, GraphNode } from "../../api/types";
import { overlaps } from "../../model/labels";
import { fitted, toScreen } from "./camera";
import { MOST_EDGES, scene } from "./scene";

const node = (name: string, fields: Partial<GraphNode> = {}): GraphNode => ({
  name,
  kind: "service",
  system: null,
  protocols: [],
  requests: 60,
  errors: 0,
  p50_nano: "1000000",
  p95_nano: "3000000",
  ...fields,
});
const edge = (client: string, server: string, fields: Partial<GraphEdge> = {}): GraphEdge => ({
  client,
  server,
  protocol: "http",
  requests: 60,
  errors: 0,
  requests_per_second: 1,
  error_share: 0,
  p50_nano: "1",
  p95_nano: "1",
  p99_nano: "1",
  certain_share: 1,
  ...fields,
});
const draw = (nodes: GraphNode[], edges: GraphEdge[], size = { width: 1000, height: 600 }) => {
  const graph: Graph = { nodes, edges, window_seconds: 60, warnings: [] };
  const places = new Map(
    nodes.map(({ name }, at) => [name, { x: at % 10, y: Math.floor(at / 10) }] as const),
  );
  return scene(graph, places, size, () => "#123456", "light");
};

it("names the system of a database or broker", () => {
  const { byName } = draw(
    [node("orders-db", { kind: "database", system: "mysql" }), node("redis", { system: "redis" })],
    [],
  );
  expect(byName.get("orders-db")!.note).toBe("mysql · 1.0/s · p95 3 ms");
  // The system is left out, because it equals the name.
  expect(byName.get("redis")!.note).toBe("1.0/s · p95 3 ms");
});

it("draws the most important calls and counts the others", () => {
  const nodes = Array.from({ length: 60 }, (_, at) => node(`s${at}`));
  const edges = nodes.flatMap((one, a) =>
    nodes.slice(a + 1).map((other, b) => edge(one.name, other.name, { requests: a * 60 + b })),
  );
  const drawn = draw(nodes, [...edges, edge("s0", "nobody")]);
  expect(drawn.edges).toHaveLength(MOST_EDGES);
  expect(drawn.left).toBe(edges.length - MOST_EDGES);
  expect(drawn.edges[0]!.of.requests).toBe(Math.max(...edges.map(({ requests }) => requests)));
});

it("keeps two ways between the same two apart", () => {
  const both = draw([node("a"), node("b")], [edge("a", "b"), edge("b", "a")]);
  for (const { bend } of both.edges) expect(bend).toBeGreaterThan(0);
});

it.each([
  [{ width: 1400, height: 600 }, 9],
  [{ width: 390, height: 380 }, 9],
  [{ width: 1400, height: 600 }, 200],
])("fits the screen with room for names: %j, %d services", (size, count) => {
  const nodes = Array.from({ length: count }, (_, at) => node(`s${at}`));
  const drawn = draw(nodes, [], size);
  const camera = fitted(drawn.world, size);
  const boxes = drawn.nodes.map((one) => {
    const { x, y } = toScreen(camera, size, one);
    expect(x).toBeGreaterThan(50);
    expect(x).toBeLessThan(size.width - 50);
    expect(y).toBeGreaterThan(20);
    expect(y).toBeLessThan(size.height - 30);
    return { left: x - 2, top: y - 2, width: 4, height: 4 };
  });
  const met = boxes.some((one, at) => boxes.slice(at + 1).some((other) => overlaps(one, other)));
  expect(met).toBe(false);
});
