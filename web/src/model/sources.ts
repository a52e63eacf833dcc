/** Who calls a service, and whom it calls: by distance. */
import type { Relation } from "../api/types";

export interface Step {
  distance: number;
  relations: readonly Relation[];
}

/** Relations of each distance, the nearest first, those with most calls first. */
export function byDistance(relations: readonly Relation[]): Step[] {
  const steps = new Map<number, Relation[]>();
  for (const one of relations) {
    const step = steps.get(one.distance);
    if (step) step.push(one);
    else steps.set(one.distance, [one]);
  }
  return [...steps]
    .sort(([a], [b]) => a - b)
    .map(([distance, found]) => ({ distance, relations: found.sort((a, b) => b.calls - a.calls) }));
}

/** Distances that can be chosen; null is any. */
export const DEPTHS: readonly (number | null)[] = [null, 1, 2, 3, 5];

/** The part of the calls that a caller causes, at most all. */
export const shareOf = (relation: Relation, calls: number): number =>
  calls === 0 ? 0 : Math.min(1, relation.calls / calls);

export const distanceText = (distance: number): string =>
  distance === 1 ? "Directly" : `Over ${distance - 1} other${distance === 2 ? "" : "s"}`;
