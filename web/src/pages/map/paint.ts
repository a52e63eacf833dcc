/** Draws the map on a canvas, batched, so that the cost of a frame depends on what is visible. */
import { LINE } from "../../model/labels";
import type { Box, Label } from "../../model/labels";
import type { Point } from "../../model/spot";
import { spot, wayBetween } from "../../model/spot";
import { toScreen } from "./camera";
import type { Camera, Size } from "./camera";
import type { SceneEdge, SceneNode } from "./scene";
import { MOST_FIGURES } from "./scene";
import { mark, outline } from "./shapes";

export interface Inks {
  ink: string;
  quiet: string;
  surface: string;
  line: string;
  edge: string;
  error: string;
  accent: string;
  ok: string;
  warn: string;
  font: string;
}

/** Nodes with a smaller radius on the screen are drawn as dots. */
const LEAST_DETAILED = 6;
/** With more edges than this, arrow heads would cover the picture and are left out. */
const MOST_ARROWS = 400;

/** The radius of a node on the screen. Nodes shrink less than the map. */
export const radiusAt = (node: SceneNode, zoom: number): number =>
  Math.max(2.5, node.radius * Math.min(1.6, zoom ** 0.75));

export const NAME_FONT = (font: string) => `600 12px ${font}`;
export const NOTE_FONT = (font: string) => `11px ${font}`;

/** What to draw: everything, or a selection that is drawn on top. */
export interface Shown {
  nodes: readonly SceneNode[];
  edges: readonly SceneEdge[];
  chosen: string | null;
  /** Whether to draw arrows and numbers, if there is room. */
  detailed: boolean;
}

