import { expect, test } from "vitest";
import { EMPTY_TAIL, extended, MOST_KNOWN, MOST_SPANS, toldBy } from "./live";
import type { LiveSpan } from "./live";

const span = (number: number, start = number): LiveSpan => ({
  traceId: "t",
  spanId: String(number).padStart(16, "0"),
  service: "s",
  operation: "o",
  kind: "server",
  failed: false,
  startUnixNano: String(start),
  durationNano: 1,
});

test("answers that overlap add each span once, the newest first", () => {
  const one = extended(EMPTY_TAIL, [span(1), span(2)]);
  const two = extended(one, [span(3), span(2), span(1)]);
  expect(two.spans.map((each) => each.startUnixNano)).toEqual(["3", "2", "1"]);
  expect(two.arrived).toBe(3);
  expect(extended(two, [span(2)])).toBe(two);
});

test("a span that comes late is where its start is", () => {
  const tail = extended(extended(EMPTY_TAIL, [span(9, 90)]), [span(5, 50)]);
  expect(tail.spans.map((each) => each.startUnixNano)).toEqual(["90", "50"]);
});

test("starts are compared exactly, beyond 2^53", () => {
  const tail = extended(EMPTY_TAIL, [
    { ...span(1), startUnixNano: "1790000000000000001" },
    { ...span(2), startUnixNano: "1790000000000000002" },
  ]);
  expect(tail.spans[0]!.spanId.endsWith("2")).toBe(true);
});

test("what is no longer listed is counted, and does not come back", () => {
  const many = Array.from({ length: MOST_SPANS + 20 }, (_, at) => span(at));
  const tail = extended(EMPTY_TAIL, many);
  expect(tail.spans).toHaveLength(MOST_SPANS);
  expect([tail.arrived, tail.dropped]).toEqual([MOST_SPANS + 20, 20]);
  expect(extended(tail, many)).toBe(tail);
});

test("what is remembered has a bound", () => {
  const many = Array.from({ length: MOST_KNOWN + 1 }, (_, at) => span(at));
  expect(extended(EMPTY_TAIL, many).known.size).toBe(MOST_KNOWN / 2);
});

test("a query tells service, status and kind", () => {
  expect(toldBy(" ")).toBe("{ } | select(resource.service.name, status, kind)");
  expect(toldBy("{ status = error }")).toContain("{ status = error } | select(");
});
