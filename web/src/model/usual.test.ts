import { expect, test } from "vitest";
import type { TraceSummary } from "../api/types";
import { usual } from "./usual";

const trace = (id: string, nanos: number, errors = 0, operation = "POST /pay") =>
  ({
    trace_id: id,
    duration_nano: String(nanos),
    errors,
    root: { service: "shop", operation, kind: "server", capture: "app" },
  }) as unknown as TraceSummary;
const self = { trace: "self", service: "shop", operation: "POST /pay" };

test("the usual trace has the median duration", () => {
  const traces = [trace("slow", 900), trace("quick", 5), trace("middle", 30), trace("self", 20)];
  expect(usual(traces, self)).toEqual({ id: "middle", of: 3 });
});

test("durations are compared as numbers", () => {
  expect(usual([trace("a", 9), trace("b", 10), trace("c", 100)], self)?.id).toBe("b");
});

test("failed traces and other requests are not usual", () => {
  const traces = [trace("failed", 10, 1), trace("other", 10, 0, "GET /"), trace("sound", 50)];
  expect(usual(traces, self)).toEqual({ id: "sound", of: 1 });
});

test("where each failed, a failed one is usual", () => {
  expect(usual([trace("failed", 10, 1)], self)).toEqual({ id: "failed", of: 1 });
});

test("no trace is its own usual one", () => {
  expect(usual([trace("self", 10)], self)).toBeNull();
});
