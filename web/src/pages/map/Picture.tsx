import { createEdgeCurveProgram, DEFAULT_EDGE_CURVATURE } from "@sigma/edge-curve";
import { MultiDirectedGraph } from "graphology";
import { useEffect, useRef, useState } from "react";
import Sigma from "sigma";
import { createEdgeArrowProgram } from "sigma/rendering";
import type { Graph, GraphEdge, GraphNode } from "../../api/types";
import { serviceHex } from "../../app/palette";
import { token, useTheme } from "../../app/theme";
import { formatDuration, nano } from "../../model/duration";
import { layers } from "../../model/layers";
import { formatCount, formatRate, formatShare } from "../../model/number";
import { edgeLabel, nodeLabel } from "./draw";
import type { EdgeExtra, Inks, NodeExtra } from "./draw";
import { edgeId } from "./edges";

type NodeLook = { x: number; y: number; size: number; label: string; color: string } & NodeExtra;
type EdgeLook = {
  size: number;
  color: string;
  label: string;
  type: string;
  curvature: number;
  zIndex: number;
} & EdgeExtra;

/** More edges than these keep their figures for the mouse. */
const MOST_LABELS = 40;

type Near = { left: number; top: number } & ({ node: GraphNode } | { edge: GraphEdge });

export function Picture(props: {
  graph: Graph;
  chosen: string | null;
  onNode: (name: string) => void;
  onEdge: (id: string | null) => void;
}) {
  const theme = useTheme();
  const box = useRef<HTMLDivElement>(null);
  const sigma = useRef<Sigma<NodeLook, EdgeLook> | null>(null);
  const drawn = useRef<MultiDirectedGraph<NodeLook, EdgeLook> | null>(null);
  const [near, setNear] = useState<Near | null>(null);
  const [broken, setBroken] = useState<string | null>(null);
  const now = useRef(props);
  now.current = props;
  const hovered = useRef<string | null>(null);

  useEffect(() => {
    const parent = box.current!;
    let inks = readInks();
    const read = () => inks;
    const graph = new MultiDirectedGraph<NodeLook, EdgeLook>();
    let renderer: Sigma<NodeLook, EdgeLook>;
    try {
      renderer = new Sigma<NodeLook, EdgeLook>(graph, parent, {
        allowInvalidContainer: true,
        defaultEdgeType: "straight",
        edgeProgramClasses: {
          straight: createEdgeArrowProgram<NodeLook, EdgeLook>(),
          curved: createEdgeCurveProgram<NodeLook, EdgeLook>({
            arrowHead: {
              extremity: "target",
              lengthToThicknessRatio: 2.5,
              widenessToThicknessRatio: 2,
            },
            drawLabel: undefined,
          }),
        },
        enableEdgeEvents: true,
        renderEdgeLabels: true,
        labelRenderedSizeThreshold: 0,
        labelDensity: 100,
        labelSize: 12,
        stagePadding: 76,
        minEdgeThickness: 1.4,
        zIndex: true,
        minCameraRatio: 0.2,
        maxCameraRatio: 4,
        defaultDrawNodeLabel: nodeLabel(read),
        // Without sigma's own label box.
        defaultDrawNodeHover: () => undefined,
        defaultDrawEdgeLabel: edgeLabel(read),
        nodeReducer: (name, look) => {
          const at = hovered.current;
          if (at === null || at === name || !graph.hasNode(at)) return look;
          return graph.areNeighbors(at, name) ? look : { ...look, color: inks.line, dimmed: true };
        },
        edgeReducer: (id, look) => {
          const chosen = now.current.chosen === id;
          const at = hovered.current;
          const dimmed = at !== null && graph.hasNode(at) && !graph.extremities(id).includes(at);
          return {
            ...look,
            color: chosen ? token("--accent") : dimmed ? inks.line : look.color,
            zIndex: chosen ? 2 : look.zIndex,
            label: dimmed
              ? ""
              : chosen || graph.size <= MOST_LABELS || at !== null
                ? look.label
                : "",
          };
        },
      });
    } catch (cause) {
      setBroken(cause instanceof Error ? cause.message : String(cause));
      return;
    }
    const hover = (name: string | null) => {
      hovered.current = name;
      renderer.refresh({ skipIndexation: true });
      parent.style.cursor = name === null ? "" : "pointer";
    };
    const place = (event: { x: number; y: number }) => ({ left: event.x, top: event.y });
    renderer.on("enterNode", ({ node, event }) => {
      const found = now.current.graph.nodes.find((one) => one.name === node);
      if (found) setNear({ ...place(event), node: found });
      hover(node);
    });
    renderer.on("enterEdge", ({ edge, event }) => {
      const found = now.current.graph.edges.find((one) => edgeId(one) === edge);
      if (found) setNear({ ...place(event), edge: found });
      parent.style.cursor = "pointer";
    });
    const leave = () => {
      setNear(null);
      hover(null);
    };
    renderer.on("leaveNode", leave);
    renderer.on("leaveEdge", leave);
    renderer.on("clickNode", ({ node }) => now.current.onNode(node));
    renderer.on("clickEdge", ({ edge }) => now.current.onEdge(edge));
    renderer.on("clickStage", () => now.current.onEdge(null));
    const observer = new ResizeObserver(() => {
      inks = readInks();
      renderer.refresh();
    });
    observer.observe(parent);
    sigma.current = renderer;
    drawn.current = graph;
    fill(graph, now.current.graph, theme);
    // The layout is wider than high; fill what there is.
    renderer.refresh();
    return () => {
      observer.disconnect();
      renderer.kill();
      sigma.current = null;
      drawn.current = null;
    };
  }, [theme]);

  useEffect(() => {
    if (!drawn.current) return;
    fill(drawn.current, props.graph, theme, box.current!);
    sigma.current?.refresh();
  }, [props.graph, theme]);
  useEffect(() => {
    sigma.current?.refresh({ skipIndexation: true });
  }, [props.chosen]);

  if (broken !== null) {
    return (
      <div className="blank">
        <h2>This browser cannot draw the map</h2>
        <p>It needs WebGL 2 ({broken}). The table below says the same.</p>
      </div>
    );
  }
  const camera = () => sigma.current?.getCamera();
  return (
    <>
      <div
        ref={box}
        style={{ position: "absolute", inset: 0 }}
        role="img"
        aria-label="Service map; the table below says the same"
      />
      <div className="map-zoom">
        <button
          type="button"
          className="button icon"
          aria-label="Closer"
          onClick={() => void camera()?.animatedZoom()}
        >
          +
        </button>
        <button
          type="button"
          className="button icon"
          aria-label="Farther"
          onClick={() => void camera()?.animatedUnzoom()}
        >
          −
        </button>
        <button
          type="button"
          className="button icon"
          aria-label="Show all"
          title="Show all"
          onClick={() => void camera()?.animatedReset()}
        >
          ⤢
        </button>
      </div>
      {near && <Tip near={near} seconds={props.graph.window_seconds} />}
    </>
  );
}

