/** The range of time of a page, as its address says. */
import { useMemo } from "react";
import { usePlace } from "../app/router";
import { steps } from "../model/series";
import type { Steps } from "../model/series";
import { DEFAULT_START } from "../model/time";
import { absolute } from "./TimeRange";
import { useNow } from "./useNow";

/** How often a range that ends now moves. */
const EVERY_MILLISECONDS = 15_000;

export interface PageRange {
  start: string;
  end: string;
  on: Steps;
  /** The end in seconds since 1970, which may be within the last step. */
  endSeconds: number;
}

export function usePageRange(): PageRange {
  const { params } = usePlace();
  const start = params.get("start") ?? DEFAULT_START;
  const end = params.get("end") ?? "now";
  const now = useNow(EVERY_MILLISECONDS);
  return useMemo(() => {
    const on = steps(absolute(start, now) / 1000, absolute(end, now) / 1000);
    return { start, end, on, endSeconds: Math.ceil(absolute(end, now) / 1000) };
  }, [start, end, now]);
}

/** An address of another page with the same range. */
export function withRange(
  path: string,
  { start, end }: Pick<PageRange, "start" | "end">,
  more: Record<string, string> = {},
): string {
  const query = new URLSearchParams(more);
  if (start !== DEFAULT_START) query.set("start", start);
  if (end !== "now") query.set("end", end);
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}
