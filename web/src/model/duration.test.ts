import { describe, expect, it } from "vitest";
import { apiDuration, canonicalDuration, formatDuration, nanoBetween, ticks } from "./duration";

describe("formatDuration", () => {
  it.each([
    [0, "0"],
    [7, "7 ns"],
    [842_000, "842 µs"],
    [999_700, "1 ms"],
    [1_280_000, "1.28 ms"],
    [12_440_000, "12.4 ms"],
    [99_960_000, "100 ms"],
    [1_500_000_000, "1.5 s"],
    [59_600_000_000, "1 m 00 s"],
    [125_000_000_000, "2 m 05 s"],
    [7_500_000_000_000, "2 h 05 m"],
    [-1_500, "−1.5 µs"],
    [Number.NaN, "–"],
  ])("%d ns is %s", (value, text) => {
    expect(formatDuration(value)).toBe(text);
  });
});

describe("canonicalDuration", () => {
  it.each([
    ["10ms", "10ms"],
    [" 1.5 S ", "1.5s"],
    ["200µs", "200us"],
    ["250", "250ms"],
    ["fast", null],
    ["10 parsecs", null],
    ["-5ms", null],
    ["", null],
  ])("%j is %j", (typed, api) => {
    expect(canonicalDuration(typed)).toBe(api);
  });
});

it("rounds outwards, so that a drawn range keeps the points on its edge", () => {
  expect(apiDuration(1_500_400, "down")).toBe("1500us");
  expect(apiDuration(1_500_400, "up")).toBe("1501us");
});

it("subtracts times that a double cannot hold", () => {
  expect(nanoBetween("1763706600000000001", "1763706600000000004")).toBe(3);
});

describe("ticks", () => {
  it("are round and inside", () => {
    expect(ticks(0, 100, 5)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(ticks(13, 29, 4)).toEqual([15, 20, 25]);
  });
  it("of nothing are none", () => {
    expect(ticks(5, 5, 4)).toEqual([]);
  });
});
