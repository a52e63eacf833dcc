/** Outlines of nodes by kind, recognizable without colour. */
import type { GraphNode } from "../../api/types";

export type Kind = GraphNode["kind"];

export const KINDS: readonly Kind[] = ["service", "database", "cache", "broker", "external"];

type Path = Pick<CanvasRenderingContext2D, "moveTo" | "lineTo" | "arc" | "ellipse" | "closePath">;

/** A circle, a cylinder, a hexagon, a horizontal pipe or a diamond. */
export function outline(path: Path, kind: Kind, x: number, y: number, r: number): void {
  switch (kind) {
    case "database":
      path.moveTo(x - r * 0.85, y - r * 0.65);
      path.ellipse(x, y - r * 0.65, r * 0.85, r * 0.35, 0, Math.PI, 2 * Math.PI);
      path.lineTo(x + r * 0.85, y + r * 0.65);
      path.ellipse(x, y + r * 0.65, r * 0.85, r * 0.35, 0, 0, Math.PI);
      break;
    case "cache":
      for (let corner = 0; corner < 6; corner++) {
        const angle = (corner * Math.PI) / 3;
        const [px, py] = [x + r * Math.cos(angle), y + r * Math.sin(angle)];
        if (corner === 0) path.moveTo(px, py);
        else path.lineTo(px, py);
      }
      break;
    case "broker":
      path.moveTo(x - r * 0.7, y - r * 0.65);
      path.lineTo(x + r * 0.7, y - r * 0.65);
      path.ellipse(x + r * 0.7, y, r * 0.35, r * 0.65, 0, -Math.PI / 2, Math.PI / 2);
      path.lineTo(x - r * 0.7, y + r * 0.65);
      path.ellipse(x - r * 0.7, y, r * 0.35, r * 0.65, 0, Math.PI / 2, Math.PI * 1.5);
      break;
    case "external":
      path.moveTo(x, y - r);
      path.lineTo(x + r, y);
      path.lineTo(x, y + r);
      path.lineTo(x - r, y);
      break;
    default:
      path.moveTo(x + r, y);
      path.arc(x, y, r, 0, 2 * Math.PI);
  }
  path.closePath();
}

/** The symbol inside: the cylinder's lid, a bolt, the pipe's opening, or an arrow that leads out. */
export function mark(path: Path, kind: Kind, x: number, y: number, r: number): void {
  switch (kind) {
    case "database":
      path.moveTo(x + r * 0.85, y - r * 0.65);
      path.ellipse(x, y - r * 0.65, r * 0.85, r * 0.35, 0, 0, Math.PI);
      break;
    case "cache":
      path.moveTo(x + r * 0.15, y - r * 0.55);
      path.lineTo(x - r * 0.25, y + r * 0.08);
      path.lineTo(x + r * 0.25, y - r * 0.08);
      path.lineTo(x - r * 0.15, y + r * 0.55);
      break;
    case "broker":
      path.moveTo(x + r * 0.7, y - r * 0.65);
      path.ellipse(x + r * 0.7, y, r * 0.35, r * 0.65, 0, -Math.PI / 2, Math.PI / 2, true);
      break;
    case "external":
      path.moveTo(x - r * 0.25, y + r * 0.25);
      path.lineTo(x + r * 0.28, y - r * 0.28);
      path.moveTo(x - r * 0.08, y - r * 0.28);
      path.lineTo(x + r * 0.28, y - r * 0.28);
      path.lineTo(x + r * 0.28, y + r * 0.08);
      break;
    default:
  }
}
