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
  /** The `cursor` of the next page; null if there is none. */
  next_cursor: string | null;
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
  /** The `cursor` of the next page; null if there is none. */
  next_cursor: string | null;
  /** The values, the most frequent first. */
  values: AttributeValue[];
}

/** Where runs spend their time, and what they do too often. */
export interface Bottlenecks {
  /** Callers that make ten or more calls at a time, the most first. */
  fan_outs: FanOut[];
  /** What was read for the answer. */
  observed: ObservedRuns;
  /**
   * Five or more calls of one operation by one caller, one after another ("N+1"), the most
   * time first.
   */
  repeated: RepeatedCalls[];
  /** Calls that were made again because they failed, the most time first. */
  retried: RetriedCalls[];
  /**
   * Calls one after another that could run at the same time: proven ones first, then by the
   * time that it would save.
   */
  sequential: SequentialCalls[];
  /** Where time is spent, the most time of the critical path first. */
  shares: TimeShare[];
  /** What limits the answer. */
  warnings: string[];
}

/** A number of bytes, as a string of decimal digits. */
export type Bytes = string;

/** The load that changed rates of entrances would cause. */
export interface Capacity {
  /** The entrances with their rates, most runs first. */
  entrances: ScaledEntrance[];
  /** The moment that rates are forecast for; null if that was not asked for. */
  forecast_unix_nano: Nano | null;
  /** What was read for the answer. */
  observed: ObservedRuns;
  /** Operations; those that are furthest above their peaks first. */
  operations: PredictedLoad[];
  /** The length of the intervals of peaks. */
  peak_seconds: number;
  /** Services and databases, with all their operations; in the same order. */
  services: PredictedLoad[];
  /** How many operations there are; the list may be shorter. */
  total: number;
  /** What limits the answer. */
  warnings: string[];
}

/** Where a span was captured. */
export type Capture = "app" | "jvm" | "client-process" | "client-nic" | "server-nic" | "server-process";

/** A value of an attribute that separates bad spans from good ones. */
export interface CauseAttribute {
  /** The share, from 0 to 1, of bad spans that have it. */
  bad_share: number;
  /** The share, from 0 to 1, of good spans that have it. */
  good_share: number;
  /** The attribute. */
  key: string;
  /** The value. */
  value: string;
}

/** Something that began or ended. */
export interface CauseChange {
  /** The service that changed. */
  service: string;
  /** When it was first seen; null for what ended. */
  since_unix_nano: Nano | null;
  /** A sentence for people. */
  text: string;
}

/** Evidence against a suspect. */
export interface CauseEvidence {
  /** What it is of. */
  kind: CauseKind;
  /** A sentence for people. */
  text: string;
  /** The usual value. */
  usual: number;
  /** Milliseconds, calls for each run, or the share from 0 to 1 that failed or had retransmits. */
  value: number;
}

/** What evidence is of. */
export type CauseKind =
  /** Time that an operation itself took. */
  | "own_time"
  /** Time between a caller and the service that answers. */
  | "time_between"
  /** Calls for each run of an operation. */
  | "calls"
  /** Failures that no failed call explains. */
  | "errors"
  /** Calls between two services that had retransmits. */
  | "retransmits";

/** A service that is suspected. */
export interface CauseSuspect {
  /** Values of attributes that slow or failed spans have, and others do not. */
  attributes: CauseAttribute[];
  /** Traces that show it, the worst first. */
  bad_traces: CauseTrace[];
  /** About when it began; null if that is not known. */
  began_unix_nano: Nano | null;
  /** Services that call it. */
  callers: string[];
  /** What speaks against it, the strongest first. */
  evidence: CauseEvidence[];
  /** The operation that the strongest evidence is of; null if it is of no single one. */
  operation: string | null;
  /** The hosts, pods or processes where it is seen. */
  places: string[];
  /**
   * The share of what is unusual that it explains; more than 1 if it explains it in several
   * ways.
   */
  score: number;
  /** The service. */
  service: string;
  /** Whether it stands out. */
  stands_out: boolean;
  /** Traces of the usual ranges, to compare with. */
  usual_traces: CauseTrace[];
}

