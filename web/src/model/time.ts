/** Points in time and ranges of time for people. */

/** Ranges that can be chosen by name, as the API spells them. */
export const RANGES: readonly [start: string, label: string][] = [
  ["-15m", "Last 15 min"],
  ["-1h", "Last hour"],
  ["-6h", "Last 6 hours"],
  ["-24h", "Last 24 hours"],
];

export const DEFAULT_START = "-1h";

/** Milliseconds since 1970 of a nanosecond text. */
export function milliseconds(unixNano: string): number {
  return Number(BigInt(unixNano) / 1000n) / 1000;
}

/** A nanosecond text of milliseconds since 1970. */
export function unixNano(milliseconds: number): string {
  return (BigInt(Math.round(milliseconds * 1000)) * 1000n).toString();
}

/** How long ago, coarsely: `now`, `12 s`, `4 min`, `3 h`, `2 d`. */
export function formatAge(then: number, now: number): string {
  const seconds = Math.max(0, Math.floor((now - then) / 1000));
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** Local time of day with milliseconds; with the date where it is not today. */
export function formatTime(milliseconds: number, now: number): string {
  const date = new Date(milliseconds);
  const two = (value: number) => String(value).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(
    date.getMilliseconds(),
  ).padStart(3, "0")}`;
  if (date.toDateString() === new Date(now).toDateString()) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

/** Value of an `<input type="datetime-local">` with seconds, in local time. */
export function toInput(milliseconds: number): string {
  const date = new Date(milliseconds - new Date(milliseconds).getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 19);
}
