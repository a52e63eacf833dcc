import { expect, test } from "vitest";
import { spansOf } from "./live";

const span = { spanID: "ab", name: "GET /", startTimeUnixNano: "5", durationNanos: "7" };
const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });

test("ids have all their digits, and a span says whether it failed", () => {
  const attributes = [
    text("service.name", "cart"),
    text("status", "error"),
    text("kind", "server"),
  ];
  const { spans, overflowed } = spansOf({
    traces: [{ traceID: "1f", spanSets: [{ spans: [{ ...span, attributes }], matched: 1 }] }],
  });
  expect(spans[0]).toEqual({
    traceId: "1f".padStart(32, "0"),
    spanId: "ab".padStart(16, "0"),
    service: "cart",
    operation: "GET /",
    kind: "server",
    failed: true,
    startUnixNano: "5",
    durationNano: 7,
  });
  expect(overflowed).toBe(false);
});

test("an answer that holds less than fitted says so", () => {
  expect(
    spansOf({ traces: [{ traceID: "1", spanSets: [{ spans: [span], matched: 9 }] }] }),
  ).toMatchObject({ overflowed: true });
  expect(spansOf({})).toEqual({ spans: [], overflowed: false });
});