/** An example. */
export interface CauseTrace {
  /** What it shows, such as `210 ms`. */
  shows: string;
  /** The start of the span that shows it. */
  start_unix_nano: Nano;
  /** The trace's id. */
  trace_id: string;
}

/** Who is suspected of having made a range of time unlike the time before it. */
export interface Causes {
  /** What began or ended with the range: calls, versions, services. */
  changes: CauseChange[];
  /** Whether the range was found, because none was given. */
  found: boolean;
  /** The range that is explained. */
  range: Range;
  /** Spans of the range that were compared. */
  spans: number;
  /** Whether a suspect stands out. If none does, nothing is known to be wrong. */
  stands_out: boolean;
  /** The answer in one or two sentences. */
  summary: string;
  /** Suspects, the most suspected first. */
  suspects: CauseSuspect[];
  /** From the first to the last of the usual ranges; null if there are none. */
  usual_range: Range | null;
  /** How many usual ranges it was compared with. */
  usual_ranges: number;
  /** Spans of the usual ranges. */
  usual_spans: number;
  /** What limits the answer. */
  warnings: string[];
}

/** Calls of a chain by one path. */
export interface ChainCall {
  /** Calls in all runs. */
  calls: number;
  /** Whether the rest of the run depends on it. */
  chain_dependency: DependencyVerdict;
  /** CR: how often a run calls it. */
  cr: number;
  /** Whether its caller depends on it. */
  dependency: DependencyVerdict;
  /** DR: how often its caller calls it, for each call of that caller; 1 for the entrance. */
  dr: number;
  /** Calls that failed. */
  errors: number;
  /** 0 for the entrance. */
  level: number;
  /** LR: its share, from 0 to 1, of the chain's response time. */
  lr: number;
  /** The mean time of a call in which none of its own calls ran. */
  mean_self_nano: Nano;
  /** The called operation. */
  operation: string;
  /** The share, from 0 to 1, of runs with such a call. */
  present_share: number;
  /** The called service; the protocol of what was called and not captured. */
  service: string;
}

/** Chains: runs of one entrance with nearly the same calls. */
export interface ChainList {
  /** The chains, most runs first. */
  chains: ChainSummary[];
  /** What was read for the answer. */
  observed: ObservedRuns;
  /** How many chains there are; the list may be shorter. */
  total: number;
  /** What limits the answer. */
  warnings: string[];
}

/** A chain with its calls. */
export interface ChainPage {
  /** Its calls, in depth-first order, those with most calls first. */
  calls: ChainCall[];
  /** The chain. */
  chain: ChainSummary;
  /** What was read for the answer. */
  observed: ObservedRuns;
  /** How many different paths there are; the list of calls may be shorter. */
  total: number;
  /** What limits the answer. */
  warnings: string[];
}

/** A chain. */
export interface ChainSummary {
  /** The share, from 0 to 1, of runs whose entrance failed. */
  error_share: number;
  /** Runs whose entrance failed. */
  errors: number;
  /** The slowest failed run, as the id of its trace. */
  failed_trace: string | null;
  /** Start of the first run. */
  first_unix_nano: Nano;
  /** Its id: that of the shape with most runs. Any shape's id finds the chain. */
  id: string;
  /** Start of the last run. */
  last_unix_nano: Nano;
  /** The entrance's operation. */
  operation: string;
  /** The median duration of runs. */
  p50_nano: Nano;
  /** The 95th percentile of durations. */
  p95_nano: Nano;
  /** The 99th percentile of durations. */
  p99_nano: Nano;
  /** Different paths from the entrance to a call. */
  paths: number;
  /** Runs. */
  runs: number;
  /** Runs per second. */
  runs_per_second: number;
  /** The entrance's service. */
  service: string;
  /** Different services that are called, with the entrance's. */
  services: number;
  /** How many shapes are merged in it. */
  shapes: number;
  /** The share, from 0 to 1, of all runs. */
  share: number;
  /** The slowest run, as the id of its trace. */
  slow_trace: string;
  /** A run that did not fail and took about as long as the median, as the id of its trace. */
  typical_trace: string | null;
}

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

