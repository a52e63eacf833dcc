import { expect, test } from "vitest";
import { boxText, different, readBox } from "./different";

const series = (type: string, key: string, text: string, value: number) => ({
  labels: [
    { key: "__meta_type", value: { stringValue: type } },
    { key, value: { stringValue: text } },
  ],
  value,
});
const totals = (selected: number, rest: number) => [
  series("selection_total", "name", "nil", selected),
  series("baseline_total", "name", "nil", rest),
];

test("what the selection has more often, and what it lacks, comes first", () => {
  const { told, selected, rest } = different(
    {
      series: [
        ...totals(100, 1000),
        series("selection", "span.region", "eu", 50),
        series("baseline", "span.region", "eu", 510),
        series("selection", "span.version", "2.1", 98),
        series("baseline", "span.version", "2.1", 40),
        series("baseline", "span.cache", "hit", 600),
      ],
    },
    10,
  );
  expect([selected, rest]).toEqual([100, 1000]);
  expect(told).toEqual([
    { name: "span.version", value: "2.1", count: 98, here: 0.98, there: 0.04, atMost: false },
    { name: "span.cache", value: "hit", count: 0, here: 0, there: 0.6, atMost: false },
  ]);
});

test("what may be chance is not told", () => {
  const { told } = different(
    {
      series: [
        ...totals(4, 1000),
        series("selection", "span.host", "a", 2),
        series("baseline", "span.host", "a", 250),
      ],
    },
    10,
  );
  expect(told).toEqual([]);
});

test("a certain difference that is tiny is not told", () => {
  const { told } = different(
    {
      series: [
        ...totals(100_000, 1_000_000),
        series("selection", "span.user", "7", 500),
        series("baseline", "span.user", "7", 0),
      ],
    },
    10,
  );
  expect(told).toEqual([]);
});

test("a value that the server did not list may be as frequent as the rarest that it did", () => {
  const answer = (rarest: number) => ({
    series: [
      ...totals(100, 1000),
      series("selection", "span.user", "7", 90),
      series("selection", "span.user", "8", 3),
      series("baseline", "span.user", "1", 300),
      series("baseline", "span.user", "2", rarest),
    ],
  });
  const of = (rarest: number) =>
    different(answer(rarest), 2).told.find(({ value }) => value === "7");
  expect(of(100)).toMatchObject({ here: 0.9, there: 0.1, atMost: true });
  expect(different(answer(100), 3).told[0]).toMatchObject({ there: 0, atMost: false });
});

test("without spans on both sides there is nothing to tell", () => {
  const one = { series: [...totals(100, 0), series("selection", "name", "GET /", 100)] };
  expect(different(one, 10).told).toEqual([]);
  expect(different({}, 10)).toEqual({ selected: 0, rest: 0, told: [] });
});

test("a box survives the address", () => {
  const box = { from: 1764000000, to: 1764003600.5, least: 1000, most: 2000000 };
  expect(readBox(boxText(box))).toEqual(box);
  expect(readBox("1")).toBeNull();
  expect(readBox("1-2-3-x")).toBeNull();
});
