/**
 * Types of the API under `/api/v1`, generated from the Rust types in `api/`. Do not edit: run
 * `UPDATE_API=1 cargo test --release -p spanwise-api`.
 */

/** The agent of this process. */
export type Agent =
  /** It is attaching to the kernel. */
  | {
    state: "starting";
  }
  /** It runs. */
  | AgentFacts & {
    state: "running";
  }
  /** It should run, and cannot. */
  | {
    /** Why not. */
    reason: string;
    state: "off";
  }
  /** Agents are processes of their own. */
  | {
    /** Those that sent something. */
    agents: ReportingAgent[];
    state: "remote";
  };

/** What an agent reports about itself. Fields that it does not report are left out. */
export interface AgentFacts {
  /** Its counters, by name. */
  counters: Record<string, Count>;
  /** How much of what it traces it reports. */
  detail?: string;
  /** What it traces. */
  filter?: string;
  /** Its hook in the kernel. */
  hook?: string;
  /** Its host. */
  host?: string;
  /** Its plugins. */
  plugins: Plugin[];
  /** The services of whose spans of the last minutes something is not known. */
  unknown: ServiceUnknown[];
  /** Its version. */
  version?: string;
}

/** Assembly of spans into traces. */
export interface Assembly {
  /** How far the clocks of hosts differed in the last minutes. */
  clocks: HostClock[];
  /** Counters since the start, by name. */
  counters: Record<string, Count>;
  /** Spans whose traces are being assembled. */
  rows_held: Count;
}

/** An attribute. */
export interface Attribute {
  /** Its key. */
  key: string;
  /** The type of its value. */
  type: AttributeType;
  /** Its value. Integers beyond 2^53, and doubles that are not finite, are strings. */
  value: unknown;
}

/** A key. */
export interface AttributeKey {
  /** The key. */
  key: string;
  /** What has the attribute. */
  on: AttributePlace;
  /** Spans that have it. */
  spans: number;
}

/** The keys of attributes that the newest spans have. */
export interface AttributeKeys {
  /** The range of time whose spans were counted. */
  covered: CoveredRange;
  /** The keys, the most frequent first. */
  keys: AttributeKey[];
}

/** What has an attribute. */
export type AttributePlace =
  /** The span itself. */
  | "span"
  /** Its resource. */
  | "resource"
  /** Its process, as a label that the agent reports. */
  | "label";

/** The type of an attribute's value. */
export type AttributeType =
  /** Text. */
  | "string"
  /** An integer of 64 bits. */
  | "int"
  /** A floating-point number of 64 bits. */
  | "double"
  /** True or false. */
  | "bool"
  /** Bytes, in base64. */
  | "bytes"
  /** An array or an object. */
  | "json";

/** A value. */
export interface AttributeValue {
  /** Spans that have it. */
  spans: number;
  /** The value as text. */
  value: string;
}

/** The values of an attribute that the newest spans have. */
export interface AttributeValues {
  /** The range of time whose spans were counted. */
  covered: CoveredRange;
  /** The values, the most frequent first. */
  values: AttributeValue[];
}

/** A number of bytes, as a string of decimal digits. */
export type Bytes = string;

/** Where a span was captured. */
export type Capture = "app" | "client-process" | "client-nic" | "server-nic" | "server-process";

/** How far a host's clock is ahead of another's, computed from the calls between them. */
export interface ClockDifference {
  /** The difference; negative if the host's clock is behind. */
  ahead_nano: Nano;
  /** Calls that were compared. */
  exchanges: number;
  /** The host. */
  host: string;
  /** Whether the difference is large enough to show in the trace. */
  notable: boolean;
  /** The host that it is compared with. */
  reference: string;
  /** The most that the difference can be wrong by. */
  uncertainty_nano: Nano;
}

/** An integer: a number, or beyond 2^53 a string of decimal digits. */
export type Count = number | string;

/** A counter that is not zero. */
export interface Counter {
  /** What to do; empty for the level `info`. */
  action: string;
  /** How bad it is. */
  level: Level;
  /** What is counted. */
  meaning: string;
  /** The counter's name. */
  name: string;
  /** The part of Spanwise that counts. */
  part: CounterPart;
  /** Its value. */
  value: Count;
}

/** A part of Spanwise that counts. */
export type CounterPart =
  /** The agents. */
  | "agent"
  /** The receivers. */
  | "ingest"
  /** Assembly. */
  | "assembly"
  /** The store. */
  | "store";

