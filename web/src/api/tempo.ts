/** The queries that the UI asks in TraceQL, through Tempo's API. */
import { ApiError, queryString } from "./client";
import type { Parameters } from "./client";

interface TempoValue {
  stringValue?: string;
  intValue?: string | number;
  doubleValue?: number;
  boolValue?: boolean;
}

export interface TempoLabel {
  key: string;
  value: TempoValue;
}

export interface TempoSeries {
  labels?: TempoLabel[];
  samples?: { timestampMs?: string; value?: number }[];
  /** The one value of an instant query. */
  value?: number;
  exemplars?: { labels?: TempoLabel[]; value?: number; timestampMs?: string }[];
}

export interface TempoMetrics {
  series?: TempoSeries[];
  status?: string;
  message?: string;
}

/** A span that a search selected, with the attributes that the query asks for. */
export interface TempoSpan {
  spanID: string;
  name?: string;
  startTimeUnixNano?: string;
  durationNanos?: string;
  attributes?: TempoLabel[];
}

export interface TempoTrace {
  traceID: string;
  rootServiceName?: string;
  rootTraceName?: string;
  startTimeUnixNano?: string;
  durationMs?: number;
  spanSets?: { spans?: TempoSpan[]; matched?: number }[];
  serviceStats?: Record<string, { spanCount?: number; errorCount?: number }>;
}

export interface TempoSearch {
  traces?: TempoTrace[];
  metrics?: { completedJobs?: number; totalJobs?: number };
}

export interface TempoTags {
  scopes?: { name: string; tags?: string[] }[];
}

export interface TempoValues {
  tagValues?: { type: string; value: string }[];
}

export function valueText(value: TempoValue | undefined): string {
  if (value === undefined) return "";
  const one = value.stringValue ?? value.intValue ?? value.doubleValue ?? value.boolValue;
  return one === undefined ? "" : String(one);
}

/** The value of a label, or empty text. */
export function label(labels: readonly TempoLabel[] | undefined, key: string): string {
  return valueText(labels?.find((one) => one.key === key)?.value);
}

/** What the answer's header says about its limits. */
export interface Answered<T> {
  body: T;
  warning: string | null;
}

/** Asks Tempo's API. Its errors are plain text: for a query, they name line and column. */
export async function tempo<T>(
  path: string,
  parameters: Parameters,
  signal?: AbortSignal,
): Promise<Answered<T>> {
  let response: Response;
  try {
    response = await fetch(`/tempo/api/${path}${queryString(parameters)}`, {
      signal: signal ?? null,
      headers: { accept: "application/json", "spanwise-request": "ui" },
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError(
      0,
      "The server does not answer",
      "No connection to the Spanwise server. Is it still running?",
    );
  }
  const text = await response.text();
  if (!response.ok) {
    const title = response.status === 400 ? "Query not understood" : `HTTP ${response.status}`;
    throw new ApiError(response.status, title, text.trim() || response.statusText);
  }
  let body: T;
  try {
    body = JSON.parse(text) as T;
  } catch {
    throw new ApiError(
      response.status,
      "Not an answer of Spanwise",
      `/tempo/api/${path} returned no JSON. Is another program listening on this port?`,
    );
  }
  return { body, warning: response.headers.get("spanwise-warning") };
}