/** Which calls are strong and weak dependencies, over all chains. */
export interface Dependencies {
  /** The edges, most failures first. */
  edges: DependencyEdge[];
  /** What was read for the answer. */
  observed: ObservedRuns;
  /** How many edges there are; the list may be shorter. */
  total: number;
  /** What limits the answer. */
  warnings: string[];
}

/** How a caller depends on a call. */
export type Dependency =
  /** If it fails, nothing that would follow is called. */
  | "strong"
  /** If it fails, some or all of what would follow is called. */
  | "weak"
  /** There are too few failures, or they do not agree. */
  | "unknown";

/** Calls from one operation to another. */
export interface DependencyEdge {
  /** What is called. */
  called: OperationName;
  /** What calls it. */
  caller: OperationName;
  /** Calls. */
  calls: number;
  /** Whether the caller depends on it. */
  dependency: DependencyVerdict;
  /** Calls that failed. */
  errors: number;
}

/** Whether a caller depends on a call. */
export interface DependencyVerdict {
  /** How sure the verdict is, from 0.5 to 1; 0 if it is unknown. */
  confidence: number;
  /** Failures that were observed, without those that were retried. */
  failures: number;
  /** The share, from 0 to 1, of these failures after which nothing that would follow was called. */
  stopped_share: number;
  /** The verdict. */
  verdict: Dependency;
}

/** What kernels saw of the connections of calls. */
export interface EdgeNetwork {
  /** Calls whose connections a kernel saw. Of others nothing is known. */
  calls: number;
  /** The 95th percentile of the time that it took to open a connection, if any was opened. */
  connect_p95_nano?: Nano;
  /** Calls that opened their connections. */
  connects: number;
  /** The slowest calls of which something was sent again. Only with `service` and `steps`. */
  examples?: ResentCall[];
  /** Calls of which at least one segment was sent again, by either side. */
  resent_calls: number;
  /** Segments that were sent again. */
  retransmits: number;
  /** The median of the connections' smoothed round trips. */
  rtt_p50_nano?: Nano;
  /** The same over time. Only with `service` and `steps`. */
  steps?: NetworkStep[];
}

/** The first call of runs. */
export interface Entrance {
  /** Calls for each run, with that of the entrance. */
  calls_per_run: number;
  /** Chains that begin with it. */
  chains: number;
  /** The share, from 0 to 1, of runs that failed. */
  error_share: number;
  /** Runs that failed. */
  errors: number;
  /** The operation. */
  operation: string;
  /** The median duration of runs. */
  p50_nano: Nano;
  /** The 95th percentile of durations. */
  p95_nano: Nano;
  /** The 99th percentile of durations. */
  p99_nano: Nano;
  /** Runs. */
  runs: number;
  /** Runs per second. */
  runs_per_second: number;
  /** Runs per second in the period before. */
  runs_per_second_before: number;
  /** The service. */
  service: string;
  /**
   * The change of the rate against the period before: 0.5 is half as many more; null if there
   * was no run before.
   */
  trend: number | null;
}

/** Where load comes in. */
export interface Entrances {
  /** The entrances, most runs first. */
  entrances: Entrance[];
  /** What was read for the answer. */
  observed: ObservedRuns;
  /** What was read of the period before, which is as long. */
  observed_before: ObservedRuns;
  /** How many entrances there are; the list may be shorter. */
  total: number;
  /** What limits the answer. */
  warnings: string[];
}

/** A side of an exchange. */
export type ErrorSide =
  /** It made the request. */
  | "client"
  /** It answered the request. */
  | "server";

/** Why a span has its parent. */
export type Evidence = "tcp_sequence" | "thread" | "task" | "turn" | "sole_request" | "request_id" | "trace_header" | "span_context" | "current_span" | "enclosing" | "timing" | "ambiguous";

