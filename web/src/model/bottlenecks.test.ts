import { expect, test } from "vitest";
import type { Bottlenecks, OperationName, TimeShare } from "../api/types";
import { below, entrancesOf, leftOut } from "./bottlenecks";

const home: OperationName = { service: "front", operation: "GET /" };
const cart: OperationName = { service: "front", operation: "GET /cart" };
const share = (
  entrance: OperationName,
  caller: OperationName | null,
  calls: number,
  critical_share: number,
): TimeShare => ({
  entrance,
  caller,
  called: { service: "x", operation: "y" },
  calls,
  critical_share,
  mean_self_nano: "1",
});
const found = {
  shares: [share(cart, cart, 900, 0.6), share(home, null, 50, 0.5), share(cart, null, 10, 0.3)],
  repeated: [],
  retried: [],
  fan_outs: [{ entrance: home, caller: home, callers: 1, most: 12, example_trace: "t" }],
  sequential: [],
  warnings: [],
} as unknown as Bottlenecks;

test("entrances are listed once, by their runs, not by the calls below them", () => {
  expect(entrancesOf(found)).toEqual([home, cart]);
});

test("one entrance has only what was found below it, in every list", () => {
  const only = below(found, cart);
  expect(only.shares).toHaveLength(2);
  expect(only.fan_outs).toHaveLength(0);
  expect(below(found, home).fan_outs).toHaveLength(1);
  expect(below(found, null)).toBe(found);
});

test("what the list leaves out is never negative", () => {
  expect(leftOut(below(found, cart).shares)).toBeCloseTo(0.1);
  expect(leftOut([{ critical_share: 0.7 }, { critical_share: 0.4 }])).toBe(0);
});