/** The range that an answer holds for. */
export interface CoveredRange {
  /**
   * Whether everything in this range was examined. It is false where the search reached
   * one of its limits.
   */
  complete: boolean;
  /** The end. */
  end_unix_nano: Nano;
  /** The start. */
  start_unix_nano: Nano;
}

/** What was deleted. */
export interface Deletion {
  /** Spans that were stored and are deleted. */
  deleted_spans: number;
}

/** A side of an exchange. */
export type ErrorSide =
  /** It made the request. */
  | "client"
  /** It answered the request. */
  | "server";

/** Why a span has its parent. */
export type Evidence = "tcp_sequence" | "thread" | "task" | "turn" | "sole_request" | "request_id" | "trace_header" | "span_context" | "enclosing" | "timing" | "ambiguous";

/** The service graph. */
export interface Graph {
  /** Who calls whom. */
  edges: GraphEdge[];
  /** Services, databases, brokers and what else is called. */
  nodes: GraphNode[];
  /** What limits the answer. */
  warnings: string[];
  /** The length of time that rates are computed over. */
  window_seconds: number;
}

/**
 * Calls from one node to another by one protocol. Messages go from the producer to the
 * broker, and from the broker to the consumer.
 */
export interface GraphEdge {
  /** The share, from 0 to 1, of calls whose link to the other side is certain. */
  certain_share: number;
  /** The calling node. */
  client: string;
  /** The share, from 0 to 1, of calls that failed. */
  error_share: number;
  /** Calls that failed. */
  errors: number;
  /** The median duration. */
  p50_nano: Nano;
  /** The 95th percentile of durations. */
  p95_nano: Nano;
  /** The 99th percentile of durations. */
  p99_nano: Nano;
  /** The protocol; empty if it is unknown. */
  protocol: string;
  /** Calls. */
  requests: number;
  /** Calls per second. */
  requests_per_second: number;
  /** The called node. */
  server: string;
}

/** Something that calls or is called. */
export interface GraphNode {
  /** Requests that failed. */
  errors: number;
  /** What it is. */
  kind: NodeKind;
  /** The service's name; `PROTOCOL ADDRESS:PORT` for a node that was not captured itself. */
  name: string;
  /** The median duration of requests. */
  p50_nano: Nano;
  /** The 95th percentile of durations. */
  p95_nano: Nano;
  /** Protocols by which it was called. */
  protocols: string[];
  /** Requests that it received. */
  requests: number;
  /** OpenTelemetry's name of a database, cache or broker: `mysql`, `kafka`. */
  system: string | null;
}

/** How far a host's clock is ahead of another's, computed from the calls between them. */
export interface HostClock {
  /** The difference; negative if the host's clock is behind. */
  ahead_nano: Count;
  /** Calls that were compared. */
  exchanges: Count;
  /** The host. */
  host: string;
  /** The host that it is compared with. */
  reference: string;
  /** The most that the difference can be wrong by. */
  uncertainty_nano: Count;
}

/** The receivers. */
export interface Ingest {
  /** Agents that sent something, the last seen first. */
  agents: ReportingAgent[];
  /** Open connections, at all ports. */
  connections: Count;
  /** Counters since the start, by name. */
  counters: Record<string, Count>;
  /** Open streams of agents. */
  flight_streams: Count;
  /** Bytes of requests that are being read, decoded or stored. */
  in_flight_bytes: Count;
  /** Bytes of dictionaries that the OTAP streams keep. */
  otap_kept_bytes: Count;
  /** Open OTAP streams. */
  otap_streams: Count;
}

/** How bad it is that a counter is not zero. */
export type Level =
  /** It is not bad. */
  | "info"
  /** Something was lost, or refused to a sender that may not send it again. */
  | "loss"
  /** Something does not work. */
  | "fault";

/** Nanoseconds, as a string of decimal digits. */
export type Nano = string;

/** What a node of the graph is. */
export type NodeKind =
  /** A program that serves requests. */
  | "service"
  /** A database. */
  | "database"
  /** A cache. */
  | "cache"
  /** A message broker. */
  | "broker"
  /** Anything else that was called and not captured. */
  | "external";

/** Files in object storage. `files` and `file_bytes` of the store include them. */
export interface ObjectStorage {
  /** Disk that the cache of remote files uses. */
  cache_bytes: Count;
  /** Disk that it may use. */
  cache_max_bytes: Count;
  /** Files that are not served until it is known which of their rows were deleted. */
  hidden_files: Count;
  /** Files that are to be removed from object storage. */
  leaving_files: Count;
  /** Bytes of the files in object storage. */
  remote_bytes: Count;
  /** Files in object storage. */
  remote_files: Count;
  /** The bucket and the prefix. */
  url: string;
  /** Bytes of the files that are to be uploaded. */
  waiting_bytes: Count;
  /** Files that are to be uploaded. */
  waiting_files: Count;
}

