import { expect, it } from "vitest";
import { overlaps } from "./labels";
import { clearest, spot, wayBetween } from "./spot";

const way = wayBetween({ x: 0, y: 0 }, { x: 400, y: 0 }, 0);
const size = { width: 60, height: 20 };

it("moves a label along its edge until it is free", () => {
  const first = spot(way, size, [])!;
  const second = spot(way, size, [first])!;
  expect(overlaps(first, second)).toBe(false);
  expect(second.top).toBe(first.top);
});

it("leaves a label out rather than over another", () => {
  expect(spot(way, size, [{ left: -10, top: -10, width: 500, height: 20 }])).toBeNull();
});

it("bends to the side that the curvature says", () => {
  const bent = wayBetween({ x: 0, y: 0 }, { x: 100, y: 0 }, 0.25);
  expect(bent(0)).toEqual({ x: 0, y: 0 });
  expect(bent(1)).toEqual({ x: 100, y: 0 });
  expect(bent(0.5)).toEqual({ x: 50, y: -12.5 });
});

it("bends a line round what lies on it, and only then", () => {
  const [from, to] = [
    { x: 0, y: 0 },
    { x: 400, y: 0 },
  ];
  const below = { left: 180, top: -5, width: 40, height: 60 };
  expect(clearest(from, to, [])).toBe(0);
  const bend = clearest(from, to, [below]);
  expect(bend).toBeGreaterThan(0);
  expect(wayBetween(from, to, bend)(0.5).y).toBeLessThan(below.top);
  expect(clearest(from, to, [], 0.16)).toBe(0.16);
  // There is no room above.
  const picture = { left: 0, top: -20, width: 401, height: 400 };
  const flat = { left: 180, top: -5, width: 40, height: 12 };
  expect(clearest(from, to, [flat], 0, picture)).toBeLessThan(0);
});