export function paintEdges(
  context: CanvasRenderingContext2D,
  shown: Shown,
  camera: Camera,
  size: Size,
  inks: Inks,
): void {
  // A canvas draws few strokes of many lines each fastest.
  const strokes = new Map<string, Stroke>();
  const arrows = shown.detailed && shown.edges.length <= MOST_ARROWS;
  const scale = Math.min(1, Math.max(0.35, camera.zoom));
  for (const edge of shown.edges) {
    const line = lineOf(edge, camera, size);
    if (!line) continue;
    const chosen = edge.id === shown.chosen;
    const width = Math.max(0.6, Math.round(edge.width * scale * 2) / 2);
    const colour = chosen ? inks.accent : inkOf(edge, inks);
    const isGone = edge.change === "gone";
    const isPale = edge.change === null && edge.hue === "pale";
    const isFaint = (isPale || edge.change === "same") && !chosen;
    const key = `${colour} ${width} ${isGone} ${isFaint}`;
    let stroke = strokes.get(key);
    if (!stroke) {
      strokes.set(key, (stroke = { path: new Path2D(), width, colour, isGone, isFaint }));
    }
    stroke.path.moveTo(line.from.x, line.from.y);
    if (edge.bend === 0) stroke.path.lineTo(line.to.x, line.to.y);
    else stroke.path.quadraticCurveTo(line.control.x, line.control.y, line.to.x, line.to.y);
    if (arrows) arrow(context, line, Math.max(7, width * 2.6), colour);
  }
  // Many lines are drawn translucent, to keep the shape visible. Failing edges are drawn last.
  const sorted = [...strokes.values()].sort(
    (a, b) => Number(a.colour !== inks.edge) - Number(b.colour !== inks.edge),
  );
  for (const { path, width, colour, isGone, isFaint } of sorted) {
    const isMany = colour === inks.edge && shown.edges.length > MOST_ARROWS;
    context.globalAlpha = isMany || isFaint ? 0.4 : 1;
    context.strokeStyle = colour;
    context.lineWidth = isFaint || isGone || colour === inks.edge ? width : Math.max(2, width);
    context.setLineDash(isGone ? [5, 4] : []);
    context.stroke(path);
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

/** Lines that are drawn at once. */
interface Stroke {
  path: Path2D;
  width: number;
  colour: string;
  isGone: boolean;
  /** Whether it is the same as at the time that it is compared with, or nothing is known of it. */
  isFaint: boolean;
}

/** The colour of a line: how it differs, if that is asked for, or what the colouring says. */
function inkOf(edge: SceneEdge, inks: Inks): string {
  switch (edge.change) {
    case "new":
      return inks.ok;
    case "gone":
      return inks.quiet;
    case "slower":
      return inks.warn;
    case "failing":
      return inks.error;
    case "same":
      return inks.edge;
    case null:
      return typeof edge.hue === "string"
        ? inks.edge
        : mix(inks.edge, inks[edge.hue.tone], Math.round(edge.hue.share * 4) / 4);
  }
}

interface Line {
  from: Point;
  to: Point;
  control: Point;
}

/** The visible line of an edge on the screen, from rim to rim, or null if no part is visible. */
function lineOf(edge: SceneEdge, camera: Camera, size: Size): Line | null {
  const from = toScreen(camera, size, edge.from);
  const to = toScreen(camera, size, edge.to);
  const control = {
    x: (from.x + to.x) / 2 + (to.y - from.y) * edge.bend,
    y: (from.y + to.y) / 2 - (to.x - from.x) * edge.bend,
  };
  const xs = [from.x, to.x, control.x];
  const ys = [from.y, to.y, control.y];
  if (Math.max(...xs) < 0 || Math.min(...xs) > size.width) return null;
  if (Math.max(...ys) < 0 || Math.min(...ys) > size.height) return null;
  return {
    from: shortened(from, control, radiusAt(edge.from, camera.zoom)),
    to: shortened(to, control, radiusAt(edge.to, camera.zoom) + 4),
    control,
  };
}

function shortened(from: Point, towards: Point, by: number): Point {
  const long = Math.hypot(towards.x - from.x, towards.y - from.y);
  if (long <= by) return from;
  return {
    x: from.x + ((towards.x - from.x) * by) / long,
    y: from.y + ((towards.y - from.y) * by) / long,
  };
}

function arrow(
  context: CanvasRenderingContext2D,
  { to, control }: Line,
  long: number,
  colour: string,
): void {
  const angle = Math.atan2(to.y - control.y, to.x - control.x);
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(to.x + 2 * Math.cos(angle), to.y + 2 * Math.sin(angle));
  for (const side of [-0.42, 0.42]) {
    context.lineTo(to.x - long * Math.cos(angle + side), to.y - long * Math.sin(angle + side));
  }
  context.fill();
}

export function paintNodes(
  context: CanvasRenderingContext2D,
  shown: Shown,
  camera: Camera,
  size: Size,
  inks: Inks,
): void {
  const dots = new Map<string, Path2D>();
  const rings = new Path2D();
  for (const node of shown.nodes) {
    const { x, y } = toScreen(camera, size, node);
    const r = radiusAt(node, camera.zoom);
    if (x < -r || y < -r || x > size.width + r || y > size.height + r) continue;
    if (node.came !== null) halo(context, node.came, x, y, r, inks);
    if (r >= LEAST_DETAILED) {
      detailed(context, node, x, y, r, inks);
      continue;
    }
    let dot = dots.get(node.colour);
    if (!dot) dots.set(node.colour, (dot = new Path2D()));
    outline(dot, node.of.kind, x, y, r);
    if (node.errorShare > 0) {
      rings.moveTo(x + r + 2, y);
      rings.arc(x, y, r + 2, 0, 2 * Math.PI);
    }
  }
  for (const [colour, dot] of dots) {
    context.fillStyle = colour;
    context.fill(dot);
  }
  context.strokeStyle = inks.error;
  context.lineWidth = 1.5;
  context.stroke(rings);
}

/** A circle around what came or went. */
function halo(
  context: CanvasRenderingContext2D,
  came: "new" | "gone",
  x: number,
  y: number,
  r: number,
  inks: Inks,
): void {
  context.strokeStyle = came === "new" ? inks.ok : inks.quiet;
  context.lineWidth = 2.5;
  context.setLineDash(came === "gone" ? [4, 3] : []);
  context.beginPath();
  context.arc(x, y, r + 7, 0, 2 * Math.PI);
  context.stroke();
  context.setLineDash([]);
}

/** Outline and symbol by kind, and a ring for the share of errors. */
function detailed(
  context: CanvasRenderingContext2D,
  node: SceneNode,
  x: number,
  y: number,
  r: number,
  inks: Inks,
): void {
  context.beginPath();
  outline(context, node.of.kind, x, y, r);
  context.fillStyle = node.colour;
  context.fill();
  context.beginPath();
  mark(context, node.of.kind, x, y, r);
  context.strokeStyle = inks.surface;
  context.lineWidth = Math.max(1.2, r / 8);
  context.stroke();
  if (node.errorShare > 0) {
    context.lineWidth = 2.5;
    context.strokeStyle = inks.line;
    context.beginPath();
    context.arc(x, y, r + 3, 0, 2 * Math.PI);
    context.stroke();
    context.strokeStyle = inks.error;
    context.beginPath();
    // The ring has a minimum length, so that rare errors are visible.
    const share = Math.max(0.06, node.errorShare);
    context.arc(x, y, r + 3, -0.5 * Math.PI, (2 * share - 0.5) * Math.PI);
    context.stroke();
  }
}

export function paintLabels(
  context: CanvasRenderingContext2D,
  nodes: readonly SceneNode[],
  labels: readonly Label[],
  camera: Camera,
  size: Size,
  inks: Inks,
): Box[] {
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 3.5;
  context.strokeStyle = inks.surface;
  const boxes: Box[] = [];
  for (const label of labels) {
    const node = nodes[label.at]!;
    const at = toScreen(camera, size, node);
    const [x, y] = [at.x + label.dx, at.y + label.dy];
    if (x < -200 || y < -20 || x > size.width + 200 || y > size.height + 20) continue;
    const { width, height } = label.box;
    context.globalAlpha = 0.8;
    context.fillStyle = inks.surface;
    context.fillRect(x - width / 2, y - LINE / 2, width, height);
    context.globalAlpha = 1;
    write(context, node.label, x, y, NAME_FONT(inks.font), inks.ink);
    if (label.note) write(context, node.note, x, y + LINE - 1, NOTE_FONT(inks.font), inks.quiet);
    boxes.push({ left: x - width / 2, top: y - LINE / 2, width, height });
  }
  return boxes;
}

function write(
  context: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  font: string,
  colour: string,
): void {
  context.font = font;
  context.strokeText(text, x, y);
  context.fillStyle = colour;
  context.fillText(text, x, y);
}

/**
 * Draws rate, what is wrong (in red) and p50 / p95 on a patch on the edge, at a position where the patch
 * covers nothing else. Without such a position they are left out, and only the tooltip shows them.
 */
export function paintFigures(
  context: CanvasRenderingContext2D,
  edges: readonly SceneEdge[],
  taken: Box[],
  camera: Camera,
  size: Size,
  inks: Inks,
): void {
  if (edges.length > MOST_FIGURES) return;
  context.font = `10.5px ${inks.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const edge of edges) {
    const line = lineOf(edge, camera, size);
    if (!line) continue;
    const alarm = edge.alarm && ` ${edge.alarm}`;
    const rate = context.measureText(edge.rate).width;
    const first = rate + context.measureText(alarm).width;
    const second = context.measureText(edge.latency).width;
    const box = spot(
      wayBetween(toScreen(camera, size, edge.from), toScreen(camera, size, edge.to), edge.bend),
      { width: Math.max(first, second) + 8, height: 28 },
      taken,
    );
    if (!box) continue;
    taken.push(box);
    const middle = box.left + box.width / 2;
    context.globalAlpha = 0.9;
    context.fillStyle = inks.surface;
    context.beginPath();
    context.roundRect(box.left, box.top, box.width, box.height, 4);
    context.fill();
    context.globalAlpha = 1;
    context.fillStyle = inks.quiet;
    context.fillText(edge.rate, middle - first / 2, box.top + 8);
    context.fillText(edge.latency, middle - second / 2, box.top + 20.5);
    context.fillStyle = inks.error;
    context.fillText(alarm, middle - first / 2 + rate, box.top + 8);
  }
}

/** Mixes two `#rrggbb` colours. */
export function mix(from: string, to: string, share: number): string {
  const part = (colour: string, at: number) => parseInt(colour.slice(1 + 2 * at, 3 + 2 * at), 16);
  return `#${[0, 1, 2]
    .map((at) => Math.round(part(from, at) * (1 - share) + part(to, at) * share))
    .map((value) => value.toString(16).padStart(2, "0"))
    .join("")}`;
}
