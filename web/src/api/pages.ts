import type { Trace } from "./types";

/** The pages of one trace as one, as far as they are here. */
export function joined(pages: readonly Trace[]): Trace | undefined {
  const last = pages.at(-1);
  if (last === undefined || pages.length === 1) return last;
  // A trace may grow between two pages, and a span then come twice.
  const spans = new Map(pages.flatMap((page) => page.spans.map((span) => [span.span_id, span])));
  return {
    ...last,
    roots: [...new Set(pages.flatMap((page) => page.roots))],
    spans: [...spans.values()],
    // That a trace has changed is said of the page before which it did.
    warnings: [...new Set(pages.flatMap((page) => page.warnings))],
  };
}
