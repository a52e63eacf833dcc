import { expect, test } from "vitest";
import {
  canonical,
  FACTORS,
  factorText,
  peakText,
  roomOf,
  scalesOf,
  scaleTexts,
  stepOf,
  UNCHANGED,
  withScale,
} from "./capacity";

test("an address holds scales, one by one or in one text", () => {
  const { by, wrong } = scalesOf(["front GET /a,b=3x, front=200/s", "*=2x", "nonsense"]);
  expect([...by]).toEqual([
    ["front GET /a,b", "3x"],
    ["front", "200/s"],
    ["*", "2x"],
  ]);
  expect(wrong).toEqual(["nonsense"]);
});

test("an operation may have an equals sign", () => {
  expect([...scalesOf(["db SELECT a=?=1.5x"]).by]).toEqual([["db SELECT a=?", "1.5x"]]);
});

test("all others come first, because the last one that fits counts", () => {
  expect(
    scaleTexts(
      new Map([
        ["a GET /", "3x"],
        ["*", "2x"],
      ]),
    ),
  ).toEqual(["*=2x", "a GET /=3x"]);
});

test("typed values are factors or rates", () => {
  expect(["3x", "×3", " 3 ", "2.50x", "200/s", ".5"].map(canonical)).toEqual([
    "3x",
    "3x",
    "3x",
    "2.5x",
    "200/s",
    "0.5x",
  ]);
  expect(["", "-3x", "three", "3x4"].map(canonical)).toEqual([null, null, null, null]);
});

test("a factor of 1 is not kept, unless all others have another", () => {
  const one = withScale(new Map(), "a", "3x");
  expect(withScale(one, "a", "1x").size).toBe(0);
  const others = withScale(new Map(), "*", "2x");
  expect(withScale(others, "a", "1x").get("a")).toBe("1x");
  expect(withScale(others, "*", "1x").size).toBe(0);
});

test("every step of the slider is its own factor", () => {
  for (const [step, factor] of FACTORS.entries()) expect(stepOf(factor)).toBe(step);
  expect(FACTORS[UNCHANGED]).toBe(1);
  expect(stepOf(1000)).toBe(FACTORS.length - 1);
  expect(stepOf(0.001)).toBe(1);
});

test("factors and loads are in words", () => {
  expect([1, 3, 0.25, 12.34].map(factorText)).toEqual(["as now", "× 3", "× 0.25", "× 12.3"]);
  expect([0.5, 0.9, 1.01].map(roomOf)).toEqual(["within", "near", "beyond"]);
  expect([0.666, 1.5, 43.4].map(peakText)).toEqual(["67%", "150%", "× 43"]);
});
