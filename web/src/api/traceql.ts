/** Searches in TraceQL: traces, the heat map, groups, and completions. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { different } from "../model/different";
import { heat } from "../model/heat";
import { coveredSeconds, failedShare, lines, middle, red } from "../model/series";
import type { Steps } from "../model/series";
import { unixNano } from "../model/time";
import { tempo } from "./tempo";
import type { TempoMetrics, TempoSearch, TempoTags, TempoTrace, TempoValues } from "./tempo";
import type { SearchAnswer, TraceSummary } from "./types";

/** A trace of Tempo's answer in the list of the search page. */
export function summary(trace: TempoTrace): TraceSummary {
  const stats = Object.entries(trace.serviceStats ?? {});
  const sum = (figure: "spanCount" | "errorCount") =>
    stats.reduce((all, [, one]) => all + (one[figure] ?? 0), 0);
  return {
    trace_id: trace.traceID.padStart(32, "0"),
    root: {
      service: trace.rootServiceName ?? "",
      operation: trace.rootTraceName ?? "",
      capture: "app",
      kind: "internal",
    },
    start_unix_nano: trace.startTimeUnixNano ?? "0",
    duration_nano: String(BigInt(Math.round(trace.durationMs ?? 0)) * 1_000_000n),
    services: stats
      .map(([name, one]) => ({
        name,
        spans: one.spanCount ?? 0,
        errors: one.errorCount ?? 0,
        busy_nano: "0",
      }))
      .sort((a, b) => b.spans - a.spans),
    spans: sum("spanCount"),
    errors: sum("errorCount"),
    status: sum("errorCount") > 0 ? "error" : "ok",
    error: null,
    protocols: [],
    complete: true,
    doubtful: false,
    uncertain_links: 0,
  };
}

export const useTraceQl = (query: string | null, on: Steps, end: number, limit: number) =>
  useQuery({
    queryKey: ["traceql", query, on, end, limit],
    queryFn: async ({ signal }): Promise<SearchAnswer> => {
      const parameters = { q: query, start: on.from, end, limit };
      const { body, warning } = await tempo<TempoSearch>("search", parameters, signal);
      const covered = {
        start_unix_nano: unixNano(on.from * 1000),
        end_unix_nano: unixNano(end * 1000),
      };
      return {
        traces: (body.traces ?? []).map(summary),
        sort: "newest",
        searched: covered,
        covered: { ...covered, complete: warning === null },
        next_cursor: null,
        older_end_unix_nano: null,
        warnings: warning === null ? [] : [warning],
        advice: [],
      };
    },
    enabled: query !== null,
    placeholderData: keepPreviousData,
    retry: false,
  });

const metrics = async (q: string, on: Steps, signal: AbortSignal) =>
  (
    await tempo<TempoMetrics>(
      "metrics/query_range",
      { q, start: on.from, end: on.to, step: `${on.step}s`, exemplars: 0 },
      signal,
    )
  ).body;

export const useHeat = (query: string | null, on: Steps) =>
  useQuery({
    queryKey: ["heat", query, on],
    queryFn: async ({ signal }) =>
      heat(await metrics(`${query} | histogram_over_time(duration)`, on, signal), on),
    enabled: query !== null,
    placeholderData: keepPreviousData,
    retry: false,
  });

/** The spans that fit, by the value of an attribute. */
export interface Group {
  value: string;
  perSecond: number;
  errorShare: number;
  p95Seconds: number | null;
}

const MOST_GROUPS = 200;

export const useGroups = (query: string, by: string, on: Steps) =>
  useQuery({
    queryKey: ["groups", query, by, on],
    queryFn: async ({ signal }): Promise<Group[]> => {
      const failed = query.replace(/^\{([\s\S]*)\}$/, (_, inside: string) =>
        inside.trim() === "" ? "{ status = error }" : `{ (${inside}) && status = error }`,
      );
      const [rate, errors, latency] = await Promise.all([
        metrics(`${query} | rate() by (${by})`, on, signal),
        metrics(`${failed} | rate() by (${by})`, on, signal),
        metrics(`${query} | quantile_over_time(duration, .95) by (${by})`, on, signal),
      ]);
      const all = red(lines(rate, on, [by]), lines(errors, on, [by]), lines(latency, on, [by]), on);
      const seconds = coveredSeconds(all, on, Date.now() / 1000);
      return all
        .map((one) => ({
          value: one.name,
          perSecond: one.requests / seconds,
          errorShare: failedShare(one),
          p95Seconds: middle(one.latency.values),
        }))
        .sort((a, b) => b.perSecond - a.perSecond)
        .slice(0, MOST_GROUPS);
    },
    enabled: by !== "",
    placeholderData: keepPreviousData,
    retry: false,
  });

/** Values of each attribute that a comparison lists. */
export const MOST_COMPARED = 50;

/** What tells spans apart, by a query that ends in `compare(…, MOST_COMPARED)`. */
export const useDifferent = (query: string | null, on: Steps) =>
  useQuery({
    queryKey: ["different", query, on],
    queryFn: async ({ signal }) => {
      const parameters = { q: query, start: on.from, end: on.to };
      const { body } = await tempo<TempoMetrics>("metrics/query", parameters, signal);
      return different(body, MOST_COMPARED);
    },
    enabled: query !== null,
    retry: false,
  });

const MOST_OFFERED = 30;

/** Names of attributes as TraceQL spells them, and of what each span has. */
export const useTraceQlNames = (on: Steps, active: boolean) =>
  useQuery({
    queryKey: ["traceql-names", on.from],
    queryFn: async ({ signal }): Promise<string[]> => {
      const parameters = { start: on.from, end: on.to };
      const { body } = await tempo<TempoTags>("v2/search/tags", parameters, signal);
      return (body.scopes ?? []).flatMap(({ name, tags }) =>
        (tags ?? []).map((tag) => (name === "intrinsic" ? tag : `${name}.${tag}`)),
      );
    },
    enabled: active,
    staleTime: 60_000,
  });

export const useTraceQlValues = (name: string | null, prefix: string, on: Steps) =>
  useQuery({
    queryKey: ["traceql-values", name, on.from],
    queryFn: async ({ signal }) => {
      const path = `v2/search/tag/${encodeURIComponent(name!)}/values`;
      const { body } = await tempo<TempoValues>(path, { start: on.from, end: on.to }, signal);
      return body.tagValues ?? [];
    },
    enabled: name !== null,
    staleTime: 60_000,
    retry: false,
    select: (values) =>
      values
        .filter(({ value }) => value.toLowerCase().startsWith(prefix.toLowerCase()))
        .slice(0, MOST_OFFERED),
  });
