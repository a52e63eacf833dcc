/** Formats durations with three digits, and parses durations that users type. */

const UNITS: readonly [name: string, nano: number][] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

/** Parses nanoseconds; exact below 2^53 (104 days). */
export function nano(text: string | number | undefined | null): number {
  return text === undefined || text === null ? 0 : Number(text);
}

/** Nanoseconds between two times since 1970, exact if the difference is below 2^53. */
export function nanoBetween(from: string, to: string): number {
  return Number(BigInt(to) - BigInt(from));
}

/** For example `842 µs`, `12.4 ms`, `1.28 s`, `2 m 05 s`. */
export function formatDuration(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value < 0) return `−${formatDuration(-value)}`;
  if (value === 0) return "0";
  const seconds = Math.round(value / 1e9);
  if (seconds >= 60) {
    if (seconds >= 3600) {
      return `${Math.floor(seconds / 3600)} h ${pad(Math.floor((seconds % 3600) / 60))} m`;
    }
    return `${Math.floor(seconds / 60)} m ${pad(seconds % 60)} s`;
  }
  for (const [index, [name, size]] of UNITS.entries()) {
    // 999.7 µs would round to `1000 µs`; it is written as 1.00 ms.
    if (value >= size * 0.9995 || index === UNITS.length - 1) {
      return `${threeDigits(value / size)} ${name}`;
    }
  }
  return "–";
}

/** An offset after (`+`) or before (`−`) a point in time. */
export function formatOffset(value: number): string {
  return value < 0 ? formatDuration(value) : `+${formatDuration(value)}`;
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

function threeDigits(value: number): string {
  if (value >= 99.95) return value.toFixed(0);
  if (value >= 9.995) return value.toFixed(1).replace(/\.0$/, "");
  return value.toFixed(2).replace(/\.?0+$/, "");
}

/**
 * Parses `10ms`, `1.5 s`, `200us`, `2m`. A number without a unit is milliseconds. Returns the API's
 * spelling, or null if the text is not a duration.
 */
export function canonicalDuration(text: string): string | null {
  const match = /^\s*(\d+(?:\.\d+)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h)?\s*$/i.exec(text);
  if (!match) return null;
  const unit = (match[2] ?? "ms").toLowerCase().replace(/[µμ]s/, "us");
  return `${Number(match[1])}${unit}`;
}

/** Nanoseconds in the API's spelling: whole microseconds, rounded in the given direction. */
export function apiDuration(value: number, round: "down" | "up"): string {
  const micros = value / 1e3;
  return `${Math.max(0, round === "down" ? Math.floor(micros) : Math.ceil(micros))}us`;
}

/** Round values between two values, at most `count`. */
export function ticks(from: number, to: number, count: number): number[] {
  const span = to - from;
  if (!(span > 0) || count < 1) return [];
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.9999)!;
  const marks: number[] = [];
  for (let index = Math.ceil(from / step - 1e-9); index * step <= to + step * 1e-9; index++) {
    marks.push(index * step + 0); // "+ 0": no -0
  }
  return marks;
}
