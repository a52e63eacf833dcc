import { createEdgeCurveProgram } from "@sigma/edge-curve";
import { MultiDirectedGraph } from "graphology";
import { useEffect, useRef, useState } from "react";
import Sigma from "sigma";
import { createEdgeArrowProgram } from "sigma/rendering";
import type { Graph, GraphEdge, GraphNode } from "../../api/types";
import { token, useTheme } from "../../app/theme";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, formatRate, formatShare } from "../../model/number";
import { edgeLabel, nodeLabel } from "./draw";
import type { Inks } from "./draw";
import { edgeId } from "./edges";
import { fill } from "./look";
import type { EdgeLook, NodeLook } from "./look";
import type { Box } from "./spot";

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
  const [near, setNear] = useState<Near | null>(null);
  const [broken, setBroken] = useState<string | null>(null);
  const now = useRef(props);
  now.current = props;
  const hovered = useRef<string | null>(null);
  const redraw = useRef<() => void>(() => undefined);

  useEffect(() => {
    const parent = box.current!;
    let inks = readInks();
    const read = () => inks;
    let taken: Box[] = [];
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
            drawLabel: edgeLabel(read, () => taken),
          }),
        },
        enableEdgeEvents: true,
        renderEdgeLabels: true,
        labelRenderedSizeThreshold: 0,
        labelDensity: 100,
        labelSize: 12,
        stagePadding: 0,
        minEdgeThickness: 1.4,
        zIndex: true,
        minCameraRatio: 0.2,
        maxCameraRatio: 4,
        defaultDrawNodeLabel: nodeLabel(read),
        // Without sigma's own label box.
        defaultDrawNodeHover: () => undefined,
        defaultDrawEdgeLabel: edgeLabel(read, () => taken),
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
    // The wheel scrolls the page; with Ctrl (or a pinch) it zooms the map.
    const passWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
    };
    parent.addEventListener("wheel", passWheel, { capture: true });
    // Labels of edges keep clear of nodes and their names.
    renderer.on("beforeRender", () => {
      taken = graph.mapNodes((_, look) => {
        const { x, y } = renderer.graphToViewport(look);
        const radius = renderer.scaleSize(look.size) + 5;
        const wide = Math.max(radius, look.figures.length * 3, look.label.length * 3.6);
        return { left: x - wide, top: y - radius, width: 2 * wide, height: 2 * radius + 36 };
      });
    });
    const settle = () => {
      const size = { width: parent.clientWidth, height: parent.clientHeight };
      if (size.width === 0 || size.height === 0) return;
      inks = readInks();
      renderer.setCustomBBox({ x: [0, size.width], y: [0, size.height] });
      fill(graph, now.current.graph, theme, size);
      renderer.refresh();
    };
    const observer = new ResizeObserver(settle);
    observer.observe(parent);
    redraw.current = settle;
    sigma.current = renderer;
    settle();
    return () => {
      observer.disconnect();
      parent.removeEventListener("wheel", passWheel, { capture: true });
      renderer.kill();
      sigma.current = null;
      redraw.current = () => undefined;
    };
  }, [theme]);

  useEffect(() => redraw.current(), [props.graph]);
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
