import type { TracePage } from "./types";

/** Joins consecutive pages of one trace, as far as they are loaded. */
export function joined(pages: readonly TracePage[]): TracePage | undefined {
  const [first, last] = [pages[0], pages.at(-1)];
  if (first === undefined || last === undefined || pages.length === 1) return first;
  // A trace may grow between two pages. A span can then be on both.
  const spans = new Map(pages.flatMap((page) => page.spans.map((span) => [span.span_id, span])));
  return {
    ...last,
    first: first.first,
    roots: [...new Set(pages.flatMap((page) => page.roots))],
    spans: [...spans.values()],
    // The warning that a trace has changed is on the page before which it changed.
    warnings: [...new Set(pages.flatMap((page) => page.warnings))],
  };
}

/** Whether all spans of the trace are loaded. */
export const isWhole = (trace: TracePage): boolean =>
  trace.first === 0 && trace.next_after === null;

/** Spans of one page. */
export const PAGE = 10_000;

/** Which page to load: the page at a position in the order, or the page around a span. */
export type PageAsked =
  { around: string | null } | { after: number; snapshot: string; limit?: number };

export function pageAfter({ next_after, snapshot }: TracePage): PageAsked | null {
  return next_after === null ? null : { after: next_after, snapshot };
}

export function pageBefore({ first, snapshot }: TracePage): PageAsked | null {
  if (first <= 0) return null;
  const after = Math.max(0, first - PAGE);
  return { after, snapshot, limit: first - after };
}
