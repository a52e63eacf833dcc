/** Where on its edge a label goes, so that labels lie over nothing else. */

import { overlaps } from "./labels";
import type { Box } from "./labels";

export interface Point {
  x: number;
  y: number;
}

/** Shares of the way to try, best first: near the callee, edges that leave one node have parted. */
const TRIES = [0.55, 0.62, 0.48, 0.69, 0.41, 0.76, 0.34, 0.83, 0.27];

/** The first place on the way where a label of this size is free of all boxes, or null. */
export function spot(
  way: (share: number) => Point,
  size: { width: number; height: number },
  taken: readonly Box[],
): Box | null {
  for (const share of TRIES) {
    const { x, y } = way(share);
    const box = { left: x - size.width / 2, top: y - size.height / 2, ...size };
    if (!taken.some((other) => overlaps(box, other))) return box;
  }
  return null;
}

/** A straight way, or a bend to one side. */
export function wayBetween(from: Point, to: Point, curvature: number): (share: number) => Point {
  // The control point of a quadratic Bézier curve, off the middle by the curvature.
  const control = {
    x: (from.x + to.x) / 2 + (to.y - from.y) * curvature,
    y: (from.y + to.y) / 2 - (to.x - from.x) * curvature,
  };
  return (share) => {
    const rest = 1 - share;
    return {
      x: rest * rest * from.x + 2 * rest * share * control.x + share * share * to.x,
      y: rest * rest * from.y + 2 * rest * share * control.y + share * share * to.y,
    };
  };
}

/** Bends to try, least first; positive bends to the left of the way. */
const BENDS = [0, 0.16, -0.16, 0.28, -0.28, 0.42, -0.42];
const SAMPLES = 32;

/**
 * The least bend with which a line runs over none of these boxes, or over the
 * fewest. `least` above 0 keeps apart lines that join the same two nodes. To leave
 * the picture is as bad as to run over a box, each time.
 */
export function clearest(
  from: Point,
  to: Point,
  boxes: readonly Box[],
  least = 0,
  picture?: Box,
): number {
  let best = least;
  let fewest = Infinity;
  for (const bend of BENDS) {
    if (least > 0 && bend < least) continue;
    const way = wayBetween(from, to, bend);
    const hit = new Set<Box>();
    let outside = 0;
    for (let at = 1; at < SAMPLES; at++) {
      const { x, y } = way(at / SAMPLES);
      const point = { left: x, top: y, width: 1, height: 1 };
      if (picture && !overlaps(picture, point)) outside++;
      for (const box of boxes) {
        if (overlaps(box, { left: x - 3, top: y - 3, width: 6, height: 6 })) hit.add(box);
      }
    }
    if (hit.size + outside < fewest) {
      fewest = hit.size + outside;
      best = bend;
    }
    if (fewest === 0) break;
  }
  return best;
}
