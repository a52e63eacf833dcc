import { expect, test } from "vitest";
import type { OperationRow } from "./callTree";
import { divided, treeMap } from "./treeMap";

const WHOLE = { left: 0, top: 0, width: 1, height: 1 };
const area = ({ width, height }: { width: number; height: number }) => width * height;
const row = (service: string, operation: string, selfNano: number): OperationRow => ({
  service,
  operation,
  selfNano,
  count: 1,
  errors: 0,
  totalNano: selfNano,
  longestNano: selfNano,
});

test("areas are as large as their weights, and fill the whole without overlap", () => {
  const weights = [6, 6, 4, 3, 2, 2, 1];
  const areas = divided(weights, WHOLE, 2);
  areas.forEach((one, at) => expect(area(one)).toBeCloseTo(weights[at]! / 24, 9));
  for (const [at, a] of areas.entries()) {
    for (const b of areas.slice(at + 1)) {
      const wide = Math.min(a.left + a.width, b.left + b.width) - Math.max(a.left, b.left);
      const high = Math.min(a.top + a.height, b.top + b.height) - Math.max(a.top, b.top);
      expect(Math.min(wide, high)).toBeLessThan(1e-9);
    }
    expect(a.left + a.width).toBeLessThan(1 + 1e-9);
    expect(a.top + a.height).toBeLessThan(1 + 1e-9);
  }
});

test("equal weights in a wide picture are nearly square", () => {
  for (const { width, height } of divided([1, 1, 1, 1, 1, 1], WHOLE, 1.5)) {
    const ratio = (width * 1.5) / height;
    expect(Math.max(ratio, 1 / ratio)).toBeLessThan(1.6);
  }
});

test("operations lie inside their services; what is too small is counted", () => {
  const { blocks, hidden } = treeMap(
    [row("a", "x", 30), row("b", "y", 50), row("a", "z", 20), row("c", "w", 0)],
    1,
  );
  expect(blocks.map((one) => [one.service, one.selfNano])).toEqual([
    ["a", 50],
    ["b", 50],
  ]);
  expect(hidden).toBe(1);
  for (const block of blocks) {
    for (const tile of block.tiles) {
      expect(tile.left).toBeGreaterThan(block.left - 1e-9);
      expect(tile.top + tile.height).toBeLessThan(block.top + block.height + 1e-9);
    }
  }
});

test("a trace without own time is no picture, and no crash", () => {
  expect(treeMap([row("a", "x", 0)], 1)).toEqual({ blocks: [], hidden: 1 });
  expect(treeMap([], 1)).toEqual({ blocks: [], hidden: 0 });
});
