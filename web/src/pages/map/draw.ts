/** What the map draws on its canvases beside circles and lines: rings, names, figures. */
import { spot, wayBetween } from "./spot";
import type { Box } from "./spot";
import type { EdgeDisplayData, NodeDisplayData, PartialButFor } from "sigma/types";

export interface Inks {
  ink: string;
  quiet: string;
  surface: string;
  line: string;
  error: string;
  font: string;
}

export interface NodeExtra {
  errorShare: number;
  figures: string;
  glyph: "service" | "database" | "cache" | "external";
  dimmed?: boolean;
}

export interface EdgeExtra {
  rate: string;
  errors: string;
  latency: string;
}

/** Ring by error share, glyph by kind, name and figures below. */
export function nodeLabel(inks: () => Inks) {
  return (
    context: CanvasRenderingContext2D,
    data: PartialButFor<NodeDisplayData, "x" | "y" | "size" | "label" | "color"> &
      Partial<NodeExtra>,
    settings: { labelSize: number },
  ): void => {
    const { ink, quiet, surface, error, line, font } = inks();
    const { x, y, size } = data;
    context.save();
    context.globalAlpha = data.dimmed ? 0.3 : 1;
    context.lineWidth = 3;
    context.strokeStyle = line;
    circle(context, x, y, size + 3.5, 0, 1);
    const share = data.errorShare ?? 0;
    if (share > 0) {
      context.strokeStyle = error;
      // A sliver shows that there are errors at all.
      circle(context, x, y, size + 3.5, 0, Math.max(0.04, share));
    }
    glyph(context, data.glyph ?? "service", x, y, Math.min(size * 0.5, 9), surface);
    if (data.label) {
      context.textAlign = "center";
      context.lineJoin = "round";
      context.strokeStyle = surface;
      context.lineWidth = 4;
      const top = y + size + 20;
      context.font = `600 ${settings.labelSize}px ${font}`;
      context.strokeText(data.label, x, top);
      context.fillStyle = ink;
      context.fillText(data.label, x, top);
      context.font = `11px ${font}`;
      context.strokeText(data.figures ?? "", x, top + 14);
      context.fillStyle = quiet;
      context.fillText(data.figures ?? "", x, top + 14);
    }
    context.restore();
  };
}

function circle(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  radius: number,
  from: number,
  to: number,
): void {
  context.beginPath();
  context.arc(x, y, radius, (from - 0.25) * 2 * Math.PI, (to - 0.25) * 2 * Math.PI);
  context.stroke();
}

/** A cylinder for a database, a bolt for a cache, an arrow for what lies outside. */
function glyph(
  context: CanvasRenderingContext2D,
  kind: NodeExtra["glyph"],
  x: number,
  y: number,
  r: number,
  colour: string,
): void {
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 1.6;
  context.beginPath();
  if (kind === "database") {
    context.ellipse(x, y - r * 0.6, r * 0.75, r * 0.32, 0, 0, 2 * Math.PI);
    context.moveTo(x - r * 0.75, y - r * 0.6);
    context.lineTo(x - r * 0.75, y + r * 0.6);
    context.ellipse(x, y + r * 0.6, r * 0.75, r * 0.32, 0, Math.PI, 0, true);
    context.lineTo(x + r * 0.75, y - r * 0.6);
    context.stroke();
  } else if (kind === "cache") {
    context.moveTo(x + r * 0.2, y - r);
    context.lineTo(x - r * 0.6, y + r * 0.15);
    context.lineTo(x - r * 0.02, y + r * 0.15);
    context.lineTo(x - r * 0.2, y + r);
    context.lineTo(x + r * 0.6, y - r * 0.15);
    context.lineTo(x + r * 0.02, y - r * 0.15);
    context.closePath();
    context.fill();
  } else if (kind === "external") {
    context.moveTo(x - r * 0.6, y + r * 0.6);
    context.lineTo(x + r * 0.6, y - r * 0.6);
    context.moveTo(x - r * 0.1, y - r * 0.6);
    context.lineTo(x + r * 0.6, y - r * 0.6);
    context.lineTo(x + r * 0.6, y + r * 0.1);
    context.stroke();
  }
}

/**
 * Rate, errors in red, and p50 / p95 on a patch on the edge, where it lies over
 * nothing else; left out where there is no such place (the mouse tells it then).
 */
export function edgeLabel(inks: () => Inks, taken: () => Box[]) {
  return (
    context: CanvasRenderingContext2D,
    data: PartialButFor<EdgeDisplayData, "label" | "color" | "size"> &
      Partial<EdgeExtra & { curvature: number }>,
    source: PartialButFor<NodeDisplayData, "x" | "y">,
    target: PartialButFor<NodeDisplayData, "x" | "y">,
  ): void => {
    if (!data.label) return;
    const { quiet, surface, error, font } = inks();
    const rate = data.rate ?? "";
    const errors = data.errors ? ` ${data.errors}` : "";
    const latency = data.latency ?? "";
    context.save();
    context.font = `10.5px ${font}`;
    const first = context.measureText(rate + errors).width;
    const second = context.measureText(latency).width;
    const size = { width: Math.max(first, second) + 8, height: 28 };
    const box = spot(wayBetween(source, target, data.curvature ?? 0), size, taken());
    if (box) {
      taken().push(box);
      const middle = box.left + box.width / 2;
      context.fillStyle = surface;
      context.globalAlpha = 0.9;
      context.beginPath();
      context.roundRect(box.left, box.top, box.width, box.height, 4);
      context.fill();
      context.globalAlpha = 1;
      context.textBaseline = "middle";
      context.textAlign = "left";
      context.fillStyle = quiet;
      context.fillText(rate, middle - first / 2, box.top + 8);
      context.fillText(latency, middle - second / 2, box.top + 20.5);
      context.fillStyle = error;
      context.fillText(errors, middle - first / 2 + context.measureText(rate).width, box.top + 8);
    }
    context.restore();
  };
}
