/** Rate, errors and latency over time, asked in TraceQL. Each answer is bounded by the server. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lines, red } from "../model/series";
import type { Red, Steps } from "../model/series";
import { errorGroups } from "../model/changes";
import type { ErrorGroup } from "../model/changes";
import { quoted } from "../model/traceql";
import { label, tempo } from "./tempo";
import type { TempoMetrics } from "./tempo";

/** Services, or operations, that charts are asked for. */
const MOST_SERIES = 200;
const FRESH_MILLISECONDS = 15_000;

export interface RedAnswer {
  on: Steps;
  red: Red[];
  /** What limits the answer. */
  warnings: string[];
}

/** Requests that a service answers: not the calls that it makes. */
const SERVED = "(kind = server || kind = consumer)";
/** The calls that it makes. */
const CALLED = "(kind = client || kind = producer)";
const SERVICE = "resource.service.name";

async function asked(
  query: string,
  on: Steps,
  exemplars: number,
  signal: AbortSignal,
): Promise<TempoMetrics> {
  const { body } = await tempo<TempoMetrics>(
    "metrics/query_range",
    {
      q: query,
      start: on.from,
      end: on.to,
      step: `${on.step}s`,
      exemplars,
      maxSeries: MOST_SERIES,
    },
    signal,
  );
  return body;
}

async function redOf(
  condition: string,
  by: string,
  on: Steps,
  exemplars: number,
  signal: AbortSignal,
): Promise<RedAnswer> {
  const answers = await Promise.all([
    asked(`{ ${condition} } | rate() by (${by})`, on, 0, signal),
    asked(`{ ${condition} && status = error } | rate() by (${by})`, on, exemplars, signal),
    asked(`{ ${condition} } | quantile_over_time(duration, .95) by (${by})`, on, exemplars, signal),
  ]);
  const [rate, failed, latency] = answers.map((answer) => lines(answer, on, [by]));
  const warnings = answers.flatMap((one) =>
    one.status === "PARTIAL" && one.message ? [one.message] : [],
  );
  return { on, red: red(rate!, failed!, latency!, on), warnings: [...new Set(warnings)] };
}

export const useServicesRed = (on: Steps) =>
  useQuery({
    queryKey: ["red", on],
    queryFn: ({ signal }) => redOf(SERVED, SERVICE, on, 0, signal),
    placeholderData: keepPreviousData,
    staleTime: FRESH_MILLISECONDS,
  });

/** One service as a whole, with traces as examples. */
export const useServiceRed = (service: string, on: Steps) =>
  useQuery({
    queryKey: ["red", "service", service, on],
    queryFn: ({ signal }) =>
      redOf(`${SERVED} && ${SERVICE} = ${quoted(service)}`, SERVICE, on, 60, signal),
    placeholderData: keepPreviousData,
    staleTime: FRESH_MILLISECONDS,
  });

export const useOperationsRed = (service: string, on: Steps) =>
  useQuery({
    queryKey: ["red", "operations", service, on],
    queryFn: ({ signal }) =>
      redOf(`${SERVED} && ${SERVICE} = ${quoted(service)}`, "name", on, 0, signal),
    placeholderData: keepPreviousData,
    staleTime: FRESH_MILLISECONDS,
  });

/** A call that a service makes, by its name: a statement, a command, a topic, a request. */
export interface Call {
  red: Red;
  /** What all of its calls took together. */
  totalSeconds: number;
}

/** The calls that a service makes, those that took most of the time first. */
export const useCalls = (service: string, on: Steps) =>
  useQuery({
    queryKey: ["red", "calls", service, on],
    queryFn: async ({ signal }): Promise<Call[]> => {
      const condition = `${CALLED} && ${SERVICE} = ${quoted(service)}`;
      const [figures, sums] = await Promise.all([
        redOf(condition, "name", on, 60, signal),
        asked(`{ ${condition} } | sum_over_time(duration) by (name)`, on, 0, signal),
      ]);
      const total = new Map(
        [...lines(sums, on, ["name"])].map(([name, { values }]) => [
          name,
          values.reduce<number>((sum, value) => sum + (value ?? 0), 0),
        ]),
      );
      return figures.red
        .map((one) => ({ red: one, totalSeconds: total.get(one.name) ?? 0 }))
        .sort((a, b) => b.totalSeconds - a.totalSeconds);
    },
    placeholderData: keepPreviousData,
    staleTime: FRESH_MILLISECONDS,
  });

/** Errors by service and text, in a range of seconds since 1970. */
export const useErrors = (from: number, to: number, service: string | null = null) =>
  useQuery({
    queryKey: ["errors", service, from, to],
    queryFn: async ({ signal }): Promise<ErrorGroup[]> => {
      const only = service === null ? "" : ` && ${SERVICE} = ${quoted(service)}`;
      const { body } = await tempo<TempoMetrics>(
        "metrics/query",
        {
          q: `{ status = error${only} } | count_over_time() by (${SERVICE}, statusMessage)`,
          start: from,
          end: to,
          maxSeries: 1000,
        },
        signal,
      );
      return errorGroups(
        (body.series ?? []).map((one) => ({
          service: label(one.labels, SERVICE),
          text: label(one.labels, "statusMessage").replace(/^nil$/, ""),
          count: one.value ?? 0,
        })),
      );
    },
    placeholderData: keepPreviousData,
    staleTime: FRESH_MILLISECONDS,
  });