function readInks(): Inks {
  return {
    ink: token("--ink"),
    quiet: token("--ink-2"),
    surface: token("--surface"),
    line: token("--line"),
    error: token("--error"),
    font: getComputedStyle(document.body).fontFamily,
  };
}

/** Puts the answer into the picture; what is there already keeps its place. */
function fill(
  drawn: MultiDirectedGraph<NodeLook, EdgeLook>,
  graph: Graph,
  theme: ReturnType<typeof useTheme>,
  parent?: HTMLElement,
): void {
  const places = layers(
    graph.nodes.map((node) => node.name),
    graph.edges.map((edge) => [edge.client, edge.server] as const),
  );
  const ratio = aspect(places, parent);
  const seconds = Math.max(graph.window_seconds, 1e-9);
  const busiest = Math.max(1e-9, ...graph.nodes.map((node) => node.requests));
  const names = new Set(graph.nodes.map((node) => node.name));
  const edges = graph.edges.filter((edge) => names.has(edge.client) && names.has(edge.server));
  const ids = new Set(edges.map(edgeId));
  for (const id of drawn.edges()) if (!ids.has(id)) drawn.dropEdge(id);
  for (const name of drawn.nodes()) if (!names.has(name)) drawn.dropNode(name);
  for (const node of graph.nodes) {
    const place = places.get(node.name)!;
    drawn.mergeNode(node.name, {
      x: place.x * ratio,
      y: -place.y,
      size: 11 + 13 * Math.sqrt(node.requests / busiest),
      label: node.name,
      color: serviceHex(node.name, theme),
      errorShare: node.requests > 0 ? node.errors / node.requests : 0,
      figures: `${formatRate(node.requests / seconds)} · p95 ${formatDuration(nano(node.p95_nano))}`,
      glyph: node.kind,
    });
  }
  const most = Math.max(1e-9, ...edges.map((edge) => edge.requests_per_second));
  const calm = token("--line-strong");
  const red = token("--error");
  for (const edge of edges) {
    const from = places.get(edge.client)!;
    const to = places.get(edge.server)!;
    const both = edges.some(
      (other) => other.client === edge.server && other.server === edge.client,
    );
    const several =
      edges.filter((o) => o.client === edge.client && o.server === edge.server).length > 1;
    const curved = both || several || throughANode(places, edge.client, edge.server);
    const figures = `${formatRate(edge.requests_per_second)} · ${formatDuration(nano(edge.p50_nano))} / ${formatDuration(nano(edge.p95_nano))}`;
    drawn.mergeEdgeWithKey(edgeId(edge), edge.client, edge.server, {
      size: 1.5 + 4 * Math.sqrt(edge.requests_per_second / most),
      color:
        edge.error_share > 0
          ? mix(calm, red, 0.35 + 0.65 * Math.min(1, edge.error_share * 8))
          : calm,
      label: figures,
      figures,
      errors: edge.error_share > 0 ? `${formatShare(edge.error_share)} err` : "",
      guess: edge.certain_share < 0.999,
      type: curved ? "curved" : "straight",
      curvature: DEFAULT_EDGE_CURVATURE * (to.y >= from.y ? -1 : 1),
      zIndex: edge.error_share > 0 ? 1 : 0,
    });
  }
}