/** An operation. */
export interface Operation {
  /** The kind of its spans. */
  kind: SpanKind;
  /** The spans' name. */
  name: string;
  /** Its spans. */
  spans: number;
}

/** Operations of one service, or of all services. */
export interface Operations {
  /** The operations, those with most spans first. */
  operations: Operation[];
}

/** Whether a span of a trace failed. */
export type Outcome =
  /** No span failed. */
  | "ok"
  /** A span failed. */
  | "error";

/** A plugin of an agent. */
export interface Plugin {
  /** Calls that failed. */
  failures: Count;
  /** Its file. */
  file: string;
  /** The protocol that it reads. */
  name: string;
  /** Whether the agent has stopped calling it, because it failed too often. */
  switched_off: boolean;
}

/** The body of every answer that is an error (RFC 9457). */
export interface Problem {
  /** What is wrong, and what to do about it. */
  detail: string;
  /** The HTTP status. */
  status: number;
  /** What is wrong, in a few words. */
  title: string;
  /** Always `about:blank`. */
  type: string;
}

/** What this process uses of the machine. What cannot be read is left out. */
export interface Process {
  /** CPU time. */
  cpu_seconds?: number;
  /** Open file descriptors. */
  open_files?: number;
  /** Resident memory. */
  resident_bytes?: Count;
  /** Threads. */
  threads?: number;
}

/** Start times from `start_unix_nano` up to, not including, `end_unix_nano`. */
export interface Range {
  /** The end. */
  end_unix_nano: Nano;
  /** The start. */
  start_unix_nano: Nano;
}

/** An agent that sent something to this server. */
export interface ReportingAgent {
  /** The address that it last connected from. */
  address: string | null;
  /** Batches that were accepted from it. */
  batches: Count;
  /** Whether it is connected. */
  connected: boolean;
  /** What it last reported about itself. */
  facts: AgentFacts | null;
  /** When it first connected. */
  first_seen_unix_nano: Count;
  /** When it last sent something. */
  last_seen_unix_nano: Count;
  /** The number of the last batch that was accepted. */
  last_sequence: Count;
  /** Identifies this run of the agent. */
  source: string;
  /** Spans that were accepted from it. */
  spans: Count;
}

/** The root of a trace. */
export interface RootSpan {
  /** Where it was captured. */
  capture: Capture;
  /** Its kind. */
  kind: SpanKind;
  /** Its name. */
  operation: string;
  /** Its service. */
  service: string;
}

/** Traces that were found. */
export interface SearchAnswer {
  /** Why nothing was found, and what to do. */
  advice: string[];
  /** The range that the order holds for. */
  covered: CoveredRange;
  /**
   * The `end` with which the search for older traces continues; null if there are none,
   * and in other orders than `newest`.
   */
  older_end_unix_nano: Nano | null;
  /** The range that was searched. */
  searched: Range;
  /** The order of the traces. */
  sort: Sort;
  /** The traces. */
  traces: TraceSummary[];
  /** What limits the answer. */
  warnings: string[];
}

/** The server's settings and its assembly. */
export interface Server {
  /** Assembly. */
  assembly: Assembly;
  /** The data directory. */
  data: string;
  [name: string]: unknown;
}

/** A service. */
export interface Service {
  /** Its spans that failed. */
  errors: number;
  /** Where its spans were captured. */
  kinds: Capture[];
  /** The latest start of its spans. */
  last_seen_unix_nano: Nano;
  /** The service's name. */
  name: string;
  /** Its spans. */
  spans: number;
}

/** The part of a service in a trace. */
export interface ServiceShare {
  /** The time of its spans that no child of them covers. */
  busy_nano: Nano;
  /** Its spans that failed. */
  errors: number;
  /** The service. */
  name: string;
  /** Its spans. */
  spans: number;
}

/** How much is not known of the spans that a service made in the last one or two minutes. */
export interface ServiceUnknown {
  /** Its spans that do not say what was asked for. */
  operations_unknown: Count;
  /** The service. */
  service: string;
  /** Its spans. */
  spans: Count;
  /** Its spans that do not say how they ended. */
  statuses_unknown: Count;
}

