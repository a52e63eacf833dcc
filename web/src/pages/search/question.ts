/** What the search page's address asks for. */
import type { SearchQuestion } from "../../api/queries";
import { canonicalDuration } from "../../model/duration";
import { DEFAULT_START } from "../../model/time";

export const LIMITS = ["20", "50", "100", "200", "500"] as const;
const DEFAULT_LIMIT = "100";

export type Sort = "newest" | "slowest" | "spans" | "errors";

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
  const sort = text("sort", "newest");
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
    sort: sort === "slowest" || sort === "spans" || sort === "errors" ? sort : "newest",
  };
}

/** The same as the API wants it; durations that are none are left out (the field shows them red). */
export function question(a: Asked): SearchQuestion {
  return {
    service: a.service,
    operation: a.operation,
    min_duration: canonicalDuration(a.min) ?? "",
    max_duration: canonicalDuration(a.max) ?? "",
    status: a.status,
    attribute: a.attributes,
    start: a.start,
    end: a.end,
    limit: a.limit,
  };
}

/** Whether anything but the time narrows the search. */
export function narrowed(a: Asked): boolean {
  return [a.service, a.operation, a.min, a.max, a.status, ...a.attributes].some(Boolean);
}

/** Removes all that narrows. */
export const WIDE = {
  service: null,
  operation: null,
  min: null,
  max: null,
  status: null,
  attribute: [],
} as const;
