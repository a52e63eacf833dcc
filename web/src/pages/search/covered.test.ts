import { expect, it } from "vitest";
import { unixNano } from "../../model/time";
import { coveredText } from "./covered";

const NOON = Date.UTC(2026, 10, 27, 12);
const covered = (complete: boolean) => ({
  start_unix_nano: unixNano(NOON),
  end_unix_nano: unixNano(NOON + 900_000),
  complete,
});

it("says what the order holds for", () => {
  expect(coveredText("slowest", covered(true), NOON, "utc")).toBe(
    "Slowest of 12:00:00 – 12:15:00 UTC",
  );
});

it("never claims more than was looked at", () => {
  expect(coveredText("errors", covered(false), NOON, "utc")).toBe(
    "Most errors first; looked at 12:00:00 – 12:15:00 UTC only",
  );
});
