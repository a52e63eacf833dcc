/** Turns the API's graph into a picture: positions, sizes, colours and labels. */
import type { Graph, GraphEdge, GraphNode } from "../../api/types";
import type { Theme } from "../../model/colour";
import { formatDuration, nano } from "../../model/duration";
import type { Box } from "../../model/labels";
import type { Place } from "../../model/layers";
import { formatRate } from "../../model/number";
import { clearest } from "../../model/spot";
import type { Size } from "./camera";
import { alarmOf, hues } from "./colouring";
import type { Colouring, Hue } from "./colouring";
import type { EdgeChange } from "./differences";
import { edgeId, important } from "./edges";

/** Edges that are drawn. The others are counted, and shown when a service is selected. */
export const MOST_EDGES = 1500;
/** With more edges than this, lines do not bend around nodes. */
const MOST_ROUTED = 80;
/** With more edges than this, only the tooltip shows the numbers of an edge. */
export const MOST_FIGURES = 40;

/** Pixels between columns and between rows: the least that labels need, and the most. */
const STEP = { x: [130, 300], y: [58, 170] } as const;
/** With more services than this, every other column is shifted by half a row. */
const MOST_LEVEL = 40;
/** Space around the outermost nodes for their labels. */
const MARGIN = { side: 96, top: 40, bottom: 56 };

export interface SceneNode {
  of: GraphNode;
  x: number;
  y: number;
  radius: number;
  colour: string;
  errorShare: number;
  label: string;
  note: string;
  /** Whether it came or went since an earlier time, if that is compared. */
  came: "new" | "gone" | null;
}

export interface SceneEdge {
  of: GraphEdge;
  id: string;
  from: SceneNode;
  to: SceneNode;
  width: number;
  hue: Hue;
  bend: number;
  rate: string;
  /** What is wrong with it; empty if nothing is. */
  alarm: string;
  latency: string;
  /** How it differs from an earlier time; null if none is compared. */
  change: EdgeChange | "same" | null;
}

export interface Scene {
  /** Nodes and edges are sorted by importance. */
  nodes: SceneNode[];
  edges: SceneEdge[];
  byName: ReadonlyMap<string, SceneNode>;
  /** The number of edges that are not drawn. */
  left: number;
  world: Box;
}

export function scene(
  graph: Graph,
  places: ReadonlyMap<string, Place>,
  size: Size,
  colour: (service: string, theme: Theme) => string,
  theme: Theme,
  colouring: Colouring = "errors",
): Scene {
  const seconds = Math.max(graph.window_seconds, 1e-9);
  const busiest = graph.nodes.reduce((most, node) => Math.max(most, node.requests), 1);
  const { at, world } = inPixels(places, size);
  const nodes = graph.nodes
    .flatMap((node): SceneNode[] => {
      const place = at.get(node.name);
      if (!place) return [];
      return [
        {
          of: node,
          ...place,
          radius: 9 + 11 * Math.sqrt(node.requests / busiest),
          colour: colour(node.name, theme),
          errorShare: node.requests > 0 ? node.errors / node.requests : 0,
          label: node.name === "" ? "(no name)" : node.name,
          note: noteOf(node, seconds),
          came: null,
        },
      ];
    })
    .sort((a, b) => weight(b.of) - weight(a.of) || (a.label < b.label ? -1 : 1));
  const byName = new Map(nodes.map((node) => [node.of.name, node]));
  const known = graph.edges.filter((edge) => byName.has(edge.client) && byName.has(edge.server));
  const drawn = important(known, MOST_EDGES);
  const pairs = new Map<string, number>();
  for (const edge of drawn) {
    const key = pairOf(edge);
    pairs.set(key, (pairs.get(key) ?? 0) + 1);
  }
  const hueOf = hues(drawn, colouring);
  const most = drawn.reduce((top, edge) => Math.max(top, edge.requests_per_second), 1e-9);
  const boxes =
    drawn.length <= MOST_ROUTED ? nodes.map((node) => ({ node, box: boxOf(node) })) : [];
  const edges = drawn.map((edge): SceneEdge => {
    const [from, to] = [byName.get(edge.client)!, byName.get(edge.server)!];
    // Several edges between the same two nodes each bend to their own left, which separates them.
    const least = pairs.get(pairOf(edge)) === 1 ? 0 : 0.16;
    return {
      of: edge,
      id: edgeId(edge),
      from,
      to,
      width: 1.2 + 3.4 * Math.sqrt(edge.requests_per_second / most),
      hue: hueOf(edge),
      bend:
        boxes.length === 0
          ? least
          : clearest(
              from,
              to,
              boxes.filter(({ node }) => node !== from && node !== to).map(({ box }) => box),
              least,
              world,
            ),
      rate: formatRate(edge.requests_per_second),
      alarm: alarmOf(edge, colouring),
      latency: `${formatDuration(nano(edge.p50_nano))} / ${formatDuration(nano(edge.p95_nano))}`,
      change: null,
    };
  });
  return { nodes, edges, byName, left: known.length - drawn.length, world };
}

