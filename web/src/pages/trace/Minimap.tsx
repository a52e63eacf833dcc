import { useEffect, useRef } from "react";
import type { PointerEvent } from "react";
import type { Span } from "../../api/types";
import { useServiceHex } from "../../app/palette";
import { token, useTheme } from "../../app/theme";
import { nano } from "../../model/duration";
import { outcome } from "../../model/outcome";
import { isElsewhere } from "../../model/tree";
import type { Tree } from "../../model/tree";
import { setZoom, WHOLE } from "./state";
import type { Shown } from "./state";

/** The whole trace in a narrow strip. Dragging zooms in; a double click resets. */
export function Minimap({ tree, zoom }: { tree: Tree; zoom: Shown["zoom"] }) {
  const theme = useTheme();
  const serviceHex = useServiceHex();
  const canvas = useRef<HTMLCanvasElement>(null);
  const grabbed = useRef<number | null>(null);

  useEffect(() => {
    const target = canvas.current!;
    const paint = () => {
      const ratio = devicePixelRatio;
      const width = (target.width = Math.round(target.clientWidth * ratio));
      const height = (target.height = Math.round(target.clientHeight * ratio));
      const context = target.getContext("2d");
      if (!context) return;
      const { spans } = tree.trace;
      const pad = 4 * ratio;
      // If only part of the trace is loaded, the rest of the strip stays empty.
      const { first, span_count: count } = tree.trace;
      const step = (height - 2 * pad) / Math.max(1, count);
      const thick = Math.max(ratio, Math.min(4 * ratio, step * 0.8));
      const error = token("--error");
      const colours = new Map<string, string>();
      const draw = (span: Span, at: number, colour: string, least: number) => {
        context.fillStyle = colour;
        context.fillRect(
          (tree.start.get(span.span_id)! / tree.length) * width,
          pad + (first + at) * step,
          Math.max(least, (nano(span.duration_nano) / tree.length) * width),
          Math.max(least, thick),
        );
      };
      // Failures are few, so they are drawn on top to be visible among ten thousand spans.
      const failed: [Span, number][] = [];
      spans.forEach((span, at) => {
        if (isElsewhere(span)) return;
        if (outcome(span).failed) return void failed.push([span, at]);
        let colour = colours.get(span.service);
        if (!colour) colours.set(span.service, (colour = serviceHex(span.service, theme)));
        draw(span, at, colour, ratio);
      });
      for (const [span, at] of failed) draw(span, at, error, 2 * ratio);
    };
    paint();
    const observer = new ResizeObserver(paint);
    observer.observe(target);
    return () => observer.disconnect();
  }, [tree, theme, serviceHex]);

  const share = (event: PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const [from, to] = zoom;
  return (
    <div
      className="minimap"
      data-testid="minimap"
      title="Drag to zoom into a part of the time; double click shows all"
      onPointerDown={(event) => {
        if (event.target instanceof HTMLButtonElement) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        grabbed.current = share(event);
      }}
      onPointerMove={(event) => {
        if (grabbed.current === null) return;
        const here = share(event);
        const [low, high] = [Math.min(here, grabbed.current), Math.max(here, grabbed.current)];
        if (high - low > 0.003) setZoom([low, high]);
      }}
      onPointerUp={() => (grabbed.current = null)}
      onDoubleClick={() => setZoom(WHOLE)}
    >
      <canvas ref={canvas} aria-hidden="true" />
      {zoom !== WHOLE && (
        <>
          <div className="shade" style={{ left: 0, width: `${from * 100}%` }} />
          <div className="shade" style={{ right: 0, width: `${(1 - to) * 100}%` }} />
          <div
            className="window"
            style={{ left: `${from * 100}%`, width: `${(to - from) * 100}%` }}
          />
          <button type="button" className="button tiny" onClick={() => setZoom(WHOLE)}>
            Whole trace
          </button>
        </>
      )}
    </div>
  );
}
