import { useEffect, useMemo, useRef, useState } from "react";
import type { Graph } from "../../api/types";
import { useServiceHex } from "../../app/palette";
import { token, useTheme } from "../../app/theme";
import { formatDuration, nano } from "../../model/duration";
import { resentText } from "../../model/network";
import { formatCount, formatRate, formatShare } from "../../model/number";
import type { Point } from "../../model/spot";
import type { Size } from "./camera";
import type { Colouring } from "./colouring";
import type { Compared } from "./differences";
import type { Inks } from "./paint";
import { scene as sceneOf } from "./scene";
import { useLayout } from "./useLayout";
import { MapView } from "./view";
import type { Hit } from "./view";

type Near = { at: Point; hit: Hit };

export function Picture(props: {
  graph: Graph;
  /** A new scope is a new picture. With the same scope, only the numbers change. */
  scope: string;
  chosen: string | null;
  /** What differs from an earlier time; null if nothing is compared. */
  changes: Compared["edges"] | null;
  came: Compared["nodes"] | null;
  colouring: Colouring;
  onNode: (name: string) => void;
  onEdge: (id: string | null) => void;
}) {
  const theme = useTheme();
  const hex = useServiceHex();
  const box = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const over = useRef<HTMLCanvasElement>(null);
  const view = useRef<MapView | null>(null);
  const [near, setNear] = useState<Near | null>(null);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  const now = useRef(props);
  now.current = props;
  const places = useLayout(props.graph);

  useEffect(() => {
    const element = box.current!;
    const made = new MapView(base.current!, over.current!, {
      onHover: (hit, at) => setNear(hit && { hit, at }),
      onClick: (hit) => {
        if (hit && "node" in hit) now.current.onNode(hit.node.of.name);
        else now.current.onEdge(hit?.edge.id ?? null);
      },
      onFrame: ({ labels, milliseconds }) => {
        element.dataset["labels"] = String(labels);
        element.dataset["frame"] = milliseconds.toFixed(1);
      },
    });
    view.current = made;
    const measure = () => {
      const next = { width: element.clientWidth, height: element.clientHeight };
      made.resize(next);
      setSize(next);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => {
      observer.disconnect();
      made.end();
      view.current = null;
    };
  }, []);
  const scene = useMemo(() => {
    if (!places) return null;
    const made = sceneOf(props.graph, places, size, hex, theme, props.colouring);
    if (props.changes === null) return made;
    for (const edge of made.edges) {
      edge.change = props.changes.get(edge.id)?.change ?? "same";
    }
    for (const node of made.nodes) node.came = props.came?.get(node.of.name) ?? null;
    return made;
  }, [props.graph, props.changes, props.came, props.colouring, places, size, hex, theme]);
  useEffect(() => view.current?.begin(), [props.scope]);
  useEffect(() => {
    if (scene) view.current?.show(scene, readInks());
  }, [scene]);
  useEffect(() => view.current?.choose(props.chosen), [props.chosen]);

  const drawn = scene?.edges.length ?? 0;
  return (
    <>
      <div
        ref={box}
        className="fill"
        role="img"
        aria-label="Service map; the table says the same"
        data-testid="picture"
        data-nodes={scene?.nodes.length ?? 0}
        data-edges={drawn}
      >
        <canvas ref={base} />
        <canvas ref={over} />
      </div>
      {scene && scene.left > 0 && (
        <p className="map-left" data-testid="map-left">
          {formatCount(scene.nodes.length)} services, and the {formatCount(drawn)} most important of{" "}
          {formatCount(drawn + scene.left)} calls: {formatCount(scene.left)} are not drawn. Find a
          service to see all of its own.
        </p>
      )}
      <div className="map-zoom">
        <button
          type="button"
          className="button icon"
          aria-label="Closer"
          onClick={() => view.current?.zoomBy(1.5)}
        >
          +
        </button>
        <button
          type="button"
          className="button icon"
          aria-label="Farther"
          onClick={() => view.current?.zoomBy(1 / 1.5)}
        >
          −
        </button>
        <button
          type="button"
          className="button icon"
          aria-label="Show all"
          title="Show all"
          onClick={() => view.current?.showAll()}
        >
          ⤢
        </button>
      </div>
      {near && <Tip near={near} size={size} seconds={props.graph.window_seconds} />}
    </>
  );
}

function readInks(): Inks {
  return {
    ink: token("--ink"),
    quiet: token("--ink-2"),
    surface: token("--surface"),
    line: token("--line"),
    edge: token("--edge"),
    error: token("--error"),
    accent: token("--accent"),
    ok: token("--ok"),
    warn: token("--warn"),
    font: getComputedStyle(document.body).fontFamily,
  };
}

function Tip({ near: { at, hit }, size, seconds }: { near: Near; size: Size; seconds: number }) {
  // Placed on the side with more room.
  const place = {
    ...(at.x < size.width / 2 ? { left: at.x + 14 } : { right: size.width - at.x + 14 }),
    ...(at.y < size.height / 2 ? { top: at.y + 14 } : { bottom: size.height - at.y + 14 }),
  };
  if ("node" in hit) {
    const { of } = hit.node;
    return (
      <div className="map-tip" style={place}>
        <b>{of.name}</b>{" "}
        <span className="quiet">
          {of.kind}
          {of.system && ` · ${of.system}`}
        </span>
        <dl>
          <dt>Rate</dt>
          <dd>{formatRate(of.requests / Math.max(seconds, 1e-9))}</dd>
          <dt>Errors</dt>
          <dd className={of.errors > 0 ? "is-error" : ""}>
            {formatCount(of.errors)} of {formatCount(of.requests)}
          </dd>
          <dt>p50 / p95</dt>
          <dd>
            {formatDuration(nano(of.p50_nano))} / {formatDuration(nano(of.p95_nano))}
          </dd>
        </dl>
      </div>
    );
  }
  const { of } = hit.edge;
  return (
    <div className="map-tip" style={place}>
      <b>
        {of.client} → {of.server}
      </b>{" "}
      <span className="quiet">{of.protocol}</span>
      <dl>
        <dt>Rate</dt>
        <dd>{formatRate(of.requests_per_second)}</dd>
        <dt>Errors</dt>
        <dd className={of.errors > 0 ? "is-error" : ""}>{formatShare(of.error_share)}</dd>
        <dt>Retransmits</dt>
        <dd>{resentText(of.network)}</dd>
        <dt>p50 / p95 / p99</dt>
        <dd>
          {[of.p50_nano, of.p95_nano, of.p99_nano]
            .map((value) => formatDuration(nano(value)))
            .join(" / ")}
        </dd>
      </dl>
    </div>
  );
}
