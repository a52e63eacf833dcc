/** Finds the position of a label on its edge at which it covers nothing else. */

import { overlaps } from "./labels";
import type { Box } from "./labels";

export interface Point {
  x: number;
  y: number;
}

/**
 * Positions to try along the edge, the best first: near the callee, because there the edges that
 * leave one node have diverged.
 */
const TRIES = [0.55, 0.62, 0.48, 0.69, 0.41, 0.76, 0.34, 0.83, 0.27];

/** The first position at which a label of this size overlaps no box, or null. */
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

/** A straight line, or a curve that bends to one side. */
export function wayBetween(from: Point, to: Point, curvature: number): (share: number) => Point {
  // The control point of a quadratic Bézier curve, beside the middle by the curvature.
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

/** Curvatures to try, the smallest first. Positive values bend to the left, seen from the start. */
const BENDS = [0, 0.16, -0.16, 0.28, -0.28, 0.42, -0.42];
const SAMPLES = 32;

/**
 * The smallest curvature with which a line crosses no box, or the fewest. A `least` above 0
 * separates lines that join the same two nodes. Each sample point outside the picture counts as
 * much as a crossed box.
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
