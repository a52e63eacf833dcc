/** Shapes of the native API, `/api/v1`. Nanoseconds are decimal strings: they pass 2^53. */

export type Nano = string;
export type Capture = "app" | "client-process" | "client-nic" | "server-nic" | "server-process";

export interface ServiceEntry {
  name: string;
  kinds: string[];
  spans: number;
  errors: number;
  last_seen_unix_nano: Nano;
}

export interface OperationEntry {
  name: string;
  kind: string;
  spans: number;
}

export interface ServiceShare {
  name: string;
  spans: number;
  errors: number;
  busy_nano: Nano;
}

export interface TraceSummary {
  trace_id: string;
  root: { service: string; operation: string; kind: string; capture: Capture };
  start_unix_nano: Nano;
  duration_nano: Nano;
  spans: number;
  errors: number;
  services: ServiceShare[];
  protocols: string[];
  status: "error" | "ok";
  uncertain_links: number;
  /** A link is so unsure that it is worth a warning. */
  doubtful: boolean;
  /** No span's parent is missing. */
  complete: boolean;
  /** The failure that is nearest to the cause. */
  error: TraceError | null;
}

export interface TraceError {
  service: string;
  operation: string;
  status_code: number | null;
  text: string | null;
  side: "client" | "server" | null;
}

export type Sort = "newest" | "slowest" | "errors" | "largest";

/** What an answer holds for; not `complete` where looking stopped early. */
export interface Covered {
  start_unix_nano: Nano;
  end_unix_nano: Nano;
  complete: boolean;
}

export interface SearchAnswer {
  traces: TraceSummary[];
  searched: { start_unix_nano: Nano; end_unix_nano: Nano };
  sort: Sort;
  covered: Covered;
  /** The `end` with which the search goes on; null where there are no older traces, or in another order. */
  older_end_unix_nano: Nano | null;
  warnings: string[];
  /** Why nothing was found, and what to do. */
  advice: string[];
}

export interface AttributeKey {
  key: string;
  on: "span" | "resource" | "label";
  spans: number;
}

export interface AttributeValue {
  value: string;
  spans: number;
}

export interface Attribute {
  key: string;
  type: "string" | "int" | "double" | "bool" | "bytes" | "json";
  value: unknown;
}

export interface SpanEvent {
  time_unix_nano: Nano;
  name: string;
  attributes?: Attribute[];
}

export interface SpanLink {
  trace_id: string;
  span_id: string;
  trace_state?: string;
  attributes?: Attribute[];
}

export interface Span {
  span_id: string;
  trace_id?: string;
  parent_span_id?: string;
  trace_state?: string;
  start_unix_nano: Nano;
  duration_nano: Nano;
  service: string;
  instance?: string;
  operation: string;
  kind: string;
  protocol?: string;
  status: "unset" | "ok" | "error" | "unknown";
  status_code?: number;
  error?: string;
  capture: Capture;
  fragment_id?: string | number;
  request_tcp_seq?: number;
  response_tcp_seq?: number;
  client_address?: string;
  client_port?: number;
  server_address?: string;
  server_port?: number;
  network_namespace?: number;
  x_request_id?: string;
  logical_key?: string;
  assembled_trace_id?: string;
  assembled_parent?: string;
  evidence?: string;
  confidence?: number;
  host?: string;
  process_id?: number;
  resource?: string | Record<string, unknown>;
  connect_nano?: Nano;
  rtt_nano?: Nano;
  retransmits?: number;
  zero_windows?: number;
  resets?: number;
  request_bytes?: number | string;
  response_bytes?: number | string;
  attributes?: Attribute[];
  events?: SpanEvent[];
  links?: SpanLink[];
  /** The parent that is in this tree; null for a root. */
  parent: string | null;
  depth: number;
  self_nano: Nano;
  children: string[];
}

/** How far a host's clock is ahead of another's, by the calls between them. */
export interface ClockDifference {
  host: string;
  reference: string;
  ahead_nano: Nano;
  uncertainty_nano: Nano;
  exchanges: number;
  /** Surely large enough to be seen in the trace. */
  notable: boolean;
}

export interface Trace {
  trace_id: string;
  start_unix_nano: Nano;
  duration_nano: Nano;
  roots: string[];
  spans: Span[];
  warnings: string[];
  services: ServiceShare[];
  clocks: ClockDifference[];
  /** Spans, failed spans and levels of the whole trace; `spans` and `roots` may be a page of it. */
  span_count: number;
  error_count: number;
  depth: number;
  /** How many spans come before this page, in the order of the whole tree. */
  first: number;
  /** Where the next page begins; null after the last. */
  next_after: number | null;
  /** Names what the page is of; given with the next page's `after`. */
  snapshot: string;
}

export interface GraphNode {
  name: string;
  kind: "service" | "database" | "cache" | "broker" | "external";
  /** What it is a database, cache or broker of: `mysql`, `kafka`. */
  system: string | null;
  protocols: string[];
  requests: number;
  errors: number;
  p50_nano: Nano;
  p95_nano: Nano;
}

export interface GraphEdge {
  client: string;
  server: string;
  protocol: string;
  requests: number;
  errors: number;
  requests_per_second: number;
  error_share: number;
  p50_nano: Nano;
  p95_nano: Nano;
  p99_nano: Nano;
  certain_share: number;
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  window_seconds: number;
  warnings?: string[];
}

/** An agent that sent something to this server. */
export interface SeenAgent {
  source: string;
  address?: string | null;
  connected: boolean;
  last_seen_unix_nano: number;
  spans: number;
  facts?: { host?: string; hook?: unknown; counters?: Record<string, number> } | null;
}

/** As {@link ClockDifference}, of the last minutes. */
export interface HostClock {
  host: string;
  reference: string;
  ahead_nano: number;
  uncertainty_nano: number;
  exchanges: number;
}

/** What was counted, what it means, and what to do about it. */
export interface Counter {
  /** Who counts: `agent`, `ingest`, `assembly`, `store`. */
  part: string;
  name: string;
  value: number;
  level: "info" | "loss" | "fault";
  meaning: string;
  action: string;
}

export interface Status {
  version: string;
  uptime_seconds: number;
  server?: { assembly?: { clocks?: HostClock[]; [key: string]: unknown }; [key: string]: unknown };
  agent: {
    state: "running" | "starting" | "off" | "remote";
    reason?: string | null;
    hook?: unknown;
    counters?: Record<string, number>;
    [key: string]: unknown;
  };
  store?: Record<string, unknown>;
  ingest?: { counters?: Record<string, number>; agents?: SeenAgent[]; [key: string]: unknown };
  warnings: string[];
  /** Every counter that is not zero, those of all agents summed up. */
  counters: Counter[];
  /** Something was lost, or is broken. */
  attention: boolean;
}