/** All services with stored spans. */
export interface Services {
  /** The services, by name. */
  services: Service[];
}

/** An order of traces. */
export type Sort =
  /** The latest start first. */
  | "newest"
  /** The longest duration first. */
  | "slowest"
  /** Most failed spans first. */
  | "errors"
  /** Most spans first. */
  | "largest";

/** A span of a trace. Fields without a value are left out. */
export interface Span {
  /** The id of its parent in that trace. */
  assembled_parent?: string;
  /** The id of the trace that it was assembled into. */
  assembled_trace_id?: string;
  /** The attributes. */
  attributes?: Attribute[];
  /** Where the span was captured. */
  capture: Capture;
  /** The ids of its children. */
  children: string[];
  /** The address that opened the connection. */
  client_address?: string;
  /** Its port. */
  client_port?: number;
  /** How sure that is, from 0 to 1. A link of 0.999 or more is certain. */
  confidence?: number;
  /** The time that the connection took to open, on the span that opened it. */
  connect_nano?: Nano;
  /** Its level in the tree; 0 for a root. */
  depth: number;
  /** The duration. */
  duration_nano: Nano;
  /** The error's text. */
  error?: string;
  /** The events. */
  events?: SpanEvent[];
  /** Why it has this parent. */
  evidence?: Evidence;
  /** Identifies what one process did for one request. */
  fragment_id?: string;
  /** The host. */
  host?: string;
  /** The instance of the service. */
  instance?: string;
  /** The role of the span in its exchange. */
  kind: SpanKind;
  /** The links to other spans. */
  links?: SpanLink[];
  /** A business key that chains requests. */
  logical_key?: string;
  /** The inode number of the network namespace. */
  network_namespace?: number;
  /** The span's name. */
  operation: string;
  /** The id of its parent in the tree; null for a root. */
  parent: string | null;
  /** The parent that a header or an SDK named. */
  parent_span_id?: string;
  /** The process. */
  process_id?: number;
  /** The protocol. */
  protocol?: string;
  /** Bytes of the request on the connection. */
  request_bytes?: Bytes;
  /** The TCP sequence number of the request's first byte. */
  request_tcp_seq?: number;
  /** Connection resets. */
  resets?: number;
  /** The resource attributes. */
  resource?: Record<string, unknown>;
  /** Bytes of the response on the connection. */
  response_bytes?: Bytes;
  /** The TCP sequence number of the response's first byte. */
  response_tcp_seq?: number;
  /** Segments that were retransmitted. */
  retransmits?: number;
  /** The smoothed round-trip time when the response arrived. */
  rtt_nano?: Nano;
  /** The time that no child covers. */
  self_nano: Nano;
  /** The address that accepted the connection. */
  server_address?: string;
  /** Its port. */
  server_port?: number;
  /** The service. */
  service: string;
  /** The span's id. */
  span_id: string;
  /** The start. */
  start_unix_nano: Nano;
  /** How the operation ended. */
  status: SpanStatus;
  /** The protocol's status code. */
  status_code?: number;
  /** The trace id that a header or an SDK carried. */
  trace_id?: string;
  /** The W3C `tracestate`. */
  trace_state?: string;
  /** The `X-Request-ID` header. */
  x_request_id?: string;
  /** How often the peer's window closed. */
  zero_windows?: number;
}

/** An event of a span. */
export interface SpanEvent {
  /** Its attributes. */
  attributes: Attribute[];
  /** Its name. */
  name: string;
  /** When it happened. */
  time_unix_nano: Nano;
}

/** The role of a span in its exchange. */
export type SpanKind = "internal" | "server" | "client" | "producer" | "consumer";

/** A link to another span. */
export interface SpanLink {
  /** The link's attributes. */
  attributes: Attribute[];
  /** The span. */
  span_id: string;
  /** The trace of that span. */
  trace_id: string;
  /** The W3C `tracestate` of that span. */
  trace_state: string | null;
}

/** How the operation of a span ended. */
export type SpanStatus =
  /** Nobody said. */
  | "unset"
  /** Said to be right. */
  | "ok"
  /** Failed. */
  | "error"
  /** The agent did not see how it ended (attribute `spanwise.status`). */
  | "unknown";

/** The rows that a statement gave. */
export interface SqlAnswer {
  /** The columns. */
  columns: SqlColumn[];
  /** How long the statement ran. */
  elapsed_seconds: number;
  /** The rows, each with a value for every column. Integers beyond 2^53 are strings. */
  rows: unknown[][];
  /** Whether there are more rows than these. */
  truncated: boolean;
}

