//! `GET /api/v1/status`

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Count;

/// How the server, its agents and its store are doing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Status {
    /// The agent of this process.
    pub agent: Agent,
    /// Whether something was lost, does not work, or needs a warning.
    pub attention: bool,
    /// Every counter that is not zero, the worst first. Those of several agents are added up.
    pub counters: Vec<Counter>,
    /// The receivers.
    pub ingest: Ingest,
    /// What this process uses.
    pub process: Process,
    /// The server's settings and its assembly.
    pub server: Server,
    /// The store.
    pub store: Store,
    /// The time since the start.
    pub uptime_seconds: f64,
    /// The server's version.
    pub version: String,
    /// What an operator should know now, and what to do about it.
    pub warnings: Vec<String>,
}

/// The agent of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Agent {
    /// It is attaching to the kernel.
    #[default]
    Starting,
    /// It runs.
    Running(AgentFacts),
    /// It should run, and cannot.
    Off {
        /// Why not.
        reason: String,
    },
    /// Agents are processes of their own.
    Remote {
        /// Those that sent something.
        agents: Vec<ReportingAgent>,
    },
}

/// What an agent reports about itself. Fields that it does not report are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentFacts {
    /// Its counters, by name.
    #[serde(default)]
    pub counters: BTreeMap<String, Count>,
    /// How much of what it traces it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What it traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Its hook in the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// Its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its plugins.
    #[serde(default)]
    pub plugins: Vec<Plugin>,
    /// The services of whose spans of the last minutes something is not known.
    #[serde(default)]
    pub unknown: Vec<ServiceUnknown>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How much is not known of the spans that a service made in the last one or two minutes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServiceUnknown {
    /// Its spans that do not say what was asked for.
    pub operations_unknown: Count,
    /// The service.
    pub service: String,
    /// Its spans.
    pub spans: Count,
    /// Its spans that do not say how they ended.
    pub statuses_unknown: Count,
}

/// A plugin of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Plugin {
    /// Calls that failed.
    pub failures: Count,
    /// Its file.
    pub file: String,
    /// The protocol that it reads.
    pub name: String,
    /// Whether the agent has stopped calling it, because it failed too often.
    pub switched_off: bool,
}

/// An agent that sent something to this server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ReportingAgent {
    /// The address that it last connected from.
    pub address: Option<String>,
    /// Batches that were accepted from it.
    pub batches: Count,
    /// Whether it is connected.
    pub connected: bool,
    /// What it last reported about itself.
    pub facts: Option<AgentFacts>,
    /// When it first connected.
    pub first_seen_unix_nano: Count,
    /// When it last sent something.
    pub last_seen_unix_nano: Count,
    /// The number of the last batch that was accepted.
    pub last_sequence: Count,
    /// Identifies this run of the agent.
    pub source: String,
    /// Spans that were accepted from it.
    pub spans: Count,
}

/// A counter that is not zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counter {
    /// What to do; empty for the level `info`.
    pub action: String,
    /// How bad it is.
    pub level: Level,
    /// What is counted.
    pub meaning: String,
    /// The counter's name.
    pub name: String,
    /// The part of Spanwise that counts.
    pub part: CounterPart,
    /// Its value.
    pub value: Count,
}

/// A part of Spanwise that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CounterPart {
    /// The agents.
    Agent,
    /// The receivers.
    Ingest,
    /// Assembly.
    Assembly,
    /// The store.
    Store,
}

impl CounterPart {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Ingest => "ingest",
            Self::Assembly => "assembly",
            Self::Store => "store",
        }
    }
}

/// How bad it is that a counter is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It is not bad.
    Info,
    /// Something was lost, or refused to a sender that may not send it again.
    Loss,
    /// Something does not work.
    Fault,
}

/// The receivers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Ingest {
    /// Agents that sent something, the last seen first.
    pub agents: Vec<ReportingAgent>,
    /// Open connections, at all ports.
    pub connections: Count,
    /// Counters since the start, by name.
    pub counters: BTreeMap<String, Count>,
    /// Open streams of agents.
    pub flight_streams: Count,
    /// Bytes of requests that are being read, decoded or stored.
    pub in_flight_bytes: Count,
    /// Bytes of dictionaries that the OTAP streams keep.
    pub otap_kept_bytes: Count,
    /// Open OTAP streams.
    pub otap_streams: Count,
}

/// What this process uses of the machine. What cannot be read is left out.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Process {
    /// CPU time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Open file descriptors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Resident memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<Count>,
    /// Threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
}

/// The server's settings and its assembly.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Server {
    /// Assembly.
    pub assembly: Assembly,
    /// The data directory.
    pub data: String,
    /// Where each receiver and the API listen, by the name of the setting; null where that
    /// is switched off.
    #[serde(flatten)]
    pub addresses: BTreeMap<String, Option<String>>,
}

/// Assembly of spans into traces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Assembly {
    /// How far the clocks of hosts differed in the last minutes.
    pub clocks: Vec<HostClock>,
    /// Counters since the start, by name.
    pub counters: BTreeMap<String, Count>,
    /// Spans whose traces are being assembled.
    pub rows_held: Count,
}

/// How far a host's clock is ahead of another's, computed from the calls between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostClock {
    /// The difference; negative if the host's clock is behind.
    pub ahead_nano: Count,
    /// Calls that were compared.
    pub exchanges: Count,
    /// The host.
    pub host: String,
    /// The host that it is compared with.
    pub reference: String,
    /// The most that the difference can be wrong by.
    pub uncertainty_nano: Count,
}

/// The store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Store {
    /// Counters since the start, each with its name.
    pub counters: Vec<(String, Count)>,
    /// Bytes of the immutable files.
    pub file_bytes: Count,
    /// Rows of the immutable files.
    pub file_rows: Count,
    /// Immutable files.
    pub files: Count,
    /// The implementation.
    pub kind: String,
    /// Files in object storage; left out if files are on this machine only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_storage: Option<ObjectStorage>,
    /// The start of the oldest row; 0 if there is none.
    pub oldest_unix_nano: Count,
    /// Memory of the rows that are not in files yet.
    pub recent_bytes: Count,
    /// Rows that are not in files yet.
    pub recent_rows: Count,
    /// Bytes of the write-ahead log.
    pub wal_bytes: Count,
    /// What an operator should know now, and what to do about it.
    pub warnings: Vec<String>,
}

/// Files in object storage. `files` and `file_bytes` of the store include them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ObjectStorage {
    /// Disk that the cache of remote files uses.
    pub cache_bytes: Count,
    /// Disk that it may use.
    pub cache_max_bytes: Count,
    /// Files that are not served until it is known which of their rows were deleted.
    pub hidden_files: Count,
    /// Files that are to be removed from object storage.
    pub leaving_files: Count,
    /// Bytes of the files in object storage.
    pub remote_bytes: Count,
    /// Files in object storage.
    pub remote_files: Count,
    /// The bucket and the prefix.
    pub url: String,
    /// Bytes of the files that are to be uploaded.
    pub waiting_bytes: Count,
    /// Files that are to be uploaded.
    pub waiting_files: Count,
}