const weight = (node: GraphNode) => node.requests + 50 * node.errors;

const pairOf = ({ client, server }: GraphEdge) =>
  client < server ? `${client}\n${server}` : `${server}\n${client}`;

/** `mysql · 12/s · p95 3 ms`. */
function noteOf(node: GraphNode, seconds: number): string {
  const figures =
    node.requests === 0
      ? ["calls only"]
      : [formatRate(node.requests / seconds), `p95 ${formatDuration(nano(node.p95_nano))}`];
  const system = node.system !== null && node.system !== node.name ? [node.system] : [];
  return [...system, ...figures].join(" · ");
}

/**
 * Converts columns and rows to pixels in a world that fits the screen at some zoom. Steps have at
 * least the size that labels need, and use the free space beyond that. Labels do not shrink with
 * the map, so the margins grow with the world.
 */
function inPixels(places: ReadonlyMap<string, Place>, size: Size) {
  let [columns, low, high] = [0, Infinity, -Infinity];
  for (const { x, y } of places.values()) {
    columns = Math.max(columns, x);
    low = Math.min(low, y);
    high = Math.max(high, y);
  }
  // Labels of neighbouring columns are at different heights.
  const shift = places.size > MOST_LEVEL ? 0.5 : 0;
  const rows = places.size === 0 ? 0 : high - low + shift;
  const side = Math.min(MARGIN.side, size.width * 0.14);
  const room = {
    x: Math.max(1, size.width - 2 * side),
    y: Math.max(1, size.height - MARGIN.top - MARGIN.bottom),
  };
  const zoom = Math.min(
    1,
    room.x / Math.max(1, columns * STEP.x[0]),
    room.y / Math.max(1, rows * STEP.y[0]),
  );
  const step = (space: number, count: number, most: number) =>
    Math.min(most, space / Math.max(1, count)) / zoom;
  const x = step(room.x, columns, STEP.x[1]);
  const y = step(room.y, rows, STEP.y[1]);
  const at = new Map(
    [...places].map(([name, place]) => [
      name,
      {
        x: side / zoom + place.x * x,
        y: MARGIN.top / zoom + (place.y - low + (place.x % 2 === 1 ? shift : 0)) * y,
      },
    ]),
  );
  const world: Box = {
    left: 0,
    top: 0,
    width: (2 * side) / zoom + columns * x,
    height: (MARGIN.top + MARGIN.bottom) / zoom + rows * y,
  };
  return { at, world };
}

/** The area that a node and its label cover. */
function boxOf({ x, y, radius, label }: SceneNode): Box {
  const wide = Math.max(radius + 6, 46, label.length * 3.6);
  return { left: x - wide, top: y - radius - 6, width: 2 * wide, height: 2 * radius + 44 };
}
