import { expect, test } from "vitest";
import { isWhole, joined, pageAfter, pageBefore } from "./pages";
import type { Span, TracePage } from "./types";

const page = (
  ids: string[],
  roots: string[],
  next_after: number | null,
  warnings: string[] = [],
  first = 0,
): TracePage => ({
  trace_id: "t",
  start_unix_nano: "0",
  duration_nano: "1",
  roots,
  spans: ids.map((span_id) => ({ span_id }) as Span),
  warnings,
  clocks: [],
  services: [],
  span_count: 4,
  error_count: 0,
  depth: 1,
  complete: true,
  first,
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

test("a page in the middle has neighbours on both sides, and none twice", () => {
  const middle = page(["c"], [], 25_000, [], 15_000);
  expect(pageAfter(middle)).toEqual({ after: 25_000, snapshot: "s" });
  expect(pageBefore(middle)).toEqual({ after: 5_000, snapshot: "s", limit: 10_000 });
  expect(pageBefore({ ...middle, first: 400 })).toEqual({ after: 0, snapshot: "s", limit: 400 });
  expect(pageBefore(page(["a"], ["a"], null))).toBeNull();
  expect(pageAfter(page(["a"], ["a"], null))).toBeNull();
});

test("what is joined begins where its first page does", () => {
  const both = joined([page(["b"], [], 2, [], 1), page(["c"], [], null, [], 2)])!;
  expect(both.first).toBe(1);
  expect(isWhole(both)).toBe(false);
  expect(isWhole(page(["a"], ["a"], null))).toBe(true);
});
