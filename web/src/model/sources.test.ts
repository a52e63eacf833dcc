import { expect, test } from "vitest";
import type { Relation } from "../api/types";
import { byDistance, distanceText, shareOf } from "./sources";

const relation = (service: string, distance: number, calls: number): Relation => ({
  service,
  operation: "GET /",
  distance,
  calls,
  calls_per_second: calls / 60,
});

test("relations are in steps, the nearest first, the busiest of each first", () => {
  const steps = byDistance([
    relation("far", 3, 9),
    relation("quiet", 1, 1),
    relation("busy", 1, 5),
  ]);
  expect(steps.map((step) => step.distance)).toEqual([1, 3]);
  expect(steps[0]!.relations.map((one) => one.service)).toEqual(["busy", "quiet"]);
});

test("a share is never more than all, and nothing of nothing", () => {
  expect(shareOf(relation("a", 1, 5), 10)).toBe(0.5);
  expect(shareOf(relation("a", 1, 12), 10)).toBe(1);
  expect(shareOf(relation("a", 1, 5), 0)).toBe(0);
});

test("distances are in words", () => {
  expect([1, 2, 3].map(distanceText)).toEqual(["Directly", "Over 1 other", "Over 2 others"]);
});
