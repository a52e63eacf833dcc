/** Careful reading of JSON that somebody dropped into the page. */

export type Json = Record<string, unknown>;

export const object = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};

export const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

export const text = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

/** An integer of a number or of decimal digits; 0 if it is neither. */
export function integer(value: unknown): bigint {
  if (typeof value === "number" && Number.isFinite(value)) return BigInt(Math.round(value));
  return typeof value === "string" && /^\d{1,20}$/.test(value) ? BigInt(value) : 0n;
}
