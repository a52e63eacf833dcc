/** Which service has which colour, in this browser. */
import { assign, cssColour, hash, hexColour, SLOTS } from "../model/colour";
import type { Theme } from "../model/colour";

const KEY = "spanwise.colours";
/** Bounds what is remembered of services that come and go. */
const REMEMBERED = 200;

let slots = load();

function load(): Map<string, number> {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    if (!Array.isArray(stored)) return new Map();
    return new Map(
      stored.filter(
        (entry): entry is [string, number] =>
          Array.isArray(entry) &&
          typeof entry[0] === "string" &&
          Number.isInteger(entry[1]) &&
          entry[1] >= 0 &&
          entry[1] < SLOTS,
      ),
    );
  } catch {
    return new Map();
  }
}

/** Makes sure that these services have colours of their own. */
export function introduce(names: readonly string[]): void {
  if (names.every((name) => slots.has(name))) return;
  if (slots.size > REMEMBERED) slots = new Map();
  slots = assign(slots, names);
  try {
    localStorage.setItem(KEY, JSON.stringify([...slots]));
  } catch {
    // Private mode: the colours hold for this page.
  }
}

const slot = (service: string): number => slots.get(service) ?? hash(service) % SLOTS;

export const serviceColour = (service: string): string => cssColour(slot(service));
export const serviceHex = (service: string, theme: Theme): string =>
  hexColour(slot(service), theme);

/** Whether this browser knows any service. */
export const introduced = (): boolean => slots.size > 0;
