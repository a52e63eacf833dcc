/** The answer as the renderer's graph: places in pixels, sizes, colours, figures. */
import type { MultiDirectedGraph } from "graphology";
import type { Graph } from "../../api/types";
import { serviceHex } from "../../app/palette";
import { token } from "../../app/theme";
import type { Theme } from "../../model/colour";
import { formatDuration, nano } from "../../model/duration";
import { layers } from "../../model/layers";
import type { Place } from "../../model/layers";
import { formatRate, formatShare } from "../../model/number";
import type { EdgeExtra, NodeExtra } from "./draw";
import { edgeId } from "./edges";
import { clearest } from "./spot";
import type { Box } from "./spot";

export type NodeLook = {
  x: number;
  y: number;
  size: number;
  label: string;
  color: string;
  forceLabel: boolean;
} & NodeExtra;

export type EdgeLook = {
  size: number;
  color: string;
  label: string;
  type: "straight" | "curved";
  curvature: number;
  zIndex: number;
} & EdgeExtra;

export type Drawn = MultiDirectedGraph<NodeLook, EdgeLook>;

/** Room around the outermost nodes for their names, in pixels. */
const MARGIN = { side: 96, top: 52, bottom: 74 };
/** Farther apart than this, nodes of a small map would look lost. */
const MOST_STEP = { x: 300, y: 170 };

/** Canvases have their limits. */
const MOST_HEIGHT = 3000;

/** Pixels of height that the picture needs for names not to meet. */
export function heightFor(graph: Graph): number {
  const places = layers(
    graph.nodes.map((node) => node.name),
    graph.edges.map((edge) => [edge.client, edge.server] as const),
  );
  const ys = [...places.values()].map((place) => place.y);
  const rows = Math.max(0, ...ys) - Math.min(0, ...ys);
  return Math.min(MOST_HEIGHT, MARGIN.top + MARGIN.bottom + rows * 92);
}

/** Brings the picture up to the answer; what goes on existing keeps its identity. */
export function fill(
  drawn: Drawn,
  graph: Graph,
  theme: Theme,
  box: { width: number; height: number },
): void {
  const names = new Set(graph.nodes.map((node) => node.name));
  const edges = graph.edges
    .filter((edge) => names.has(edge.client) && names.has(edge.server))
    // The busiest get their labels first.
    .sort((a, b) => b.requests_per_second - a.requests_per_second);
  const places = inPixels(
    layers(
      [...names],
      edges.map((edge) => [edge.client, edge.server] as const),
    ),
    box,
  );
  // Edges anew: their order is the order of their labels.
  drawn.clearEdges();
  for (const name of drawn.nodes()) if (!names.has(name)) drawn.dropNode(name);
  const seconds = Math.max(graph.window_seconds, 1e-9);
  const busiest = Math.max(1e-9, ...graph.nodes.map((node) => node.requests));
  const crowd = Math.min(1, 14 / Math.max(1, names.size)) ** 0.4;
  for (const node of graph.nodes) {
    drawn.mergeNode(node.name, {
      ...places.get(node.name)!,
      size: (11 + 13 * Math.sqrt(node.requests / busiest)) * crowd,
      label: node.name === "" ? "(no name)" : node.name,
      color: serviceHex(node.name, theme),
      forceLabel: true,
      errorShare: node.requests > 0 ? node.errors / node.requests : 0,
      figures:
        node.requests === 0
          ? "calls only"
          : `${formatRate(node.requests / seconds)} · p95 ${formatDuration(nano(node.p95_nano))}`,
      glyph: node.kind,
    });
  }
  const boxes = new Map(
    drawn.mapNodes((name, look): [string, Box] => [name, boxOf(name, look, look.size)]),
  );
  const most = Math.max(1e-9, ...edges.map((edge) => edge.requests_per_second));
  const calm = token("--edge");
  const red = token("--error");
  for (const edge of edges) {
    const alone =
      edges.filter(
        (other) =>
          (other.client === edge.client && other.server === edge.server) ||
          (other.client === edge.server && other.server === edge.client),
      ).length === 1;
    const from = places.get(edge.client)!;
    const to = places.get(edge.server)!;
    const curvature = clearest(
      { x: from.x, y: -from.y },
      { x: to.x, y: -to.y },
      [...boxes]
        .filter(([name]) => name !== edge.client && name !== edge.server)
        .map(([, box]) => box),
      // Opposite edges each bend to their own left, and so apart.
      alone ? 0 : 0.16,
      { left: 4, top: 4 - box.height, width: box.width - 8, height: box.height - 8 },
    );
    drawn.mergeEdgeWithKey(edgeId(edge), edge.client, edge.server, {
      size: 1.4 + 3.6 * Math.sqrt(edge.requests_per_second / most),
      color:
        edge.errors > 0 ? mix(calm, red, 0.45 + 0.55 * Math.min(1, edge.error_share * 12)) : calm,
      label: edgeId(edge),
      rate: formatRate(edge.requests_per_second),
      errors: edge.errors > 0 ? `${formatShare(edge.error_share)} err` : "",
      latency: `${formatDuration(nano(edge.p50_nano))} / ${formatDuration(nano(edge.p95_nano))}`,
      type: curvature === 0 ? "straight" : "curved",
      curvature,
      zIndex: edge.errors > 0 ? 1 : 0,
    });
  }
}

function inPixels(
  places: ReadonlyMap<string, Place>,
  box: { width: number; height: number },
): Map<string, Place> {
  const all = [...places.values()];
  const [left, right] = [Math.min(...all.map((p) => p.x)), Math.max(...all.map((p) => p.x))];
  const [low, high] = [Math.min(...all.map((p) => p.y)), Math.max(...all.map((p) => p.y))];
  const step = {
    x: Math.min(MOST_STEP.x, (box.width - 2 * MARGIN.side) / Math.max(1, right - left)),
    y: Math.min(MOST_STEP.y, (box.height - MARGIN.top - MARGIN.bottom) / Math.max(1, high - low)),
  };
  const middle = { x: box.width / 2, y: (box.height - MARGIN.top + MARGIN.bottom) / 2 };
  return new Map(
    [...places].map(([name, place]) => [
      name,
      {
        x: middle.x + (place.x - (left + right) / 2) * step.x,
        // The renderer's y goes upwards.
        y: middle.y - (place.y - (low + high) / 2) * step.y,
      },
    ]),
  );
}

/** What a node and its name take of the picture; y goes downwards here. */
function boxOf(name: string, place: Place, size: number): Box {
  const wide = Math.max(size + 6, 46, name.length * 3.6);
  return { left: place.x - wide, top: -place.y - size - 6, width: 2 * wide, height: 2 * size + 46 };
}

/** A colour between two of `#rrggbb`. */
export function mix(from: string, to: string, share: number): string {
  const part = (colour: string, at: number) => parseInt(colour.slice(1 + 2 * at, 3 + 2 * at), 16);
  return `#${[0, 1, 2]
    .map((at) => Math.round(part(from, at) * (1 - share) + part(to, at) * share))
    .map((value) => value.toString(16).padStart(2, "0"))
    .join("")}`;
}