/** A column. */
export interface SqlColumn {
  /** Its name. */
  name: string;
  /** Its type, as Arrow names it. */
  type: string;
}

/** A statement, as it is posted. */
export interface SqlStatement {
  /** `json`, `csv`, `arrow` or `table`. Without it, the `Accept` header decides. */
  format?: string;
  /** One read-only statement over the table `spans`. */
  query: string;
}

/** How the server, its agents and its store are doing. */
export interface Status {
  /** The agent of this process. */
  agent: Agent;
  /** Whether something was lost, does not work, or needs a warning. */
  attention: boolean;
  /** Every counter that is not zero, the worst first. Those of several agents are added up. */
  counters: Counter[];
  /** The receivers. */
  ingest: Ingest;
  /** What this process uses. */
  process: Process;
  /** The server's settings and its assembly. */
  server: Server;
  /** The store. */
  store: Store;
  /** The time since the start. */
  uptime_seconds: number;
  /** The server's version. */
  version: string;
  /** What an operator should know now, and what to do about it. */
  warnings: string[];
}

/** The store. */
export interface Store {
  /** Counters since the start, each with its name. */
  counters: ([string, Count])[];
  /** Bytes of the immutable files. */
  file_bytes: Count;
  /** Rows of the immutable files. */
  file_rows: Count;
  /** Immutable files. */
  files: Count;
  /** The implementation. */
  kind: string;
  /** Files in object storage; left out if files are on this machine only. */
  object_storage?: ObjectStorage;
  /** The start of the oldest row; 0 if there is none. */
  oldest_unix_nano: Count;
  /** Memory of the rows that are not in files yet. */
  recent_bytes: Count;
  /** Rows that are not in files yet. */
  recent_rows: Count;
  /** Bytes of the write-ahead log. */
  wal_bytes: Count;
  /** What an operator should know now, and what to do about it. */
  warnings: string[];
}

/** The deepest failed span of a trace. */
export interface TraceError {
  /** The span's name. */
  operation: string;
  /**
   * The service of the span. For an answer that only the caller treats as a failure, such
   * as HTTP's 404, it is the service that gave the answer.
   */
  service: string;
  /** The side of the exchange that the span is on. */
  side: ErrorSide | null;
  /** The protocol's status code. */
  status_code: number | null;
  /** The error's text. */
  text: string | null;
}

/** A page of a trace. */
export interface TracePage {
  /** How far the clocks of the trace's hosts differ. */
  clocks: ClockDifference[];
  /** Whether the parent of every span is present. */
  complete: boolean;
  /** Levels of the whole trace. */
  depth: number;
  /** From the earliest start to the latest end. */
  duration_nano: Nano;
  /** Failed spans of the whole trace. */
  error_count: number;
  /** The position of the page's first span in the depth-first order. */
  first: number;
  /** The `after` of the next page; null on the last page. */
  next_after: number | null;
  /** Ids of the spans of this page that have no parent. */
  roots: string[];
  /** Services of the whole trace, the busiest first. */
  services: ServiceShare[];
  /** Identifies the spans that the page is of; to be sent with the next page's `after`. */
  snapshot: string;
  /** Spans of the whole trace. */
  span_count: number;
  /** The spans of the page, in depth-first order. */
  spans: Span[];
  /** The earliest start. */
  start_unix_nano: Nano;
  /** The trace's id. */
  trace_id: string;
  /** What is wrong with the trace, or limits the answer. */
  warnings: string[];
}

/** A trace of a list. */
export interface TraceSummary {
  /** Whether the parent of every span is present. */
  complete: boolean;
  /**
   * Whether a link is unsure enough for a warning: its confidence is below 0.8, or a
   * span could belong to several requests.
   */
  doubtful: boolean;
  /** From the earliest start to the latest end. */
  duration_nano: Nano;
  /** The failure that is nearest to the cause; null if nothing failed. */
  error: TraceError | null;
  /** Spans that failed. */
  errors: number;
  /** Protocols, by name. */
  protocols: string[];
  /** The first root. */
  root: RootSpan | null;
  /** Services, the busiest first. */
  services: ServiceShare[];
  /** Its spans. */
  spans: number;
  /** The earliest start. */
  start_unix_nano: Nano;
  /** Whether a span failed. */
  status: Outcome;
  /** The trace's id. */
  trace_id: string;
  /** Links that are not certain. */
  uncertain_links: number;
}
