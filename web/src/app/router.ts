/** The state of the UI is the address: a path and parameters. */
import { createElement, useMemo, useSyncExternalStore } from "react";
import type { AnchorHTMLAttributes, MouseEvent } from "react";
import { entry, keepVisits, newEntry } from "./visit";

const CHANGED = "spanwise:navigate";

let back = false;

/** Called once, before anything is rendered. */
export function startRouter(): void {
  window.addEventListener("popstate", () => (back = true));
  keepVisits();
}

/** Whether the user came to this place by Back or Forward. It is then shown as it was left. */
export const cameBack = (): boolean => back;

function subscribe(listener: () => void): () => void {
  window.addEventListener("popstate", listener);
  window.addEventListener(CHANGED, listener);
  return () => {
    window.removeEventListener("popstate", listener);
    window.removeEventListener(CHANGED, listener);
  };
}

const address = () => window.location.pathname + window.location.search;
const snapshot = () => `${entry()} ${address()}`;

export interface Place {
  path: string;
  params: URLSearchParams;
  /** Identifies the visit: two visits of the same address differ. */
  entry: string;
}

export function usePlace(): Place {
  const now = useSyncExternalStore(subscribe, snapshot);
  return useMemo(() => {
    const [visit, here] = now.split(" ", 2) as [string, string];
    const url = new URL(here, window.location.origin);
    return { path: url.pathname, params: url.searchParams, entry: visit };
  }, [now]);
}

export function navigate(to: string, how: "push" | "replace" = "push"): void {
  if (to === address()) return;
  back = false;
  if (how === "push") window.history.pushState(newEntry(), "", to);
  else window.history.replaceState(window.history.state, "", to);
  window.dispatchEvent(new Event(CHANGED));
}

/** Sets parameters of this page. Null, empty text and empty lists remove a parameter. */
export function setParams(
  patch: Record<string, string | null | readonly string[]>,
  how: "push" | "replace" = "replace",
): void {
  const params = new URLSearchParams(window.location.search);
  for (const [key, value] of Object.entries(patch)) {
    params.delete(key);
    if (value === null || value === "") continue;
    for (const one of typeof value === "string" ? [value] : value) params.append(key, one);
  }
  const query = params.toString();
  navigate(window.location.pathname + (query === "" ? "" : `?${query}`), how);
}

/** A link that changes the page without reloading. */
export function Link({
  to,
  onClick,
  ...rest
}: { to: string } & AnchorHTMLAttributes<HTMLAnchorElement>) {
  return createElement("a", {
    ...rest,
    href: to,
    onClick: (event: MouseEvent<HTMLAnchorElement>) => {
      onClick?.(event);
      if (event.defaultPrevented || event.button !== 0) return;
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      navigate(to);
    },
  });
}