/** Many calls at a time by one caller. */
export interface FanOut {
  /** Who makes them. */
  caller: OperationName;
  /** How many of its calls did so. */
  callers: number;
  /** The entrance of the runs. */
  entrance: OperationName;
  /** A trace with the most. */
  example_trace: string;
  /** The most at a time. */
  most: number;
}

/** What a forecast is made from. */
export type ForecastMethod =
  /** The same hour of three or more former weeks. */
  | "former_weeks"
  /** The same hour of three or more former days. */
  | "former_days"
  /** The line through the last hours, up to a day of them. */
  | "trend"
  /** The last hour, because fewer than three are known: a guess. */
  | "as_now";

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
  /** What kernels saw of the connections; missing if no kernel saw any of them. */
  network?: EdgeNetwork;
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

/** What happened for one business key: a logical chain, over services and traces. */
export interface Journey {
  /** Time in which some step ran. */
  busy_nano: Nano;
  /** All spans from here on were read; the start of the range if none are missing. */
  covered_from_unix_nano: Nano;
  /** The end of the range that was asked for. */
  end_unix_nano: Nano;
  /** Long times without steps. */
  gaps: JourneyGap[];
  /** How the key went from one service to another without a call that is waited for. */
  hand_offs: JourneyHandOff[];
  /** Whether keys of this name are hashed. `value` is then the hash. */
  hashed: boolean;
  /** The key's name. */
  key: string;
  /** Names of keys that are configured, or that spans of this time have. */
  known_keys: string[];
  /** Spans with the key that were read. */
  spans: number;
  /** The start of the range that was asked for. */
  start_unix_nano: Nano;
  /** What services did for the key, by time. */
  steps: JourneyStep[];
  /** How many steps there are; the list may be shorter. */
  total_steps: number;
  /** How many traces there are; the list may be shorter. */
  total_traces: number;
  /** The traces, in the order in which they first have the key. */
  traces: JourneyTrace[];
  /** The value, as it is stored. */
  value: string;
  /** What limits the answer. */
  warnings: string[];
}

/** How a hand-off is known. */
export type JourneyEvidence =
  /** The two are linked: one received the message that the other sent, or says so itself. */
  | "link"
  /** It goes on with a message, within the same trace. */
  | "message"
  /** It goes on with a message. That the step before has sent it is a guess. */
  | "message_in_time"
  /** It only follows in time, which is a guess. */
  | "time";

/** A long time without steps. */
export interface JourneyGap {
  /** The place in `steps`, from 0, of the step after which it begins: the one that ended last. */
  after: number;
  /** The place of the step that ends it. */
  before: number;
  /** Its length. */
  duration_nano: Nano;
}

/** The key goes from one service to another. */
export interface JourneyHandOff {
  /** From the start of the one to the start of the other. */
  duration_nano: Nano;
  /** How it is known. */
  evidence: JourneyEvidence;
  /** The place in `steps`, from 0, of the step that came before. */
  from: number;
  /** The place of the step that goes on. */
  to: number;
}

/** What one service did for a key in one go. */
export interface JourneyStep {
  /**
   * 1, or more if steps before it of the same service and operation failed and this one does it
   * again.
   */
  attempt: number;
  /** The length of the first span. */
  duration_nano: Nano;
  /** The error of the first span. */
  error: string | null;
  /** Whether the first span failed. */
  failed: boolean;
  /** Whether it began with a message. */
  is_message: boolean;
  /** The operation of the first span. */
  operation: string;
  /** The service. */
  service: string;
  /** The first span. */
  span_id: string;
  /** Spans with the key. */
  spans: number;
  /** The start of the first span. */
  start_unix_nano: Nano;
  /** The protocol's own status code, such as that of HTTP. */
  status_code: number | null;
  /** The trace. */
  trace_id: string;
}

/** A trace with the key. */
export interface JourneyTrace {
  /** From its first start to its last end. */
  duration_nano: Nano;
  /** Spans that failed. */
  errors: number;
  /** The operation of its root; null if that is missing. */
  operation: string | null;
  /** The service of its root. */
  service: string | null;
  /** All services in it, busiest first. */
  services: string[];
  /** All spans, with the key or without. */
  spans: number;
  /** Its first start. */
  start_unix_nano: Nano;
  /** Steps in it. */
  steps: number;
  /** Its id. */
  trace_id: string;
}

