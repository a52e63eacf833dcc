import { useSyncExternalStore } from "react";
import type { Theme } from "../model/colour";
import { remembered } from "./store";

/** `public/theme.js` reads it before the first paint. */
const KEY = "spanwise.theme";
const CHANGED = "spanwise:theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function current(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "light" || chosen === "dark") return chosen;
  return dark.matches ? "dark" : "light";
}

function subscribe(listener: () => void): () => void {
  window.addEventListener(CHANGED, listener);
  dark.addEventListener("change", listener);
  return () => {
    window.removeEventListener(CHANGED, listener);
    dark.removeEventListener("change", listener);
  };
}

/** The current theme: chosen in the UI, or the system's. */
export const useTheme = (): Theme => useSyncExternalStore(subscribe, current);

export function toggleTheme(): void {
  const next: Theme = current() === "dark" ? "light" : "dark";
  const system: Theme = dark.matches ? "dark" : "light";
  // A choice that equals the system's theme is not saved: the system may change it later, for
  // example at dusk.
  if (next === system) delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = next;
  remembered(KEY, next === system ? null : next);
  window.dispatchEvent(new Event(CHANGED));
}

/** The value of a CSS custom property, for canvases. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
