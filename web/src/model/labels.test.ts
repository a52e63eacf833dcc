import { expect, it } from "vitest";
import { Boxes, overlaps, placeLabels } from "./labels";
import type { Named } from "./labels";

const crowd = (count: number, size: number): Named[] =>
  Array.from({ length: count }, (_, at) => ({
    x: (at * 7919) % size,
    y: (at * 104729) % size,
    radius: 5,
    width: 40 + ((at * 31) % 90),
    noteWidth: at % 2 === 0 ? 90 : 0,
  }));

it("puts no label over another or over a dot, however crowded it is", () => {
  const dots = crowd(2000, 1400);
  const labels = placeLabels(dots, 500);
  expect(labels.length).toBeGreaterThan(100);
  const boxes = dots.map(({ x, y, radius }) => ({
    left: x - radius,
    top: y - radius,
    width: 2 * radius,
    height: 2 * radius,
  }));
  const covered = labels.filter(({ box }, at) =>
    [...boxes, ...labels.slice(at + 1).map((other) => other.box)].some((other) =>
      overlaps(box, other),
    ),
  );
  expect(covered).toEqual([]);
});

it("names the important ones, which come first", () => {
  const dots = [0, 1, 2, 3, 4, 5].map((): Named => ({
    x: 100,
    y: 100,
    radius: 5,
    width: 50,
    noteWidth: 0,
  }));
  expect(placeLabels(dots, 100).map(({ at }) => at)).toEqual([0, 1, 2, 3]);
  expect(placeLabels(dots, 2).map(({ at }) => at)).toEqual([0, 1]);
});

it("names all where there is room, with their figures", () => {
  const dots = crowd(60, 60_000);
  const labels = placeLabels(dots, 100);
  expect(labels).toHaveLength(60);
  for (const label of labels) expect(label.note).toBe(dots[label.at]!.noteWidth > 0);
});

it("keeps names on the picture", () => {
  const dot: Named = { x: 10, y: 50, radius: 5, width: 60, noteWidth: 0 };
  const bounds = { left: 0, top: 0, width: 300, height: 100 };
  const [label] = placeLabels([dot], 1, bounds);
  expect(label!.box.left).toBeGreaterThanOrEqual(0);
  expect(label!.dy).toBe(0);
  expect(placeLabels([{ ...dot, width: 400 }], 1, bounds)).toEqual([]);
});

it("finds what is taken across the borders of its cells, and left of nothing", () => {
  const boxes = new Boxes(10);
  boxes.add({ left: -25, top: -25, width: 30, height: 30 });
  expect(boxes.isFree({ left: 4, top: 4, width: 5, height: 5 })).toBe(false);
  expect(boxes.isFree({ left: 5, top: 5, width: 5, height: 5 })).toBe(true);
  expect(boxes.isFree({ left: -30, top: 0, width: 6, height: 2 })).toBe(false);
});
