import { expect, it } from "vitest";
import { figures } from "./figures";

it("names figures with their units", () => {
  expect(
    figures({ wal_bytes: 2048, uptime_seconds: 90, files: 12000, ring_full: 3, refused_busy: 0 }),
  ).toEqual([
    { key: "wal_bytes", name: "WAL size", text: "2.00 KiB" },
    { key: "uptime_seconds", name: "Uptime", text: "1 m 30 s" },
    { key: "files", name: "Files", text: "12,000" },
    { key: "ring_full", name: "Ring full", text: "3" },
    { key: "refused_busy", name: "Refused busy", text: "0" },
  ]);
});

it("flattens what lies within, and takes lists of pairs", () => {
  const said = figures({
    otlp: { spans: 1 },
    counters: [["torn_tail", 1]],
    none: null,
    list: [1, 2],
  });
  expect(said.map((one) => [one.key, one.text])).toEqual([
    ["otlp_spans", "1"],
    ["counters_torn_tail", "1"],
    ["none", "–"],
    ["list", "[1,2]"],
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
