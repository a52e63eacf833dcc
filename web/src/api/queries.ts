import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { get } from "./client";
import { joined } from "./pages";
import type { Graph, OperationEntry, SearchAnswer, ServiceEntry, Status, Trace } from "./types";

const LIVE_MILLISECONDS = 2_000;

/** What a search asks for, as the API spells it. */
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
}

export const useServices = (live = false) =>
  useQuery({
    queryKey: ["services"],
    queryFn: ({ signal }) => get<{ services: ServiceEntry[] }>("services", {}, signal),
    refetchInterval: live ? LIVE_MILLISECONDS : 15_000,
  });

export const useOperations = (service: string) =>
  useQuery({
    queryKey: ["operations", service],
    queryFn: ({ signal }) =>
      get<{ operations: OperationEntry[] }>("operations", { service }, signal),
    enabled: service !== "",
    staleTime: 15_000,
  });

export const useSearch = (question: SearchQuestion, live: boolean) =>
  useQuery({
    queryKey: ["search", question],
    queryFn: ({ signal }) => get<SearchAnswer>("search", { ...question }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: live ? LIVE_MILLISECONDS : false,
  });

/** A trace, page by page: a large one is fetched as far as somebody wants it. */
export const useTrace = (id: string) =>
  useInfiniteQuery({
    queryKey: ["trace", id],
    queryFn: ({ signal, pageParam }) =>
      get<Trace>(`traces/${encodeURIComponent(id)}`, { ...pageParam }, signal),
    initialPageParam: null as { after: number; snapshot: string } | null,
    getNextPageParam: ({ next_after, snapshot }) =>
      next_after === null ? null : { after: next_after, snapshot },
    select: ({ pages }) => joined(pages),
    staleTime: 60_000,
  });

export const useGraph = (start: string, end: string, live: boolean) =>
  useQuery({
    queryKey: ["graph", start, end],
    queryFn: ({ signal }) => get<Graph>("graph", { start, end }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: live ? LIVE_MILLISECONDS : 15_000,
  });

export const useStatus = () =>
  useQuery({
    queryKey: ["status"],
    queryFn: ({ signal }) => get<Status>("status", {}, signal),
    refetchInterval: 5_000,
    placeholderData: keepPreviousData,
  });
