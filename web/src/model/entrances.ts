/** Where load comes in, and how it changes. */
import type { Entrance, Entrances } from "../api/types";
import { formatShare } from "./number";

export type Direction = "up" | "down" | "same" | "new" | "unknown";

export interface Trend {
  direction: Direction;
  text: string;
}

/** A change of less than this is none. */
const LEAST_CHANGE = 0.05;

/**
 * How a rate changed. An entrance without runs before is new only if others were seen then:
 * otherwise nothing is known of the time before.
 */
export function trendOf(change: number | null, knownBefore: boolean): Trend {
  if (change === null) {
    return knownBefore
      ? { direction: "new", text: "new" }
      : { direction: "unknown", text: "not known" };
  }
  if (Math.abs(change) < LEAST_CHANGE) return { direction: "same", text: "same" };
  if (change >= 1) return { direction: "up", text: `× ${(1 + change).toFixed(1)}` };
  const direction = change > 0 ? "up" : "down";
  return { direction, text: `${change > 0 ? "+" : "−"}${formatShare(Math.abs(change))}` };
}

/** The rates of all listed entrances together. */
export function together(entrances: readonly Entrance[]): { now: number; before: number } {
  return entrances.reduce(
    (sum, one) => ({
      now: sum.now + one.runs_per_second,
      before: sum.before + one.runs_per_second_before,
    }),
    { now: 0, before: 0 },
  );
}

export const knownBefore = (answer: Entrances): boolean => answer.observed_before.runs > 0;
