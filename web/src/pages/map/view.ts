/** Draws the map on its canvases for the current camera, and handles the pointer. */
import { placeLabels } from "../../model/labels";
import type { Label } from "../../model/labels";
import { wayBetween } from "../../model/spot";
import type { Point } from "../../model/spot";
import { fitted, toScreen, zoomed } from "./camera";
import type { Camera, Size } from "./camera";
import {
  NAME_FONT,
  NOTE_FONT,
  paintEdges,
  paintFigures,
  paintLabels,
  paintNodes,
  radiusAt,
} from "./paint";
import type { Inks } from "./paint";
import type { Scene, SceneEdge, SceneNode } from "./scene";

/** Labels on the picture at once. */
const MOST_LABELS = 250;
/** Distance within which the pointer hits a line, in pixels. */
const REACH = 6;
/** Straight pieces that approximate a curve. */
const PIECES = 16;
/** A press that moves less than this is a click, in pixels. */
const STILL = 4;
const MOST_RATIO = 2;

export type Hit = { node: SceneNode } | { edge: SceneEdge };

export interface Listener {
  onHover: (hit: Hit | null, at: Point) => void;
  onClick: (hit: Hit | null) => void;
  /** Called after each frame, for waiting and for measurements. */
  onFrame: (drawn: { labels: number; milliseconds: number }) => void;
}

export class MapView {
  private scene: Scene | null = null;
  private inks: Inks | null = null;
  private camera: Camera = { x: 0, y: 0, zoom: 1 };
  private whole = true;
  private size: Size = { width: 0, height: 0 };
  private labels: Label[] = [];
  private labelled = "";
  private chosen: string | null = null;
  private hovered: Hit | null = null;
  private frame = 0;
  private readonly widths = new Map<string, number>();
  private readonly pointers = new Map<number, Point>();
  private moved = 0;
  private readonly stop = new AbortController();

