import { expect, it } from "vitest";
import { closedText, readShown, WHOLE } from "./state";

it("reads an empty address as the whole trace", () => {
  expect(readShown(new URLSearchParams())).toEqual({
    selected: null,
    filter: "",
    merge: false,
    aligned: false,
    closed: new Set(),
    zoom: WHOLE,
    view: "waterfall",
    fold: false,
    path: false,
    other: null,
  });
});

it.each(["0.5-0.2", "a-b", "0-7", "-", "0.3-0.3"])("takes the zoom %s for none", (zoom) => {
  expect(readShown(new URLSearchParams({ zoom })).zoom).toBe(WHOLE);
});

it("reads a zoom and collapsed spans", () => {
  const shown = readShown(new URLSearchParams({ zoom: "0.25-0.5", closed: "aa,bb" }));
  expect(shown.zoom).toEqual([0.25, 0.5]);
  expect(closedText(shown.closed)).toBe("aa,bb");
});

it("keeps an address within reason", () => {
  expect(closedText(new Set(Array.from({ length: 61 }, (_, at) => String(at))))).toBeNull();
});
