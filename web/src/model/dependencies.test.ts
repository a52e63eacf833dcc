import { expect, test } from "vitest";
import type { Dependency, DependencyEdge } from "../api/types";
import { byService, ofVerdict, verdictCounts, verdictOf, verdictReason } from "./dependencies";

const edge = (verdict: Dependency, failures = 20): DependencyEdge => ({
  caller: { service: "a", operation: "GET /" },
  called: { service: verdict, operation: "GET /" },
  calls: 100,
  errors: failures,
  dependency: {
    verdict,
    failures,
    stopped_share: 0.95,
    confidence: verdict === "unknown" ? 0 : 0.8,
  },
});

const all = [edge("strong"), edge("weak"), edge("strong"), edge("unknown", 0)];

test("edges are counted and chosen by verdict", () => {
  expect(verdictCounts(all)).toEqual({ strong: 2, weak: 1, unknown: 1 });
  expect(ofVerdict(all, "strong")).toHaveLength(2);
  expect(ofVerdict(all, null)).toBe(all);
});

test("an address names a verdict, or none", () => {
  expect(verdictOf("weak")).toBe("weak");
  expect(verdictOf("feeble")).toBeNull();
  expect(verdictOf(null)).toBeNull();
});

test("a verdict says what it was concluded from, and unknown claims no confidence", () => {
  expect(verdictReason(all[0]!.dependency)).toBe(
    "after 95% of 20 failures nothing followed; 80% sure",
  );
  expect(verdictReason(all[3]!.dependency)).toBe("no failure was seen");
  expect(verdictReason(edge("unknown", 1).dependency)).toBe(
    "after 95% of 1 failure nothing followed",
  );
});

test("a service has what it needs and who needs it, the strong ones first", () => {
  const { needs, neededBy } = byService([edge("unknown"), edge("weak"), edge("strong")], "a");
  expect(needs.map((one) => one.called.service)).toEqual(["strong", "weak", "unknown"]);
  expect(neededBy).toEqual([]);
  expect(byService(all, "weak").neededBy).toHaveLength(1);
});
