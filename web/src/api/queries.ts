import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { get } from "./client";
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

export const useTrace = (id: string) =>
  useQuery({
    queryKey: ["trace", id],
    queryFn: ({ signal }) => get<Trace>(`traces/${encodeURIComponent(id)}`, {}, signal),
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
