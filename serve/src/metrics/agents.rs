//! What agents report about themselves, labelled with host and run.

use serde_json::Value;

use super::family::{Families, Kind, metric_name};

/// Agents shown: those seen last. Each is a time series per counter.
const MOST_AGENTS: usize = 256;
/// Counters taken from one agent.
const MOST_COUNTERS: usize = 256;
/// Digits of a run's random name that tell runs on one host apart.
const RUN_DIGITS: usize = 8;

/// Adds the agents of the status document.
pub(super) fn put(families: &mut Families, agents: &Value) {
    for agent in agents.as_array().into_iter().flatten().take(MOST_AGENTS) {
        let host = agent["facts"]["host"].as_str().unwrap_or_default();
        let run = agent["source"].as_str().unwrap_or_default();
        let labels = [("host", host), ("run", run.get(..RUN_DIGITS).unwrap_or(run))];
        let connected = i32::from(agent["connected"] == true);
        let seen = agent["last_seen_unix_nano"].as_i64().map(|nano| nano as f64 / 1e9);
        for (name, kind, help, value) in [
            ("connected", Kind::Gauge, "Whether it has a stream open", &connected.into()),
            ("last_seen_timestamp_seconds", Kind::Gauge, "When it last sent", &seen.into()),
            ("spans", Kind::Counter, "Spans taken from it", &agent["spans"]),
            ("batches", Kind::Counter, "Batches taken from it", &agent["batches"]),
        ] {
            let name = format!("spanwise_ingest_agent_{name}");
            families.put(&name, kind, help, &labels, value);
        }
        let counters = agent["facts"]["counters"].as_object();
        for (name, count) in counters.into_iter().flatten().take(MOST_COUNTERS) {
            let help = format!("{}, as the agent counts", metric_name(name).replace('_', " "));
            let name = format!("spanwise_agent_{}", metric_name(name));
            families.put(&name, Kind::Counter, &help, &labels, count);
        }
    }
}
