/** Figures over time: the steps of a range, and answers of Tempo's API on these steps. */
import { label } from "../api/tempo";
import type { TempoMetrics } from "../api/tempo";

/** A range of time in whole steps, in seconds since 1970. */
export interface Steps {
  from: number;
  to: number;
  step: number;
  count: number;
  /** Whether the last step is not over yet. */
  running: boolean;
}

const SIZES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];

/** The range in about `most` steps of a round size, which begin at multiples of that size. */
export function steps(fromSeconds: number, toSeconds: number, most = 60): Steps {
  const wide = Math.max(1, toSeconds - fromSeconds);
  const step = SIZES.find((size) => wide / size <= most) ?? Math.ceil(wide / most / 86400) * 86400;
  const from = Math.floor(fromSeconds / step) * step;
  const to = Math.max(from + step, Math.ceil(toSeconds / step) * step);
  return { from, to, step, count: Math.round((to - from) / step), running: to > toSeconds };
}

/** A trace that is an example of a figure. */
export interface Exemplar {
  traceId: string;
  spanId: string;
  /** Seconds since 1970. */
  at: number;
  value: number;
}

export interface Line {
  /** A value for each step; null where nothing was measured. */
  values: (number | null)[];
  exemplars: Exemplar[];
}

/**
 * Each series by the values of its labels, joined by a space. Tempo names a step by its end: the
 * sample at `from + step` is of the first step.
 */
export function lines(answer: TempoMetrics, on: Steps, by: readonly string[]): Map<string, Line> {
  const result = new Map<string, Line>();
  for (const series of answer.series ?? []) {
    const values = new Array<number | null>(on.count).fill(null);
    for (const { timestampMs, value } of series.samples ?? []) {
      const at = Math.round((Number(timestampMs) / 1000 - on.from) / on.step) - 1;
      if (at >= 0 && at < on.count && Number.isFinite(value ?? 0)) values[at] = value ?? 0;
    }
    const exemplars = (series.exemplars ?? []).flatMap((one): Exemplar[] => {
      const traceId = label(one.labels, "trace:id");
      if (traceId === "" || one.value === undefined) return [];
      const at = Number(one.timestampMs) / 1000;
      return [{ traceId, spanId: label(one.labels, "span:id"), at, value: one.value }];
    });
    result.set(by.map((key) => label(series.labels, key)).join(" "), { values, exemplars });
  }
  return result;
}

/** Rate, errors and latency of one service or operation. */
export interface Red {
  name: string;
  /** Requests in all steps, those of a step that is not over too. */
  requests: number;
  /** Requests per second. */
  rate: Line;
  /** The share of requests that failed, from 0 to 1; null where there was none. */
  errors: Line;
  /** The 95th percentile of durations, in seconds. */
  latency: Line;
}

const NONE: Line = { values: [], exemplars: [] };

export function red(
  rate: ReadonlyMap<string, Line>,
  failed: ReadonlyMap<string, Line>,
  latency: ReadonlyMap<string, Line>,
  on: Steps,
): Red[] {
  return [...rate].map(([name, counted]) => {
    const line = on.running ? { ...counted, values: settled(counted.values) } : counted;
    const bad = failed.get(name) ?? NONE;
    const values = line.values.map((value, at) =>
      value === null || value === 0 ? null : Math.min(1, (bad.values[at] ?? 0) / value),
    );
    return {
      name,
      requests: on.step * counted.values.reduce<number>((sum, value) => sum + (value ?? 0), 0),
      rate: line,
      errors: { values, exemplars: bad.exemplars },
      latency: measured(latency.get(name) ?? NONE, line),
    };
  });
}

/** A rate in a step that is not over is too small. It is shown only where there is no other yet. */
function settled(values: (number | null)[]): (number | null)[] {
  const over = values.slice(0, -1);
  return over.some((value) => value) ? over : values;
}

/** Without requests there is no latency: Tempo answers 0 then. */
function measured(latency: Line, rate: Line): Line {
  const values = rate.values.map((value, at) => (value ? (latency.values[at] ?? null) : null));
  return { ...latency, values };
}

/** Seconds from the first step in which any of these has a request until the end, in seconds since
 * 1970. A rate is over the time of the requests, not over the empty time before them. */
export function coveredSeconds(all: readonly Red[], on: Steps, end: number): number {
  const first = all.map(({ rate }) => rate.values.findIndex((value) => value));
  const least = Math.min(...first.filter((step) => step >= 0), on.count - 1);
  return Math.max(1, Math.min(on.to, end) - on.from - least * on.step);
}

/** The share of all requests that failed. */
export function failedShare({ rate, errors }: Red): number {
  let all = 0;
  let bad = 0;
  rate.values.forEach((value, at) => {
    all += value ?? 0;
    bad += (value ?? 0) * (errors.values[at] ?? 0);
  });
  return all === 0 ? 0 : bad / all;
}

/** The middle of the values that there are. */
export function middle(values: readonly (number | null)[]): number | null {
  const given = values.filter((one) => one !== null).sort((a, b) => a - b);
  return given[Math.floor(given.length / 2)] ?? null;
}

/** Largest value, at least `least`. */
export const peak = (values: readonly (number | null)[], least = 0): number =>
  values.reduce<number>((most, one) => Math.max(most, one ?? 0), least);

/** SVG paths for a line; it is interrupted where there is no value. */
export function linePath(
  values: readonly (number | null)[],
  width: number,
  height: number,
  top: number,
): string {
  const step = width / Math.max(1, values.length - 1);
  let path = "";
  let drawing = false;
  values.forEach((value, at) => {
    if (value === null) {
      drawing = false;
      return;
    }
    const y = height - (Math.min(value, top) / (top || 1)) * height;
    const next = values[at + 1];
    path += `${drawing ? "L" : "M"}${(at * step).toFixed(1)} ${y.toFixed(1)}`;
    // A single value is drawn as a short dash.
    if (!drawing && (next === null || next === undefined))
      path += `h${Math.min(step, 3).toFixed(1)}`;
    drawing = true;
  });
  return path;
}
