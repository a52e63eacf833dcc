import type { Graph, GraphEdge, GraphNode } from "../../api/types";

/** Identifies an edge in the address and in the picture. */
export const edgeId = (edge: GraphEdge): string => `${edge.client}→${edge.server}/${edge.protocol}`;

/** The weight of a failed call, compared with other calls. */
const ERROR_WEIGHT = 50;

export const importance = (edge: GraphEdge): number => edge.requests + ERROR_WEIGHT * edge.errors;

/** The most important edges, at most `most`: busy ones and failing ones. */
export function important(edges: readonly GraphEdge[], most: number): GraphEdge[] {
  const sorted = [...edges].sort((a, b) => importance(b) - importance(a));
  return sorted.length > most ? sorted.slice(0, most) : sorted;
}

/** A service, those that are at most `hops` calls away from it, and all calls among these. */
export function neighbourhood(graph: Graph, service: string, hops: number): Graph {
  const near = new Set([service]);
  for (let hop = 0; hop < hops; hop++) {
    const reached = new Set(near);
    for (const { client, server } of graph.edges) {
      if (near.has(client)) reached.add(server);
      if (near.has(server)) reached.add(client);
    }
    if (reached.size === near.size) break;
    for (const name of reached) near.add(name);
  }
  return among(graph, near);
}

/** Only calls of at least this rate, and those who make or take them. */
export function atLeast(graph: Graph, perSecond: number): Graph {
  if (perSecond <= 0) return graph;
  const edges = graph.edges.filter((edge) => edge.requests_per_second >= perSecond);
  const named = new Set(edges.flatMap(({ client, server }) => [client, server]));
  return { ...graph, edges, nodes: graph.nodes.filter(({ name }) => named.has(name)) };
}

/** The most important nodes, at most `most`, and the calls among them. `kept` is one of them. */
export function foremost(graph: Graph, most: number, kept: string | null): Graph {
  if (graph.nodes.length <= most) return graph;
  const weight = (node: GraphNode) =>
    node.name === kept ? Infinity : node.requests + ERROR_WEIGHT * node.errors;
  const sorted = [...graph.nodes].sort((a, b) => weight(b) - weight(a));
  return among(graph, new Set(sorted.slice(0, most).map(({ name }) => name)));
}

function among(graph: Graph, names: ReadonlySet<string>): Graph {
  return {
    ...graph,
    nodes: graph.nodes.filter((node) => names.has(node.name)),
    edges: graph.edges.filter((edge) => names.has(edge.client) && names.has(edge.server)),
  };
}
