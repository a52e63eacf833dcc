import { useEffect, useRef } from "react";
import { token, useTheme } from "../../app/theme";
import { LEGENDS } from "./colouring";
import type { Colouring } from "./colouring";
import { KINDS, mark, outline } from "./shapes";
import type { Kind } from "./shapes";

/** Explains the shapes and colours of the map. */
export function Legend({ colouring }: { colouring: Colouring }) {
  return (
    <div className="legend" aria-hidden="true">
      {KINDS.map((kind) => (
        <span key={kind}>
          <Shape kind={kind} /> {kind}
        </span>
      ))}
      <span className={colouring === "latency" ? "warn-text" : "is-error"}>
        {LEGENDS[colouring]}
      </span>
    </div>
  );
}

function Shape({ kind }: { kind: Kind }) {
  const theme = useTheme();
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const target = canvas.current!;
    target.width = target.height = 32;
    const context = target.getContext("2d")!;
    context.fillStyle = token("--ink-3");
    context.beginPath();
    outline(context, kind, 16, 16, 13);
    context.fill();
    context.strokeStyle = token("--surface");
    context.lineWidth = 2;
    context.beginPath();
    mark(context, kind, 16, 16, 13);
    context.stroke();
  }, [theme, kind]);
  return <canvas ref={canvas} className="shape" />;
}
