import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { cameBack } from "../app/router";
import type { Steps } from "../model/series";
import { get } from "./client";
import type { Parameters } from "./client";
import { joined, PAGE, pageAfter, pageBefore } from "./pages";
import type { PageAsked } from "./pages";
import type {
  AttributeKeys,
  AttributeValues,
  Bottlenecks,
  Causes,
  Capacity,
  ChainList,
  ChainPage,
  Dependencies,
  Entrances,
  Graph,
  Journey,
  Operations,
  SearchAnswer,
  Services,
  Sort,
  Sources,
  Status,
  TracePage,
  Watch,
} from "./types";

const LIVE_MILLISECONDS = 2_000;
/** How long a list is kept, so that Back shows it unchanged. */
const KEPT_MILLISECONDS = 15 * 60_000;

/** The parameters of a search, spelled as in the API. */
export interface SearchQuestion {
  service?: string;
  operation?: string;
  min_duration?: string;
  max_duration?: string;
  status?: string;
  attribute?: string[];
  start?: string;
  end?: string;
  limit?: string;
  sort?: Sort;
}

export const useServices = (live = false) =>
  useQuery({
    queryKey: ["services"],
    queryFn: ({ signal }) => get<Services>("services", {}, signal),
    refetchInterval: live ? LIVE_MILLISECONDS : 15_000,
  });

export const useOperations = (service: string) =>
  useQuery({
    queryKey: ["operations", service],
    queryFn: ({ signal }) => get<Operations>("operations", { service }, signal),
    enabled: service !== "",
    staleTime: 15_000,
  });

export const useSearch = (question: SearchQuestion, live: boolean) =>
  useQuery({
    queryKey: ["search", question],
    queryFn: ({ signal }) => get<SearchAnswer>("search", { ...question }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: live ? LIVE_MILLISECONDS : false,
    staleTime: () => (cameBack() ? KEPT_MILLISECONDS : 0),
    gcTime: KEPT_MILLISECONDS,
  });

/** The spans that completions are taken from. */
export interface Where {
  service: string;
  start: string;
  end: string;
}

/** Completions per request. */
const OFFERED = 30;

export const useAttributeKeys = (where: Where, prefix: string | null) =>
  useQuery({
    queryKey: ["attributes", where, prefix],
    queryFn: ({ signal }) =>
      get<AttributeKeys>("attributes", { ...where, prefix: prefix ?? "", limit: OFFERED }, signal),
    enabled: prefix !== null,
    placeholderData: keepPreviousData,
    staleTime: 15_000,
  });

export const useAttributeValues = (where: Where, key: string | null, prefix: string) =>
  useQuery({
    queryKey: ["values", where, key, prefix],
    queryFn: ({ signal }) =>
      get<AttributeValues>("attributes/values", { ...where, key, prefix, limit: OFFERED }, signal),
    enabled: key !== null,
    staleTime: 15_000,
  });

/**
 * A trace, page by page, from its first span or from the page that holds the span `around`. Further
 * pages of a large trace are loaded when the user scrolls to them.
 */
export const useTrace = (id: string, around: string | null) =>
  useInfiniteQuery({
    queryKey: ["trace", id, around],
    queryFn: ({ signal, pageParam }) =>
      get<TracePage>(`traces/${encodeURIComponent(id)}`, { limit: PAGE, ...pageParam }, signal),
    initialPageParam: { around } as PageAsked,
    getNextPageParam: pageAfter,
    getPreviousPageParam: pageBefore,
    select: ({ pages }) => joined(pages),
    // The loaded part stays visible while another part is fetched.
    placeholderData: (before, query) => (query?.queryKey[1] === id ? before : undefined),
    staleTime: 60_000,
  });

export const useGraph = (start: string, end: string, live: boolean, enabled = true) =>
  useQuery({
    queryKey: ["graph", start, end],
    queryFn: ({ signal }) => get<Graph>("graph", { start, end }, signal),
    enabled,
    placeholderData: keepPreviousData,
    refetchInterval: live ? LIVE_MILLISECONDS : 15_000,
  });

/** The calls from and to a service, with what kernels saw of their network in each step. */
export const useNetwork = (service: string, on: Steps) =>
  useQuery({
    queryKey: ["graph", service, on],
    queryFn: ({ signal }) =>
      get<Graph>(
        "graph",
        { service, steps: on.count, start: `${on.from}000000000`, end: `${on.to}000000000` },
        signal,
      ),
    placeholderData: keepPreviousData,
    staleTime: 15_000,
  });

/** Causes. Without a start and an end, the unusual time is found. */
export const useCauses = (start: string | null, end: string | null, service: string | null) =>
  useQuery({
    queryKey: ["cause", start, end, service],
    queryFn: ({ signal }) =>
      get<Causes>(
        "cause",
        { start: start ?? undefined, end: end ?? undefined, service: service ?? undefined },
        signal,
      ),
    // Many spans are read for it: it is asked again only on demand.
    staleTime: 60_000,
  });

/** What happened for a key; nothing is asked without one. */
export const useJourney = (key: string, value: string, start: string, end: string) =>
  useQuery({
    queryKey: ["journey", key, value, start, end],
    queryFn: ({ signal }) => get<Journey>("journey", { key, value, start, end }, signal),
    enabled: key !== "" && value !== "",
    staleTime: 15_000,
  });

/** What a question about many traces is asked for. */
interface Asked {
  start: string;
  end: string;
}

/** Such questions read many spans: an answer is used again for a while. */
const READ_MILLISECONDS = 30_000;

function useRuns<T>(path: string, range: Asked, more: Parameters, enabled = true) {
  const parameters = { ...more, start: range.start, end: range.end };
  return useQuery({
    queryKey: ["runs", path, parameters],
    queryFn: ({ signal }) => get<T>(path, parameters, signal),
    enabled,
    placeholderData: keepPreviousData,
    staleTime: READ_MILLISECONDS,
  });
}

/** The most entries of a list that a page asks for. */
const MOST_LISTED = 500;

export const useChains = (range: Asked, service = "", entrance = "") =>
  useRuns<ChainList>("chains", range, { service, entrance });

export const useChain = (id: string, range: Asked) => useRuns<ChainPage>(`chains/${id}`, range, {});

export const useDependencies = (range: Asked, service: string) =>
  useRuns<Dependencies>("depends", range, { service, limit: MOST_LISTED });

export const useEntrances = (range: Asked) =>
  useRuns<Entrances>("entrances", range, { limit: MOST_LISTED });

/** Who calls a service, and whom it calls. Without a service, nothing is asked. */
export const useSources = (range: Asked, service: string, operation: string, depth: string) =>
  useRuns<Sources>(
    "sources",
    range,
    { service, operation, depth, limit: MOST_LISTED },
    service !== "",
  );

export const useBottlenecks = (range: Asked, entrance: string) =>
  useRuns<Bottlenecks>("bottlenecks", range, { entrance, limit: MOST_LISTED });

export const useCapacity = (range: Asked, scale: string[], forecast: string) =>
  useRuns<Capacity>("capacity", range, { scale, forecast, limit: MOST_LISTED });

/** The rules that the server watches. They are evaluated every few seconds. */
export const useWatch = () =>
  useQuery({
    queryKey: ["watch"],
    queryFn: ({ signal }) => get<Watch>("watch", {}, signal),
    refetchInterval: 5_000,
    placeholderData: keepPreviousData,
  });

export const useStatus = () =>
  useQuery({
    queryKey: ["status"],
    queryFn: ({ signal }) => get<Status>("status", {}, signal),
    refetchInterval: 5_000,
    placeholderData: keepPreviousData,
  });
