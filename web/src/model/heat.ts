/** Durations over time, counted in cells. */
import { label } from "../api/tempo";
import type { TempoMetrics } from "../api/tempo";
import type { Steps } from "./series";

export interface Heat {
  on: Steps;
  /** The upper bounds of the rows in seconds, ascending; each is twice the one below. */
  bounds: number[];
  /** Counts by row, then by step. */
  cells: number[][];
  most: number;
  total: number;
}

/** Cells from Tempo's `histogram_over_time`. Rows without a span between others are kept. */
export function heat(answer: TempoMetrics, on: Steps): Heat {
  const counts = new Map<number, number[]>();
  for (const series of answer.series ?? []) {
    const bound = Number(label(series.labels, "__bucket"));
    if (!(bound > 0)) continue;
    const row = counts.get(bound) ?? new Array<number>(on.count).fill(0);
    counts.set(bound, row);
    for (const { timestampMs, value } of series.samples ?? []) {
      const at = Math.round((Number(timestampMs) / 1000 - on.from) / on.step) - 1;
      if (at >= 0 && at < on.count) row[at] = row[at]! + (value ?? 0);
    }
  }
  const given = [...counts.keys()].sort((a, b) => a - b);
  const bounds: number[] = [];
  for (let bound = given[0]; bound !== undefined && bound <= given.at(-1)! * 1.01; bound *= 2) {
    bounds.push(bound);
  }
  const cells = bounds.map((bound) => {
    const found = given.find((one) => Math.abs(one / bound - 1) < 0.01);
    return found === undefined ? new Array<number>(on.count).fill(0) : counts.get(found)!;
  });
  const all = cells.flat();
  return {
    on,
    bounds,
    cells,
    most: all.reduce((most, one) => Math.max(most, one), 0),
    total: all.reduce((sum, one) => sum + one, 0),
  };
}

/** What a box over cells selects; rows and steps include both ends. */
export interface Selected {
  /** Seconds since 1970. */
  from: number;
  to: number;
  /** Nanoseconds. */
  least: number;
  most: number;
  count: number;
}

export function selected(
  { on, bounds, cells }: Heat,
  steps: readonly [number, number],
  rows: readonly [number, number],
): Selected {
  const [left, right] = [Math.min(...steps), Math.max(...steps)];
  const [low, high] = [Math.min(...rows), Math.max(...rows)];
  let count = 0;
  for (let row = low; row <= high; row++) {
    for (let step = left; step <= right; step++) count += cells[row]?.[step] ?? 0;
  }
  return {
    from: on.from + left * on.step,
    to: on.from + (right + 1) * on.step,
    least: (bounds[low]! / 2) * 1e9,
    most: bounds[high]! * 1e9,
    count,
  };
}

/** How dark a cell is, from 0 to 1: few spans among many are still seen. */
export const shade = (count: number, most: number): number =>
  count === 0 ? 0 : 0.15 + 0.85 * (Math.log1p(count) / Math.log1p(Math.max(1, most)));
