import type { CoveredRange, Sort } from "../../api/types";
import { formatRange, milliseconds } from "../../model/time";
import type { Zone } from "../../model/time";
import { SORTS } from "./question";

/** States what the order of a list covers: all traces, or only the examined ones. */
export function coveredText(sort: Sort, covered: CoveredRange, now: number, zone: Zone): string {
  const range = formatRange(
    milliseconds(covered.start_unix_nano),
    milliseconds(covered.end_unix_nano),
    now,
    zone,
  );
  const name = SORTS.find(([one]) => one === sort)![1];
  return covered.complete ? `${name} of ${range}` : `${name} first; looked at ${range} only`;
}
