/** What tells a selection of spans from the rest, from the counts of TraceQL's `compare`. */
import { label } from "../api/tempo";
import type { TempoMetrics } from "../api/tempo";

/** A value of an attribute that is more or less frequent in the selection. */
export interface Told {
  readonly name: string;
  readonly value: string;
  /** Spans of the selection that have it. */
  readonly count: number;
  /** Shares of the spans that have it, in the selection and in the rest. */
  readonly here: number;
  readonly there: number;
  /** Whether the share in the rest may be lower: the server listed only more frequent values. */
  readonly atMost: boolean;
}

export interface Different {
  /** Spans of the selection and of the rest. */
  readonly selected: number;
  readonly rest: number;
  /** The greatest difference of shares first. */
  readonly told: readonly Told[];
}

/** Differences of fewer standard errors than this may be chance: thousands of values are tried. */
const LEAST_ERRORS = 4;
/** A smaller difference of shares explains nothing. */
const LEAST_DIFFERENCE = 0.01;

type Side = "selection" | "baseline";

/** Reads an answer to `compare` with at most `listed` values of each attribute. */
export function different(answer: TempoMetrics, listed: number): Different {
  const counts = { selection: new Map(), baseline: new Map() } as Record<
    Side,
    Map<string, Map<string, number>>
  >;
  const totals: Record<Side, number> = { selection: 0, baseline: 0 };
  for (const { labels, value } of answer.series ?? []) {
    const name = labels?.find(({ key }) => !key.startsWith("__meta_"))?.key;
    const [type, total] = label(labels, "__meta_type").split("_");
    if (name === undefined || (type !== "selection" && type !== "baseline")) continue;
    const count = value ?? 0;
    // Every attribute has a total: the spans that have it. Some are on all spans.
    if (total === "total") totals[type] = Math.max(totals[type], count);
    else {
      const values = counts[type].get(name) ?? new Map<string, number>();
      values.set(label(labels, name), count);
      counts[type].set(name, values);
    }
  }
  const { selection: selected, baseline: rest } = totals;
  const told: Told[] = [];
  if (selected > 0 && rest > 0) {
    for (const name of new Set([...counts.selection.keys(), ...counts.baseline.keys()])) {
      const here = counts.selection.get(name) ?? new Map<string, number>();
      const there = counts.baseline.get(name) ?? new Map<string, number>();
      for (const value of new Set([...here.keys(), ...there.keys()])) {
        if (value === "nil" || value === "") continue;
        const count = here.get(value) ?? unlisted(here, listed);
        const other = there.get(value) ?? unlisted(there, listed);
        if (!beyondChance(count, selected, other, rest)) continue;
        told.push({
          name,
          value,
          count,
          here: count / selected,
          there: other / rest,
          atMost: !there.has(value) && other > 0,
        });
      }
    }
  }
  const size = (one: Told) => Math.abs(one.here - one.there);
  told.sort((a, b) => size(b) - size(a) || (a.name < b.name ? -1 : 1));
  return { selected, rest, told };
}

/** The most spans that can have a value that is not listed. */
function unlisted(values: ReadonlyMap<string, number>, listed: number): number {
  return values.size < listed ? 0 : Math.min(...values.values());
}

/** Whether two shares differ by more than samples of these sizes do by chance. */
function beyondChance(a: number, ofA: number, b: number, ofB: number): boolean {
  const pooled = (a + b) / (ofA + ofB);
  const error = Math.sqrt(pooled * (1 - pooled) * (1 / ofA + 1 / ofB));
  return Math.abs(a / ofA - b / ofB) > Math.max(LEAST_DIFFERENCE, LEAST_ERRORS * error);
}

/** A box of the heat map as the address has it: two times in seconds, two durations in ns. */
export interface Box {
  readonly from: number;
  readonly to: number;
  readonly least: number;
  readonly most: number;
}

export const boxText = ({ from, to, least, most }: Box): string =>
  [from, to, Math.floor(least), Math.ceil(most)].join("-");

export function readBox(text: string): Box | null {
  const [from, to, least, most] = (/^\d+(\.\d+)?(-\d+(\.\d+)?){3}$/.test(text) ? text : "")
    .split("-")
    .map(Number);
  return most === undefined ? null : { from: from!, to: to!, least: least!, most };
}
