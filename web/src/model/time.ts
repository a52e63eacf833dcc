/** Formats and parses times and ranges of time. */

/** The time zone in which times are shown. */
export type Zone = "local" | "utc";

/** Ranges that have a name, as the API spells them. */
export const RANGES: readonly [start: string, label: string][] = [
  ["-15m", "Last 15 min"],
  ["-1h", "Last hour"],
  ["-6h", "Last 6 hours"],
  ["-24h", "Last 24 hours"],
  ["-7d", "Last 7 days"],
];

export const DEFAULT_START = "-1h";

/** Converts a text of nanoseconds since 1970 to milliseconds. */
export function milliseconds(unixNano: string): number {
  return Number(BigInt(unixNano) / 1000n) / 1000;
}

/** Converts milliseconds since 1970 to a text of nanoseconds. */
export function unixNano(milliseconds: number): string {
  return (BigInt(Math.round(milliseconds * 1000)) * 1000n).toString();
}

/** The age, coarsely: `now`, `12 s`, `4 min`, `3 h`, `2 d`. */
export function formatAge(then: number, now: number): string {
  const seconds = Math.max(0, Math.floor((now - then) / 1000));
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** The zone's offset from UTC at a time, in minutes. */
function ahead(milliseconds: number, zone: Zone): number {
  return zone === "utc" ? 0 : -new Date(milliseconds).getTimezoneOffset();
}

/** `2026-11-27T12:00:00.123`, in the zone's local time. */
function wall(milliseconds: number, zone: Zone): string {
  const date = new Date(milliseconds + ahead(milliseconds, zone) * 60_000);
  return Number.isNaN(date.getTime()) ? "?T?" : date.toISOString().slice(0, -1);
}

/** `2026-11-27`. */
export function formatDate(milliseconds: number, zone: Zone): string {
  return wall(milliseconds, zone).split("T")[0]!;
}

/** The time of day with milliseconds, and the date if it is not today. */
export function formatTime(milliseconds: number, now: number, zone: Zone): string {
  const [date, time] = wall(milliseconds, zone).split("T");
  return date === formatDate(now, zone) ? time! : `${date} ${time}`;
}

/** The time of day in whole seconds, and the date if it is not today. */
export function formatSecond(milliseconds: number, now: number, zone: Zone): string {
  return formatTime(milliseconds, now, zone).replace(/\.\d+$/, "");
}

/** Date, time and zone: unambiguous for readers elsewhere. */
export function formatMoment(milliseconds: number, zone: Zone): string {
  return `${wall(milliseconds, zone).replace("T", " ")} ${zoneName(zone, milliseconds)}`;
}

/** `12:00:00 – 12:15:00`, with the zone, and with dates if they are not today's. */
export function formatRange(from: number, to: number, now: number, zone: Zone): string {
  const [first, last] = [formatSecond(from, now, zone), formatSecond(to, now, zone)];
  // A range within one day has its date once.
  const same = formatDate(from, zone) === formatDate(to, zone);
  return `${first} – ${same ? last.split(" ").at(-1) : last} ${zoneName(zone, to)}`;
}

/** `UTC`, `UTC+01:00`. */
export function zoneName(zone: Zone, at: number): string {
  const minutes = ahead(at, zone);
  if (minutes === 0 || Number.isNaN(minutes)) return "UTC";
  const two = (value: number) => String(value).padStart(2, "0");
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/** A label on a time axis, as precise as the distance between two labels requires. */
export function formatMark(milliseconds: number, step: number, zone: Zone): string {
  const [date, time] = wall(milliseconds, zone).split("T");
  if (step >= 86_400_000) return date!.slice(5);
  return time!.slice(0, step >= 60_000 ? 5 : step >= 1000 ? 8 : 11);
}

/** The value of an `<input type="datetime-local">` with seconds. */
export function toInput(milliseconds: number, zone: Zone): string {
  return wall(milliseconds, zone).slice(0, 19);
}

/** The time of such a value, or null if the value is not a time. */
export function fromInput(value: string, zone: Zone): number | null {
  const time = new Date(zone === "utc" ? `${value}Z` : value).getTime();
  return Number.isFinite(time) ? time : null;
}
