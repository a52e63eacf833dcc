/** Moving and zooming the visible part of a trace's time by keys. */
import { setZoom, WHOLE } from "./state";
import type { Shown } from "./state";

/** Moves by a share of what is visible. */
export function panned([from, to]: Shown["zoom"], by: number): void {
  const width = to - from;
  const start = Math.min(1 - width, Math.max(0, from + by * width));
  setZoom([start, start + width]);
}

/** Shows a larger (above 1) or smaller part around the middle. */
export function zoomedBy([from, to]: Shown["zoom"], factor: number): void {
  const width = Math.max(1e-6, (to - from) * factor);
  if (width >= 1) return setZoom(WHOLE);
  const start = Math.min(1 - width, Math.max(0, (from + to - width) / 2));
  setZoom([start, start + width]);
}