  constructor(
    private readonly base: HTMLCanvasElement,
    /** Draws what is under the pointer, above the base canvas, which is then not redrawn. */
    private readonly over: HTMLCanvasElement,
    private readonly listener: Listener,
  ) {
    const on = { signal: this.stop.signal };
    over.addEventListener("pointerdown", (event) => this.down(event), on);
    over.addEventListener("pointermove", (event) => this.move(event), on);
    over.addEventListener("pointerup", (event) => this.up(event), on);
    over.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId), on);
    over.addEventListener("pointerleave", () => this.hover(null, { x: 0, y: 0 }), on);
    over.addEventListener("wheel", (event) => this.wheel(event), { ...on, passive: false });
  }

  end(): void {
    this.stop.abort();
    cancelAnimationFrame(this.frame);
  }

  resize(size: Size): void {
    this.size = size;
    const ratio = Math.min(devicePixelRatio, MOST_RATIO);
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(size.width * ratio);
      canvas.height = Math.round(size.height * ratio);
    }
    this.labelled = "";
    if (this.whole) this.showAll();
    this.draw();
  }

  /** Shows new numbers. The camera stays where it is, unless it shows the whole map. */
  show(scene: Scene, inks: Inks): void {
    const before = this.hovered;
    this.scene = scene;
    this.inks = inks;
    this.labelled = "";
    this.hovered = before && again(before, scene);
    if (this.whole) this.showAll();
    this.draw();
  }

  /** Makes the next scene start with the whole map in view. */
  begin(): void {
    this.whole = true;
  }

  choose(edge: string | null): void {
    this.chosen = edge;
    this.draw();
  }

  showAll(): void {
    if (!this.scene || this.size.width === 0) return;
    this.camera = fitted(this.scene.world, this.size);
    this.whole = true;
    this.draw();
  }

  zoomBy(factor: number, at: Point = { x: this.size.width / 2, y: this.size.height / 2 }): void {
    if (!this.scene) return;
    const least = fitted(this.scene.world, this.size).zoom;
    this.camera = zoomed(this.camera, this.size, factor, at, least);
    this.whole = this.camera.zoom === least;
    this.draw();
  }

  private draw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  private paint(): void {
    const { scene, inks, camera, size } = this;
    const context = this.base.getContext("2d");
    if (!scene || !inks || !context || size.width === 0) return;
    const begun = performance.now();
    this.ready(context);
    const shown = { nodes: scene.nodes, edges: scene.edges, chosen: this.chosen, detailed: true };
    paintEdges(context, shown, camera, size, inks);
    paintNodes(context, shown, camera, size, inks);
    this.place(context, scene, inks);
    const taken = paintLabels(context, scene.nodes, this.labels, camera, size, inks);
    for (const node of scene.nodes) taken.push(this.dot(node));
    paintFigures(context, scene.edges, taken, camera, size, inks);
    this.paintHovered();
    this.listener.onFrame({ labels: this.labels.length, milliseconds: performance.now() - begun });
  }

  /** Draws a veil, and on it the neighbourhood of what is under the pointer. */
  private paintHovered(): void {
    const { scene, inks, camera, size, hovered } = this;
    const context = this.over.getContext("2d");
    if (!scene || !inks || !context) return;
    this.ready(context);
    if (!hovered) return;
    const edges =
      "edge" in hovered
        ? [hovered.edge]
        : scene.edges.filter(({ from, to }) => from === hovered.node || to === hovered.node);
    const nodes = new Set("node" in hovered ? [hovered.node] : []);
    for (const { from, to } of edges) nodes.add(from).add(to);
    context.globalAlpha = 0.85;
    context.fillStyle = inks.surface;
    context.fillRect(0, 0, size.width, size.height);
    context.globalAlpha = 1;
    const list = [...nodes];
    const strong = { ...inks, edge: inks.quiet };
    const shown = { nodes: list, edges, chosen: this.chosen, detailed: true };
    paintEdges(context, shown, camera, size, strong);
    paintNodes(context, shown, camera, size, inks);
    const labels = placeLabels(
      list.map((node) => this.named(context, node, inks)),
      MOST_LABELS,
    );
    const taken = paintLabels(context, list, labels, camera, size, inks);
    for (const node of list) taken.push(this.dot(node));
    paintFigures(context, edges, taken, camera, size, inks);
  }

  private ready(context: CanvasRenderingContext2D): void {
    const ratio = Math.min(devicePixelRatio, MOST_RATIO);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.size.width, this.size.height);
  }

  private dot(node: SceneNode) {
    const { x, y } = toScreen(this.camera, this.size, node);
    const r = radiusAt(node, this.camera.zoom);
    return { left: x - r, top: y - r, width: 2 * r, height: 2 * r };
  }

  private named(context: CanvasRenderingContext2D, node: SceneNode, inks: Inks) {
    return {
      ...toScreen(this.camera, this.size, node),
      radius: radiusAt(node, this.camera.zoom) + (node.errorShare > 0 ? 4 : 0),
      width: this.measure(context, node.label, NAME_FONT(inks.font)),
      noteWidth: this.measure(context, node.note, NOTE_FONT(inks.font)),
    };
  }

  /**
   * Places labels once for each zoom, so that they keep their positions while the map is
   * dragged.
   */
  private place(context: CanvasRenderingContext2D, scene: Scene, inks: Inks): void {
    const { width, height } = this.size;
    // Labels far outside the view are placed when the map has been dragged there.
    const tile = `${Math.round((this.camera.x * this.camera.zoom) / width)} ${Math.round((this.camera.y * this.camera.zoom) / height)}`;
    const key = `${this.camera.zoom} ${tile}`;
    if (key === this.labelled) return;
    this.labelled = key;
    const near: number[] = [];
    const dots = [];
    for (const [at, node] of scene.nodes.entries()) {
      const { x, y } = toScreen(this.camera, this.size, node);
      if (x < -width || y < -height || x > 2 * width || y > 2 * height) continue;
      near.push(at);
      dots.push(this.named(context, node, inks));
    }
    const { left, top, width: wide, height: tall } = scene.world;
    const corner = toScreen(this.camera, this.size, { x: left, y: top });
    const { zoom } = this.camera;
    // Covers the whole world and the whole screen.
    const [west, north] = [Math.min(0, corner.x), Math.min(0, corner.y)];
    const bounds = {
      left: west,
      top: north,
      width: Math.max(width, corner.x + wide * zoom) - west,
      height: Math.max(height, corner.y + tall * zoom) - north,
    };
    this.labels = placeLabels(dots, MOST_LABELS, bounds).map((label) => ({
      ...label,
      at: near[label.at]!,
    }));
  }

  private measure(context: CanvasRenderingContext2D, text: string, font: string): number {
    const key = `${font} ${text}`;
    let width = this.widths.get(key);
    if (width === undefined) {
      context.font = font;
      width = context.measureText(text).width;
      if (this.widths.size > 20_000) this.widths.clear();
      this.widths.set(key, width);
    }
    return width;
  }

  private hit(at: Point): Hit | null {
    const { scene, camera, size } = this;
    if (!scene) return null;
    let best: Hit | null = null;
    let nearest = Infinity;
    for (const node of scene.nodes) {
      const { x, y } = toScreen(camera, size, node);
      const away = Math.hypot(x - at.x, y - at.y) - radiusAt(node, camera.zoom);
      if (away < REACH / 2 && away < nearest) [best, nearest] = [{ node }, away];
    }
    if (best) return best;
    for (const edge of scene.edges) {
      const way = wayBetween(
        toScreen(camera, size, edge.from),
        toScreen(camera, size, edge.to),
        edge.bend,
      );
      const pieces = edge.bend === 0 ? 1 : PIECES;
      for (let piece = 0; piece < pieces; piece++) {
        const away = toSegment(at, way(piece / pieces), way((piece + 1) / pieces));
        if (away < REACH && away < nearest) [best, nearest] = [{ edge }, away];
      }
    }
    return best;
  }

  private hover(hit: Hit | null, at: Point): void {
    this.over.style.cursor = hit ? "pointer" : "grab";
    this.listener.onHover(hit, at);
    if (same(hit, this.hovered)) return;
    this.hovered = hit;
    this.paintHovered();
  }

  private at(event: MouseEvent): Point {
    const box = this.over.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private down(event: PointerEvent): void {
    this.over.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.at(event));
    if (this.pointers.size === 1) this.moved = 0;
  }

  private move(event: PointerEvent): void {
    const here = this.at(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") this.hover(this.hit(here), here);
      return;
    }
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
    this.pointers.set(event.pointerId, here);
    this.moved += Math.hypot(here.x - before.x, here.y - before.y);
    const other = others[0]?.[1];
    if (other) {
      // With two fingers, the change of their distance zooms.
      const far = (point: Point) => Math.hypot(point.x - other.x, point.y - other.y);
      const middle = { x: (here.x + other.x) / 2, y: (here.y + other.y) / 2 };
      this.zoomBy(far(here) / Math.max(1, far(before)), middle);
    } else if (this.moved > STILL) {
      this.camera = {
        ...this.camera,
        x: this.camera.x - (here.x - before.x) / this.camera.zoom,
        y: this.camera.y - (here.y - before.y) / this.camera.zoom,
      };
      this.whole = false;
      if (this.hovered) this.hover(null, here);
      this.over.style.cursor = "grabbing";
      this.draw();
    }
  }

  private up(event: PointerEvent): void {
    if (!this.pointers.delete(event.pointerId)) return;
    if (this.moved <= STILL) this.listener.onClick(this.hit(this.at(event)));
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    // A pinch on a touchpad arrives as wheel events with small steps and Ctrl set.
    const speed = event.ctrlKey ? 0.01 : event.deltaMode === 0 ? 0.0016 : 0.05;
    this.zoomBy(Math.exp(-event.deltaY * speed), this.at(event));
  }
}

/** Finds the same node or edge in a new scene. */
function again(hit: Hit, scene: Scene): Hit | null {
  if ("node" in hit) {
    const node = scene.byName.get(hit.node.of.name);
    return node ? { node } : null;
  }
  const edge = scene.edges.find(({ id }) => id === hit.edge.id);
  return edge ? { edge } : null;
}

function same(one: Hit | null, other: Hit | null): boolean {
  if (one === null || other === null) return one === other;
  return "node" in one
    ? "node" in other && one.node === other.node
    : "edge" in other && one.edge === other.edge;
}

/** The distance from a point to the line segment between two points. */
function toSegment(point: Point, one: Point, other: Point): number {
  const [dx, dy] = [other.x - one.x, other.y - one.y];
  const long = dx * dx + dy * dy;
  const share = long === 0 ? 0 : ((point.x - one.x) * dx + (point.y - one.y) * dy) / long;
  const bound = Math.min(1, Math.max(0, share));
  return Math.hypot(point.x - one.x - bound * dx, point.y - one.y - bound * dy);
}
