/** Services in groups: a closed group is one node, and calls inside it are not drawn. */
import type { Graph, GraphEdge, GraphNode } from "../../api/types";
import { nano } from "../../model/duration";
import { networkTogether } from "../../model/network";
import { edgeId } from "./edges";

export const GROUPINGS = ["word", "words", "namespace"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export interface Clustered {
  graph: Graph;
  /** The members of each closed group, by the name of its node. */
  members: ReadonlyMap<string, { group: string; services: readonly string[] }>;
  /** All groups of two and more services. */
  groups: number;
}

/** What stands between the words of a name. */
const BETWEEN = /[-_.:/\s]+/;

/** The first words of a name: `checkout` of `checkout-api-2`. Null if there are no more words. */
export function prefixOf(name: string, words: number): string | null {
  const parts = name.split(BETWEEN).filter(Boolean);
  return parts.length > words ? parts.slice(0, words).join("-") : null;
}

const clusterName = (group: string, size: number): string => `${group} (${size} services)`;

/** The graph with one node for each group that is not open. A group of one stays a service. */
export function clustered(
  graph: Graph,
  groupOf: (service: string) => string | null,
  open: ReadonlySet<string>,
): Clustered {
  const groups = new Map<string, GraphNode[]>();
  for (const node of graph.nodes) {
    const group = groupOf(node.name);
    if (group === null) continue;
    const list = groups.get(group);
    if (list) list.push(node);
    else groups.set(group, [node]);
  }
  const members = new Map<string, { group: string; services: readonly string[] }>();
  let count = 0;
  for (const [group, nodes] of groups) {
    if (nodes.length < 2) continue;
    count++;
    if (open.has(group)) continue;
    const name = clusterName(group, nodes.length);
    members.set(name, { group, services: nodes.map((node) => node.name) });
  }
  return { graph: applied(graph, members), members, groups: count };
}

/** The graph with these closed groups; another graph with the same groups has the same nodes. */
export function applied(graph: Graph, members: Clustered["members"]): Graph {
  if (members.size === 0) return graph;
  const nameOf = new Map<string, string>();
  for (const [name, { services }] of members) {
    for (const service of services) nameOf.set(service, name);
  }
  const inside = new Map<string, GraphNode[]>();
  for (const node of graph.nodes) {
    const name = nameOf.get(node.name);
    if (name === undefined) continue;
    const list = inside.get(name);
    if (list) list.push(node);
    else inside.set(name, [node]);
  }
  const edges = new Map<string, GraphEdge[]>();
  for (const edge of graph.edges) {
    const client = nameOf.get(edge.client) ?? edge.client;
    const server = nameOf.get(edge.server) ?? edge.server;
    if (client === server && client !== edge.client) continue;
    const moved = { ...edge, client, server };
    const key = edgeId(moved);
    const list = edges.get(key);
    if (list) list.push(moved);
    else edges.set(key, [moved]);
  }
  return {
    ...graph,
    nodes: [
      ...graph.nodes.filter((node) => !nameOf.has(node.name)),
      ...[...inside].map(([name, nodes]) => together(name, nodes)),
    ],
    edges: [...edges.values()].map(asOne),
  };
}

/** Percentiles cannot be added up: those of a group are the slowest of its members'. */
const slowest = (values: readonly string[]): string =>
  values.reduce((most, value) => (nano(value) > nano(most) ? value : most), "0");

function together(name: string, nodes: readonly GraphNode[]): GraphNode {
  const [first] = nodes;
  const isSame = (field: "kind" | "system") => nodes.every((node) => node[field] === first![field]);
  return {
    name,
    kind: isSame("kind") ? first!.kind : "service",
    system: isSame("system") ? first!.system : null,
    protocols: [...new Set(nodes.flatMap((node) => node.protocols))].sort(),
    requests: nodes.reduce((sum, node) => sum + node.requests, 0),
    errors: nodes.reduce((sum, node) => sum + node.errors, 0),
    p50_nano: slowest(nodes.map((node) => node.p50_nano)),
    p95_nano: slowest(nodes.map((node) => node.p95_nano)),
  };
}

function asOne(edges: readonly GraphEdge[]): GraphEdge {
  const [first] = edges;
  if (edges.length === 1) return first!;
  const sum = (figure: (edge: GraphEdge) => number) =>
    edges.reduce((all, edge) => all + figure(edge), 0);
  const requests = sum((edge) => edge.requests);
  const errors = sum((edge) => edge.errors);
  const network = networkTogether(edges);
  return {
    ...first!,
    ...(network ? { network } : {}),
    requests,
    errors,
    requests_per_second: sum((edge) => edge.requests_per_second),
    error_share: requests === 0 ? 0 : errors / requests,
    p50_nano: slowest(edges.map((edge) => edge.p50_nano)),
    p95_nano: slowest(edges.map((edge) => edge.p95_nano)),
    p99_nano: slowest(edges.map((edge) => edge.p99_nano)),
    certain_share:
      requests === 0 ? 0 : sum((edge) => edge.certain_share * edge.requests) / requests,
  };
}