/** How much to stretch the layout so that it fills the box. */
function aspect(places: ReturnType<typeof layers>, parent?: HTMLElement): number {
  const all = [...places.values()];
  const wide = Math.max(1, ...all.map((one) => one.x));
  const ys = all.map((one) => one.y);
  const high = Math.max(1, Math.max(...ys, 0) - Math.min(...ys, 0));
  const box =
    parent && parent.clientHeight > 0
      ? (parent.clientWidth - 150) / Math.max(100, parent.clientHeight - 150)
      : 2.2;
  return Math.min(8, Math.max(0.6, (box * high) / wide));
}

/** Whether a straight line would cross another node. */
function throughANode(places: ReturnType<typeof layers>, client: string, server: string): boolean {
  const from = places.get(client)!;
  const to = places.get(server)!;
  for (const [name, at] of places) {
    if (name === client || name === server) continue;
    const share = (at.x - from.x) / (to.x - from.x || 1e-9);
    if (share <= 0.02 || share >= 0.98) continue;
    if (Math.abs(from.y + (to.y - from.y) * share - at.y) < 0.42) return true;
  }
  return false;
}

/** A colour between two of `#rrggbb`. */
function mix(from: string, to: string, share: number): string {
  const part = (colour: string, at: number) => parseInt(colour.slice(1 + 2 * at, 3 + 2 * at), 16);
  return `#${[0, 1, 2]
    .map((at) => Math.round(part(from, at) * (1 - share) + part(to, at) * share))
    .map((value) => value.toString(16).padStart(2, "0"))
    .join("")}`;
}

function Tip({ near, seconds }: { near: Near; seconds: number }) {
  return (
    <div className="map-tip" style={{ left: near.left + 14, top: near.top + 14 }}>
      {"node" in near ? (
        <>
          <b>{near.node.name}</b> <span className="quiet">{near.node.kind}</span>
          <dl>
            <dt>Rate</dt>
            <dd>{formatRate(near.node.requests / Math.max(seconds, 1e-9))}</dd>
            <dt>Errors</dt>
            <dd className={near.node.errors > 0 ? "is-error" : ""}>
              {formatCount(near.node.errors)} of {formatCount(near.node.requests)}
            </dd>
            <dt>p50 / p95</dt>
            <dd>
              {formatDuration(nano(near.node.p50_nano))} /{" "}
              {formatDuration(nano(near.node.p95_nano))}
            </dd>
          </dl>
        </>
      ) : (
        <>
          <b>
            {near.edge.client} → {near.edge.server}
          </b>{" "}
          <span className="quiet">{near.edge.protocol}</span>
          <dl>
            <dt>Rate</dt>
            <dd>{formatRate(near.edge.requests_per_second)}</dd>
            <dt>Errors</dt>
            <dd className={near.edge.errors > 0 ? "is-error" : ""}>
              {formatShare(near.edge.error_share)}
            </dd>
            <dt>p50 / p95 / p99</dt>
            <dd>
              {[near.edge.p50_nano, near.edge.p95_nano, near.edge.p99_nano]
                .map((value) => formatDuration(nano(value)))
                .join(" / ")}
            </dd>
          </dl>
        </>
      )}
    </div>
  );
}
