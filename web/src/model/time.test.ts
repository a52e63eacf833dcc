import { afterAll, beforeAll, expect, it } from "vitest";
import {
  formatMark,
  formatMoment,
  formatRange,
  formatTime,
  fromInput,
  toInput,
  zoneName,
} from "./time";

const NOON = Date.UTC(2026, 10, 27, 12, 0, 0, 123);
const before = process.env["TZ"];
beforeAll(() => void (process.env["TZ"] = "Europe/Berlin"));
afterAll(() => void (process.env["TZ"] = before));

it("tells a time by the wall that was asked for, with the date where it is not today", () => {
  expect(formatTime(NOON, NOON, "local")).toBe("13:00:00.123");
  expect(formatTime(NOON, NOON, "utc")).toBe("12:00:00.123");
  expect(formatTime(NOON, NOON + 86_400_000, "utc")).toBe("2026-11-27 12:00:00.123");
  // 23:30 UTC is the next day in Berlin.
  const late = Date.UTC(2026, 10, 27, 23, 30);
  expect(formatTime(late, NOON, "local")).toBe("2026-11-28 00:30:00.000");
  expect(formatTime(late, NOON, "utc")).toBe("23:30:00.000");
});

it("names the zone, as it was at that time", () => {
  expect(zoneName("local", NOON)).toBe("UTC+01:00");
  expect(zoneName("local", Date.UTC(2026, 6, 1))).toBe("UTC+02:00");
  expect(zoneName("utc", NOON)).toBe("UTC");
  expect(formatMoment(NOON, "local")).toBe("2026-11-27 13:00:00.123 UTC+01:00");
});

it("names a range's day once, and today not at all", () => {
  expect(formatRange(NOON - 900_000, NOON, NOON, "utc")).toBe("11:45:00 – 12:00:00 UTC");
  const later = NOON + 3 * 86_400_000;
  expect(formatRange(NOON - 900_000, NOON, later, "utc")).toBe(
    "2026-11-27 11:45:00 – 12:00:00 UTC",
  );
  expect(formatRange(NOON - 86_400_000, NOON, NOON, "utc")).toBe(
    "2026-11-26 12:00:00 – 12:00:00 UTC",
  );
});

it("marks an axis as finely as its steps are", () => {
  expect(formatMark(NOON, 3_600_000, "utc")).toBe("12:00");
  expect(formatMark(NOON, 5000, "utc")).toBe("12:00:00");
  expect(formatMark(NOON, 10, "utc")).toBe("12:00:00.12");
  expect(formatMark(NOON, 86_400_000, "utc")).toBe("11-27");
});

it("reads back what it puts into a field", () => {
  for (const zone of ["local", "utc"] as const) {
    expect(fromInput(toInput(NOON, zone), zone)).toBe(NOON - 123);
  }
  expect(fromInput("", "utc")).toBeNull();
});
