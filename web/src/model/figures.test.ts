import { expect, it } from "vitest";
import { figures } from "./figures";

it("names figures with their units and sets losses apart", () => {
  expect(
    figures({ wal_bytes: 2048, uptime_seconds: 90, files: 12000, ring_full: 3, refused_busy: 0 }),
  ).toEqual([
    { key: "wal_bytes", name: "WAL size", text: "2.00 KiB", lost: false },
    { key: "uptime_seconds", name: "Uptime", text: "1 m 30 s", lost: false },
    { key: "files", name: "Files", text: "12,000", lost: false },
    { key: "ring_full", name: "Ring full", text: "3", lost: true },
    { key: "refused_busy", name: "Refused busy", text: "0", lost: false },
  ]);
});

it("flattens what lies within, and takes lists of pairs", () => {
  const said = figures({
    otlp: { spans: 1 },
    counters: [["torn_tail", 1]],
    none: null,
    list: [1, 2],
  });
  expect(said.map((one) => [one.key, one.text, one.lost])).toEqual([
    ["otlp_spans", "1", false],
    ["counters_torn_tail", "1", true],
    ["none", "–", false],
    ["list", "[1,2]", false],
  ]);
});

it("tells times with their date, in the zone that is asked for", () => {
  expect(figures({ oldest_unix_nano: "1764244800123000000" }, "utc")[0]!.text).toBe(
    "2025-11-27 12:00:00.123 UTC",
  );
});

it("takes nothing for nothing", () => {
  expect(figures(undefined)).toEqual([]);
  expect(figures("text")).toEqual([]);
});
