import { expect, test } from "vitest";
import type { Entrance } from "../api/types";
import { together, trendOf } from "./entrances";

test("a trend is in words, and small changes are none", () => {
  expect(trendOf(0.5, true)).toEqual({ direction: "up", text: "+50%" });
  expect(trendOf(-0.25, true)).toEqual({ direction: "down", text: "−25%" });
  expect(trendOf(2, true)).toEqual({ direction: "up", text: "× 3.0" });
  expect(trendOf(0.04, true).direction).toBe("same");
  expect(trendOf(-1, true)).toEqual({ direction: "down", text: "−100%" });
});

test("an entrance is new only if something is known of the time before", () => {
  expect(trendOf(null, true).direction).toBe("new");
  expect(trendOf(null, false).direction).toBe("unknown");
});

test("rates add up", () => {
  const one = { runs_per_second: 2, runs_per_second_before: 1 } as Entrance;
  expect(together([one, one])).toEqual({ now: 4, before: 2 });
  expect(together([])).toEqual({ now: 0, before: 0 });
});
