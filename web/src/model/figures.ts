/** Turns numbers that the server reports, whatever their names, into rows with units. */
import { formatDuration } from "./duration";
import { formatBytes, formatCount, plainName } from "./number";
import { formatMoment } from "./time";
import type { Zone } from "./time";

export interface Figure {
  key: string;
  name: string;
  text: string;
}

function text(key: string, value: unknown, zone: Zone): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  const number =
    typeof value === "number" ? value : /^-?\d+$/.test(String(value)) ? Number(value) : null;
  if (number !== null) {
    if (key.endsWith("_unix_nano")) return number === 0 ? "–" : formatMoment(number / 1e6, zone);
    if (key.endsWith("_nano")) return formatDuration(number);
    if (key.endsWith("_seconds")) return formatDuration(number * 1e9);
    if (key.endsWith("bytes")) return formatBytes(number);
    return Number.isInteger(number) ? formatCount(number) : String(number);
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Rows for a JSON object or a list of pairs. Nested objects are flattened. */
export function figures(source: unknown, zone: Zone = "local", prefix = ""): Figure[] {
  const entries: [string, unknown][] = Array.isArray(source)
    ? source.filter((one): one is [string, unknown] => Array.isArray(one) && one.length === 2)
    : typeof source === "object" && source !== null
      ? Object.entries(source)
      : [];
  return entries.flatMap(([key, value]) => {
    const path = prefix === "" ? key : `${prefix}_${key}`;
    const nested = typeof value === "object" && value !== null;
    if (nested && (!Array.isArray(value) || value.every((one) => Array.isArray(one)))) {
      return figures(value, zone, path);
    }
    return [{ key: path, name: plainName(path), text: text(path, value, zone) }];
  });
}
