//! What agents report about themselves, labelled with host and run.

use spanwise_api::ReportingAgent;

use super::family::{Families, Kind, Sample, metric_name};
use super::seconds;

/// Maximum agents, the most recently active ones. Each has a time series for each counter.
const MOST_AGENTS: usize = 256;
/// Maximum counters of one agent.
const MOST_COUNTERS: usize = 256;
/// Digits of a run's random name that distinguish runs on one host.
const RUN_DIGITS: usize = 8;

/// Adds the agents that report to this server.
pub(super) fn put(families: &mut Families, agents: &[ReportingAgent]) {
    for agent in agents.iter().take(MOST_AGENTS) {
        let host = agent.facts.as_ref().and_then(|facts| facts.host.as_deref());
        let run = agent.source.get(..RUN_DIGITS).unwrap_or(&agent.source);
        let labels = [("host", host.unwrap_or_default()), ("run", run)];
        let mut put = |name, kind, help, value: Sample| {
            let name = format!("spanwise_ingest_agent_{name}");
            families.put(&name, kind, help, &labels, value);
        };
        put("connected", Kind::Gauge, "Whether it has a stream open", agent.connected.into());
        let seen = seconds(agent.last_seen_unix_nano);
        put("last_seen_timestamp_seconds", Kind::Gauge, "When it last sent", seen.into());
        put("spans", Kind::Counter, "Spans taken from it", agent.spans.into());
        put("batches", Kind::Counter, "Batches taken from it", agent.batches.into());
        let counters = agent.facts.iter().flat_map(|facts| &facts.counters);
        for (name, count) in counters.take(MOST_COUNTERS) {
            let help = format!("{}, as the agent counts", metric_name(name).replace('_', " "));
            let name = format!("spanwise_agent_{}", metric_name(name));
            families.put(&name, Kind::Counter, &help, &labels, *count);
        }
    }
}
