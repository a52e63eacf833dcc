import { expect, it } from "vitest";
import { heat, selected, shade } from "./heat";

const on = { from: 0, to: 120, step: 60, count: 2, running: false };
const series = (bucket: number, samples: [number, number][]) => ({
  labels: [{ key: "__bucket", value: { doubleValue: bucket } }],
  samples: samples.map(([seconds, value]) => ({ timestampMs: String(seconds * 1000), value })),
});

it("counts in rows that double, with the empty ones between", () => {
  const map = heat({ series: [series(0.008, [[60, 2]]), series(0.002, [[120, 5]])] }, on);
  expect(map.bounds).toEqual([0.002, 0.004, 0.008]);
  expect(map.cells).toEqual([
    [0, 5],
    [0, 0],
    [2, 0],
  ]);
  expect([map.most, map.total]).toEqual([5, 7]);
});

it("selects times, durations and their spans with a box, whichever way it is drawn", () => {
  const map = heat(
    {
      series: [
        series(0.002, [
          [60, 1],
          [120, 5],
        ]),
        series(0.004, [[120, 3]]),
      ],
    },
    on,
  );
  expect(selected(map, [1, 1], [1, 0])).toEqual({
    from: 60,
    to: 120,
    least: 1e6,
    most: 4e6,
    count: 8,
  });
});

it("of nothing is empty", () => {
  expect(heat({}, on)).toMatchObject({ bounds: [], cells: [], most: 0 });
});

it("shows a single span among a thousand", () => {
  expect(shade(0, 1000)).toBe(0);
  expect(shade(1, 1000)).toBeGreaterThan(0.2);
  expect(shade(1000, 1000)).toBe(1);
});
