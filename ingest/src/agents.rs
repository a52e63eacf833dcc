//! What is known about the agents that sent something.

use std::collections::HashMap;
use std::net::SocketAddr;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use crate::clock::now_unix_nano;

/// Most agents remembered; beyond, the one that was silent longest is forgotten.
const MOST: usize = 1024;

/// One run of one agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentStatus {
    /// The run's random name, in hexadecimal digits.
    pub source: String,
    /// Address that it last came from.
    pub address: Option<String>,
    /// Whether it has a stream open now.
    pub connected: bool,
    /// When it first came, in nanoseconds since 1970.
    pub first_seen_unix_nano: i64,
    /// When it last sent something, in nanoseconds since 1970.
    pub last_seen_unix_nano: i64,
    /// Batches taken.
    pub batches: u64,
    /// Spans taken.
    pub spans: u64,
    /// Number of the last batch taken.
    pub last_sequence: u64,
    /// What it last told about itself: host, hook, counters.
    pub facts: Value,
}

struct Agent {
    status: AgentStatus,
    streams: usize,
}

#[derive(Default)]
pub(crate) struct Agents(Mutex<HashMap<[u8; 16], Agent>>);

impl Agents {
    /// Notes that something came from an agent.
    pub(crate) fn seen(&self, source: [u8; 16], change: impl FnOnce(&mut AgentStatus)) {
        let now = now_unix_nano();
        let mut all = self.0.lock();
        if !all.contains_key(&source) && all.len() >= MOST {
            let oldest = all
                .iter()
                .min_by_key(|(_, agent)| (agent.streams > 0, agent.status.last_seen_unix_nano));
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                all.remove(&oldest);
            }
        }
        let agent = all.entry(source).or_insert_with(|| Agent {
            status: AgentStatus {
                source: source.iter().map(|byte| format!("{byte:02x}")).collect(),
                address: None,
                connected: false,
                first_seen_unix_nano: now,
                last_seen_unix_nano: now,
                batches: 0,
                spans: 0,
                last_sequence: 0,
                facts: Value::Null,
            },
            streams: 0,
        });
        agent.status.last_seen_unix_nano = now;
        change(&mut agent.status);
    }

    /// Notes that an agent opened a stream.
    pub(crate) fn opened(&self, source: [u8; 16], address: Option<SocketAddr>) {
        self.seen(source, |status| {
            status.connected = true;
            status.address = address.map(|address| address.to_string());
        });
        if let Some(agent) = self.0.lock().get_mut(&source) {
            agent.streams += 1;
        }
    }

    /// Notes that a stream ended.
    pub(crate) fn closed(&self, source: [u8; 16]) {
        if let Some(agent) = self.0.lock().get_mut(&source) {
            agent.streams = agent.streams.saturating_sub(1);
            agent.status.connected = agent.streams > 0;
        }
    }

    /// All agents, the last seen first.
    pub(crate) fn snapshot(&self) -> Vec<AgentStatus> {
        let mut all: Vec<_> = self.0.lock().values().map(|agent| agent.status.clone()).collect();
        all.sort_by_key(|status| std::cmp::Reverse(status.last_seen_unix_nano));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u32) -> [u8; 16] {
        let mut source = [0; 16];
        source[..4].copy_from_slice(&number.to_be_bytes());
        source
    }

    #[test]
    fn remembers_a_bounded_number_and_forgets_the_silent_first() {
        let agents = Agents::default();
        agents.opened(name(0), None);
        for number in 1..=u32::try_from(MOST).unwrap() + 10 {
            agents.seen(name(number), |status| status.batches += 1);
        }
        let all = agents.snapshot();
        assert_eq!(all.len(), MOST);
        assert!(all.iter().any(|agent| agent.connected), "the connected one stays");
        agents.closed(name(0));
        assert!(agents.snapshot().iter().all(|agent| !agent.connected));
    }
}
