/** The view of a trace, as the page's address describes it. */
import { setParams } from "../../app/router";

/** More collapsed spans than this are not kept in the address. */
const MOST_CLOSED = 60;

export interface Shown {
  selected: string | null;
  filter: string;
  merge: boolean;
  /** Whether times are corrected, as if the clocks of all hosts agreed. */
  aligned: boolean;
  closed: ReadonlySet<string>;
  /** The visible part of the trace's time, as fractions of its duration. */
  zoom: readonly [from: number, to: number];
  view: View;
  /** Whether siblings of the same name share a line. */
  fold: boolean;
  /** Whether the critical path is drawn on the waterfall. */
  path: boolean;
  /** The trace to compare with. */
  other: string | null;
}

/** The views of one trace, in the order of their buttons. */
export const VIEWS = [
  "waterfall",
  "flame",
  "operations",
  "map",
  "path",
  "hops",
  "compare",
] as const;
export type View = (typeof VIEWS)[number];

export const WHOLE: Shown["zoom"] = [0, 1];

export function readShown(params: URLSearchParams): Shown {
  const zoom = /^([01]?\.?\d*)-([01]?\.?\d*)$/.exec(params.get("zoom") ?? "");
  const from = Number(zoom?.[1] ?? 0);
  const to = Number(zoom?.[2] ?? 1);
  return {
    selected: params.get("span"),
    filter: params.get("q") ?? "",
    merge: params.get("merge") === "1",
    aligned: params.get("clocks") === "aligned",
    closed: new Set((params.get("closed") ?? "").split(",").filter(Boolean)),
    view: VIEWS.find((view) => view === params.get("view")) ?? "waterfall",
    fold: params.get("fold") === "1",
    path: params.get("path") === "1",
    other: params.get("with"),
    zoom: from >= 0 && to <= 1 && to - from > 1e-7 && to - from < 1 ? [from, to] : WHOLE,
  };
}

export const select = (id: string | null) => setParams({ span: id });
export const setFilter = (filter: string) => setParams({ q: filter });
export const setView = (view: View) =>
  setParams({ view: view === "waterfall" ? null : view }, "push");
export const setFold = (fold: boolean) => setParams({ fold: fold ? "1" : null });
export const setPath = (path: boolean) => setParams({ path: path ? "1" : null });
export const setMerge = (merge: boolean) => setParams({ merge: merge ? "1" : null });
export const setAligned = (aligned: boolean) => setParams({ clocks: aligned ? "aligned" : null });

export function setZoom([from, to]: Shown["zoom"]): void {
  const whole = from <= 0 && to >= 1;
  const text = (share: number) => String(Number(share.toFixed(7)));
  setParams({ zoom: whole ? null : `${text(from)}-${text(to)}` });
}

/** The collapsed spans as text for the address, or null if there are too many. */
export function closedText(closed: ReadonlySet<string>): string | null {
  return closed.size > MOST_CLOSED ? null : [...closed].join(",");
}
