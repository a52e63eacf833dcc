import { describe, expect, it } from "vitest";
import { coveredSeconds, failedShare, linePath, lines, middle, red, steps } from "./series";

describe("steps", () => {
  it("are round and cover the range", () => {
    expect(steps(0, 3600)).toEqual({ from: 0, to: 3600, step: 60, count: 60, running: false });
    expect(steps(5, 5).count).toBe(1);
  });
  it("reach to the end, in a step that is not over", () => {
    expect(steps(1005, 4605)).toEqual({ from: 960, to: 4620, step: 60, count: 61, running: true });
  });
});

const key = "resource.service.name";
const series = (name: string, samples: [number, number][]) => ({
  labels: [{ key, value: { stringValue: name } }],
  samples: samples.map(([seconds, value]) => ({ timestampMs: String(seconds * 1000), value })),
});

describe("lines", () => {
  const on = { from: 0, to: 180, step: 60, count: 3, running: false };
  it("put the sample at a step's end into that step", () => {
    const got = lines(
      {
        series: [
          series("cart", [
            [60, 1],
            [180, 3],
            [240, 9],
          ]),
        ],
      },
      on,
      [key],
    );
    expect(got.get("cart")!.values).toEqual([1, null, 3]);
  });
  it("keep exemplars that name a trace", () => {
    const exemplars = [
      {
        labels: [{ key: "trace:id", value: { stringValue: "ab" } }],
        value: 2,
        timestampMs: "90000",
      },
      { labels: [], value: 2, timestampMs: "90000" },
    ];
    const got = lines({ series: [{ ...series("cart", []), exemplars }] }, on, [key]);
    expect(got.get("cart")!.exemplars).toEqual([{ traceId: "ab", spanId: "", at: 90, value: 2 }]);
  });
});

describe("red", () => {
  const line = (values: (number | null)[]) => ({ values, exemplars: [] });
  const on = { from: 0, to: 240, step: 60, count: 4, running: false };
  it("leaves out a step that is not over, unless there is no other", () => {
    const figures = new Map([
      ["old", line([null, 2, 2, 1])],
      ["new", line([null, 0, null, 1])],
    ]);
    const got = red(figures, new Map(), figures, { ...on, running: true });
    expect(got.map((one) => one.rate.values)).toEqual([
      [null, 2, 2],
      [null, 0, null, 1],
    ]);
    expect(got.map((one) => one.requests)).toEqual([300, 60]);
    expect(got.map((one) => one.latency.values)).toEqual([
      [null, 2, 2],
      [null, null, null, 1],
    ]);
  });
  it("divides failures by requests", () => {
    const [cart] = red(
      new Map([["cart", line([2, 0, null, 6])]]),
      new Map([["cart", line([1, null, null, 0])]]),
      new Map([["cart", line([5, 0, 0, 7])]]),
      on,
    );
    expect(cart!.latency.values).toEqual([5, null, null, 7]);
    expect(cart!.errors.values).toEqual([0.5, null, null, 0]);
    expect(failedShare(cart!)).toBe(0.125);
    expect(cart!.requests).toBe(480);
  });
  it("is over the time from the first request on", () => {
    const figures = new Map([
      ["cart", line([null, 0, 1, 1])],
      ["late", line([null, null, null, 1])],
    ]);
    const all = red(figures, new Map(), new Map(), on);
    expect(coveredSeconds(all, on, 1000)).toBe(120);
    expect(coveredSeconds(all.slice(1), on, 195)).toBe(15);
    expect(coveredSeconds([], on, 240)).toBe(60);
  });
});

it("middle ignores what is missing", () => {
  expect(middle([null, 3, 1, null, 2])).toBe(2);
  expect(middle([null])).toBe(null);
});

it("a line is interrupted where nothing was measured", () => {
  expect(linePath([0, null, 2, 1], 30, 10, 2)).toBe("M0.0 10.0h3.0M20.0 0.0L30.0 5.0");
});
