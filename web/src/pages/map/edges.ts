import type { Graph, GraphEdge } from "../../api/types";

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

/** A service, its callers and callees, and all calls among these. */
export function neighbourhood(graph: Graph, service: string): Graph {
  const near = new Set([service]);
  for (const { client, server } of graph.edges) {
    if (client === service) near.add(server);
    if (server === service) near.add(client);
  }
  return {
    ...graph,
    nodes: graph.nodes.filter((node) => near.has(node.name)),
    edges: graph.edges.filter((edge) => near.has(edge.client) && near.has(edge.server)),
  };
}