/** How bad it is that a counter is not zero. */
export type Level =
  /** It is not bad. */
  | "info"
  /** Something was lost, or refused to a sender that may not send it again. */
  | "loss"
  /** Something does not work. */
  | "fault";

/** The part of a load that a chain causes. */
export interface LoadPart {
  /** The chain's id. */
  id: string;
  /** The entrance's operation. */
  operation: string;
  /** Calls per second with the changed rates. */
  predicted_per_second: number;
  /** The entrance's service. */
  service: string;
}

/** Nanoseconds, as a string of decimal digits. */
export type Nano = string;

/** What kernels saw of the connections of the calls that started in a step of time. */
export interface NetworkStep {
  /** Calls whose connections a kernel saw. */
  calls: number;
  /** The 95th percentile of the time that it took to open a connection, if any was opened. */
  connect_p95_nano?: Nano;
  /** Calls of which at least one segment was sent again. */
  resent_calls: number;
  /** Segments that were sent again. */
  retransmits: number;
  /** The median of the connections' smoothed round trips. */
  rtt_p50_nano?: Nano;
  /** When the step begins. */
  start_unix_nano: Nano;
}

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

/** The runs that an answer is about. */
export interface ObservedRuns {
  /**
   * The share, from 0 to 1, of these runs that were counted in rollups. The others were read
   * from spans.
   */
  covered_by_rollups: number;
  /** All runs from here on were read; the start of the range if none are missing. */
  covered_from_unix_nano: Nano;
  /** The end of the range that was asked for. */
  end_unix_nano: Nano;
  /** Runs that are counted. */
  runs: number;
  /** Runs that are not counted because their shapes are too rare and too many. */
  runs_folded: number;
  /**
   * Traces that are not counted because parents are missing or doubtful, or because they are
   * too deep or have too many different paths.
   */
  runs_left_out: number;
  /** Spans that were read. Runs in rollups need none. */
  spans: number;
  /**
   * The start of the range that was asked for. A long range that begins in a rollup begins with
   * that rollup.
   */
  start_unix_nano: Nano;
  /** The length of time that rates are computed over: from the first run on. */
  window_seconds: number;
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

/** An operation of a service. */
export interface OperationName {
  /** The operation. */
  operation: string;
  /** The service; the protocol of what was called and not captured. */
  service: string;
}

/** Operations of one service, or of all services. */
export interface Operations {
  /** The `cursor` of the next page; null if there is none. */
  next_cursor: string | null;
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

/** A predicted load. */
export interface PredictedLoad {
  /** How many calls are busy with work of their own at a time now, in the mean. */
  busy_now: number;
  /** The same with the changed rates, if calls take as long as now. */
  busy_predicted: number;
  /** The chains that cause most of it, ten at most. */
  chains: LoadPart[];
  /** Calls per second now. */
  now_per_second: number;
  /** The operation; null for a whole service. */
  operation: string | null;
  /** The highest rate that was observed. */
  peak_per_second: number;
  /** The start of the interval with that rate. */
  peak_unix_nano: Nano;
  /** Calls per second with the changed rates. */
  predicted_per_second: number;
  /** The service; the protocol of what was called and not captured. */
  service: string;
  /** The predicted rate as a part of the peak: above 1 nobody has seen such a load. */
  to_peak: number;
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

/** The forecast of a rate. */
export interface RateForecast {
  /** How sure it is, from 0 to 1: less from few hours, and from hours that differ. */
  confidence: number;
  /** What former rates were rarely above, scaled likewise. */
  high_per_second: number;
  /** Former hours that it is made from. */
  hours: number;
  /** What former rates were rarely below. */
  low_per_second: number;
  /** What it is made from. */
  method: ForecastMethod;
  /** Runs per second. */
  per_second: number;
}

/** An operation above or below another one. */
export interface Relation {
  /**
   * Of a caller: calls of the operation that it causes. Of a called one: its calls that the
   * operation causes.
   */
  calls: number;
  /** The same for each second. */
  calls_per_second: number;
  /** The least number of calls between them: 1 for a direct caller. */
  distance: number;
  /** The operation. */
  operation: string;
  /** The service. */
  service: string;
}

/** Many calls of one operation by one caller, one after another. */
export interface RepeatedCalls {
  /** The operation that is called again and again. */
  called: OperationName;
  /** The caller. */
  caller: OperationName;
  /** How many calls of the caller did so. */
  callers: number;
  /** Calls that they made. */
  calls: number;
  /** The entrance of the runs. */
  entrance: OperationName;
  /** A trace with the most. */
  example_trace: string;
  /** The most of one caller. */
  most: number;
  /** The share, from 0 to 1, of the time of its entrance's runs that these calls took. */
  share: number;
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

/** A call of which something was sent again. */
export interface ResentCall {
  /** How long it took. */
  duration_nano: Nano;
  /** Segments that were sent again. */
  retransmits: number;
  /** The calling span. `GET /traces/{id}` takes it, too. */
  span_id: string;
  /** When it started. */
  start_unix_nano: Nano;
}

/** Calls that were made again because they failed. */
export interface RetriedCalls {
  /** Failed calls that another attempt followed. */
  attempts: number;
  /** The operation that is called again. */
  called: OperationName;
  /** The caller. */
  caller: OperationName;
  /** All calls. */
  calls: number;
  /** The entrance of the runs. */
  entrance: OperationName;
  /** A trace with the most attempts. */
  example_trace: string;
  /** The most attempts of one call. */
  most: number;
  /** How often another attempt did not fail. */
  rescued: number;
  /** The share, from 0 to 1, of the time of its entrance's runs until the next attempts. */
  share: number;
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

/** The rate of an entrance, now and changed. */
export interface ScaledEntrance {
  /** By what the rate is multiplied. */
  factor: number;
  /** What is forecast for it, before changes; null if nothing is. */
  forecast: RateForecast | null;
  /** Runs per second now. */
  now_per_second: number;
  /** The operation. */
  operation: string;
  /** Runs per second that are assumed. */
  predicted_per_second: number;
  /** The service. */
  service: string;
}

/** Traces that were found. */
export interface SearchAnswer {
  /** Why nothing was found, and what to do. */
  advice: string[];
  /** The range that the order holds for. */
  covered: CoveredRange;
  /**
   * The `cursor` of the next page; null if there is none, and in other orders than
   * `newest`.
   */
  next_cursor: string | null;
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

/** What follows the traces of an answer in lines. */
export interface SearchEnd {
  /** Why nothing was found, and what to do. */
  advice: string[];
  /** The range that was searched for these traces. */
  covered: CoveredRange;
  /** The `cursor` with which the search continues; null if there are no more traces. */
  next_cursor: string | null;
  /** The traces before this line. */
  traces: number;
  /** What limits the answer. */
  warnings: string[];
}

/** A line of an answer in lines (`Accept: application/x-ndjson`). */
export type SearchLine =
  /** A trace that was found. */
  | {
    trace: TraceSummary;
  }
  /** What follows the traces. An answer without it was broken off. */
  | {
    end: SearchEnd;
  };

/** Two calls of one caller, one after another, which could run at the same time. */
export interface SequentialCalls {
  /** How often the later one was called although the earlier one had failed. */
  after_failure: number;
  /** The caller. */
  caller: OperationName;
  /** The entrance of the runs. */
  entrance: OperationName;
  /** The trace in which it would save most. */
  example_trace: string;
  /** The call that is the earlier one, more often. */
  first: OperationName;
  /**
   * Whether either order was seen, or calls after failures. Otherwise the second call may need
   * what the first one answers.
   */
  proven: boolean;
  /** How often they ran in the less frequent order. */
  reversed: number;
  /**
   * The share, from 0 to 1, of the time of its entrance's runs that running them at the same
   * time would save at most.
   */
  saved_share: number;
  /** The other call. */
  second: OperationName;
  /** How often one began after the end of the other. */
  times: number;
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
  /** The `cursor` of the next page; null if there is none. */
  next_cursor: string | null;
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

/** A chain that calls an operation. */
export interface SourceChain {
  /** Calls of the operation. */
  calls: number;
  /** How often a run calls it. */
  cr: number;
  /** The chain's id. */
  id: string;
  /** The entrance's operation. */
  operation: string;
  /** Runs of the chain. */
  runs: number;
  /** The entrance's service. */
  service: string;
  /** The share, from 0 to 1, of all calls of the operation. */
  share: number;
}

/** Where the calls of a service or operation come from, and where they lead to. */
export interface Sources {
  /** What it calls, at any distance, the nearest first. */
  called: Relation[];
  /** What calls it, at any distance, the nearest first. */
  callers: Relation[];
  /** Its calls. */
  calls: number;
  /** Its calls per second. */
  calls_per_second: number;
  /** The chains that call it, those with most of its calls first. */
  chains: SourceChain[];
  /** Its calls that failed. */
  errors: number;
  /** What was read for the answer. */
  observed: ObservedRuns;
  /** What limits the answer. */
  warnings: string[];
}

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

/** The time of an operation below a caller, in runs of an entrance. */
export interface TimeShare {
  /** The operation. */
  called: OperationName;
  /** Its caller; null for the entrance. */
  caller: OperationName | null;
  /** Calls. */
  calls: number;
  /**
   * The share, from 0 to 1, of the time of its entrance's runs that is this operation's own time
   * on the critical path.
   */
  critical_share: number;
  /** The entrance of the runs. */
  entrance: OperationName;
  /** The mean time of a call in which none of its own calls ran. */
  mean_self_nano: Nano;
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

/** The rules that the server watches, and how they are. */
export interface Watch {
  /** The time before the window, which edges and errors are compared with. */
  before_seconds: number;
  /**
   * Failures that were not counted for `new-error`, because there are too many kinds of them or
   * too many at a time.
   */
  errors_left_out: Count;
  /** The mean time that an evaluation took. */
  evaluation_milliseconds: number;
  /** Evaluations since the start. */
  evaluations: Count;
  /** How often rules are evaluated. */
  every_seconds: number;
  /** The rules, as they are configured. */
  rules: WatchRule[];
  /** What limits the answer. */
  warnings: string[];
  /** Where alerts are told; null if nowhere. */
  webhook: Webhook | null;
  /** The time that a rule is about, up to now. */
  window_seconds: number;
}

/** What breaks a rule. */
export interface WatchAlert {
  /** What the value must not be beyond, or what was expected. */
  bound: number;
  /** Since when. */
  since_unix_nano: Nano;
  /** The service, `CLIENT -> SERVER`, or the service and kind of error. */
  subject: string;
  /** A sentence for people. */
  text: string;
  /** Seconds, a share from 0 to 1, calls, or calls per second. */
  value: number;
}

/** A rule. */
export interface WatchRule {
  /** What breaks it now, the oldest first. */
  alerts: WatchAlert[];
  /** The rule, as it was written. */
  rule: string;
  /** Since when it is in this state. */
  since_unix_nano: Nano;
  /** How it is. */
  state: WatchState;
  /** Why it is not evaluated, or until when it learns; null otherwise. */
  why: string | null;
}

/** How a rule is. */
export type WatchState =
  /** It holds. */
  | "holds"
  /** It is broken. */
  | "broken"
  /** It compares with the time before, of which not enough is known yet. */
  | "learning"
  /** It cannot be evaluated. */
  | "unknown";

/** Where alerts are told. */
export interface Webhook {
  /** Alerts that were given up: too many waited, or it did not take them often enough. */
  dropped: Count;
  /** Requests that failed; each is tried again some times. */
  failures: Count;
  /** Why the last one failed; null if it did not. */
  last_error: string | null;
  /** Alerts that were told. */
  told: Count;
  /** Where, without password and query. */
  url: string;
  /** Alerts that wait. */
  waiting: Count;
}
