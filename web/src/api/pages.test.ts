import { expect, test } from "vitest";
import { joined } from "./pages";
import type { Span, Trace } from "./types";

const page = (
  ids: string[],
  roots: string[],
  next_after: number | null,
  warnings: string[] = [],
): Trace => ({
  trace_id: "t",
  start_unix_nano: "0",
  duration_nano: "1",
  roots,
  spans: ids.map((span_id) => ({ span_id }) as Span),
  warnings,
  clocks: [],
  services: [],
  span_count: 4,
  next_after,
  snapshot: "s",
});

test("pages become one trace, in order, each span once", () => {
  const trace = joined([
    page(["a", "b"], ["a"], 2),
    page(["b", "c"], [], 4, ["changed"]),
    page(["d"], ["d"], null),
  ]);
  expect(trace?.spans.map((span) => span.span_id)).toEqual(["a", "b", "c", "d"]);
  expect(trace?.roots).toEqual(["a", "d"]);
  expect(trace?.next_after).toBeNull();
  expect(trace?.warnings).toEqual(["changed"]);
});

test("one page is the trace, none is none", () => {
  const only = page(["a"], ["a"], null);
  expect(joined([only])).toBe(only);
  expect(joined([])).toBeUndefined();
});
