/** Reads the search from the page's address. */
import type { SearchQuestion } from "../../api/queries";
import type { Sort } from "../../api/types";
import { readCondition } from "../../model/condition";
import { canonicalDuration } from "../../model/duration";
import { DEFAULT_START } from "../../model/time";

export const LIMITS = ["20", "50", "100", "200", "500"] as const;
export const DEFAULT_LIMIT = "100";

/** The orders that the server supports, with their display names. */
export const SORTS: readonly [sort: Sort, name: string][] = [
  ["newest", "Newest"],
  ["slowest", "Slowest"],
  ["errors", "Most errors"],
  ["largest", "Largest"],
];

export interface Asked {
  service: string;
  operation: string;
  min: string;
  max: string;
  status: string;
  attributes: string[];
  start: string;
  end: string;
  limit: string;
  live: boolean;
  sort: Sort;
}

export function asked(params: URLSearchParams): Asked {
  const text = (key: string, otherwise = "") => params.get(key) ?? otherwise;
  const sort = SORTS.find(([name]) => name === params.get("sort"))?.[0] ?? "newest";
  return {
    service: text("service"),
    operation: text("operation"),
    min: text("min"),
    max: text("max"),
    status: text("status"),
    attributes: params.getAll("attribute"),
    start: text("start", DEFAULT_START),
    end: text("end", "now"),
    limit: text("limit", DEFAULT_LIMIT),
    live: text("live") === "1",
    sort,
  };
}

/**
 * The search as the API spells it. Invalid durations and conditions are left out; their fields are
 * marked red.
 */
export function question(a: Asked): SearchQuestion {
  return {
    service: a.service,
    operation: a.operation,
    min_duration: canonicalDuration(a.min) ?? "",
    max_duration: canonicalDuration(a.max) ?? "",
    status: a.status,
    attribute: a.attributes.filter((text) => !("problem" in readCondition(text))),
    start: a.start,
    end: a.end,
    limit: a.limit,
    sort: a.sort,
  };
}

/** Whether any filter other than the time range is set. */
export function narrowed(a: Asked): boolean {
  return [a.service, a.operation, a.min, a.max, a.status, ...a.attributes].some(Boolean);
}

/** Removes all filters. */
export const WIDE = {
  service: null,
  operation: null,
  min: null,
  max: null,
  status: null,
  attribute: [],
} as const;
