/**
 * State of a page that Back restores: scroll positions and the selection. The state belongs to an
 * entry of the browser's history, and ends with the tab.
 */
import { useLayoutEffect } from "react";
import type { RefObject } from "react";

const KEY = "spanwise.visits";
/** Visits that are kept. */
const MOST_VISITS = 60;

type Left = Record<string, string | number>;

let visits = new Map<string, Left>();
let count = 0;

function load(): Map<string, Left> {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return new Map(Array.isArray(stored) ? (stored as [string, Left][]) : []);
  } catch {
    return new Map();
  }
}

/** Loads the state that earlier pages of this tab saved, and saves it when this page is left. */
export function keepVisits(): void {
  visits = load();
  window.addEventListener("pagehide", () => {
    try {
      sessionStorage.setItem(KEY, JSON.stringify([...visits].slice(-MOST_VISITS)));
    } catch {
      // Without storage, a reload begins at the top.
    }
  });
}

/** The state of a new entry in the history. */
export const newEntry = (): { visit: string } => ({ visit: `${Date.now()}.${count++}` });

/** The id of the current entry in the history. */
export function entry(): string {
  const state = window.history.state as { visit?: unknown } | null;
  if (typeof state?.visit === "string") return state.visit;
  const made = newEntry();
  window.history.replaceState(made, "");
  return made.visit;
}

export function leave(visit: string, name: string, value: string | number): void {
  const left = visits.get(visit) ?? {};
  // Moves this visit to the end: the oldest visits are dropped.
  visits.delete(visit);
  visits.set(visit, { ...left, [name]: value });
  if (visits.size > 2 * MOST_VISITS) visits = new Map([...visits].slice(-MOST_VISITS));
}

export const found = (visit: string, name: string): string | number | undefined =>
  visits.get(visit)?.[name];

/** Scrolls an element to the position of this visit once its content is there. */
export function useScroll(
  box: RefObject<HTMLElement | null>,
  visit: string,
  name: string,
  ready: boolean,
): void {
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !ready) return;
    const top = Number(found(visit, name) ?? 0);
    if (Math.abs(element.scrollTop - top) > 1) element.scrollTop = top;
    const note = () => leave(visit, name, element.scrollTop);
    element.addEventListener("scroll", note, { passive: true });
    return () => element.removeEventListener("scroll", note);
  }, [visit, name, ready, box]);
}
