//! The agents that have sent something.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use super::facts::Facts;
use super::{AGENTS_FORGOTTEN, FACTS_TOO_LARGE};
use crate::clock::now_unix_nano;
use crate::counters::Counters;

/// Maximum agents. Beyond it, the least recently active one is evicted.
const MOST: usize = 1024;

/// The status of one run of one agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentStatus {
    /// The unique name that is bound to the run, in hexadecimal digits.
    pub source: String,
    /// Its last address.
    pub address: Option<String>,
    /// Whether it has an open stream.
    pub connected: bool,
    /// Time of its first message, in nanoseconds since 1970.
    pub first_seen_unix_nano: i64,
    /// Time of its last message, in nanoseconds since 1970.
    pub last_seen_unix_nano: i64,
    /// Number of batches stored.
    pub batches: u64,
    /// Number of spans stored.
    pub spans: u64,
    /// Number of the last batch that was stored.
    pub last_sequence: u64,
    /// The last facts that it reported about itself: host, hook, counters.
    pub facts: Value,
}

struct Agent {
    status: AgentStatus,
    streams: usize,
    /// Memory of its facts.
    facts_bytes: usize,
}

/// Agents by the name that the store uses for them ([`super::binding`]), so that no sender can
/// impersonate another.
pub(crate) struct Agents {
    known: Mutex<HashMap<[u8; 16], Agent>>,
    /// Maximum bytes of all agents' facts.
    most_facts_bytes: usize,
    counters: Arc<Counters>,
}

/// An agent's names: its own, and the one that is bound to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) given: [u8; 16],
    pub(crate) bound: [u8; 16],
}

/// The least recently active agent; disconnected ones come first.
fn least(all: &HashMap<[u8; 16], Agent>, is_it: impl Fn(&Agent) -> bool) -> Option<[u8; 16]> {
    all.iter()
        .filter(|(_, agent)| is_it(agent))
        .min_by_key(|(_, agent)| (agent.streams > 0, agent.status.last_seen_unix_nano))
        .map(|(name, _)| *name)
}

impl Agents {
    pub(crate) fn new(most_facts_bytes: usize, counters: Arc<Counters>) -> Self {
        Self { known: Mutex::default(), most_facts_bytes, counters }
    }

    /// Records a message from an agent.
    pub(crate) fn seen(&self, name: Name, change: impl FnOnce(&mut AgentStatus)) {
        let now = now_unix_nano();
        let mut all = self.known.lock();
        if !all.contains_key(&name.bound)
            && all.len() >= MOST
            && let Some(oldest) = least(&all, |_| true)
        {
            all.remove(&oldest);
            self.counters.add(AGENTS_FORGOTTEN, 1);
        }
        let agent = all.entry(name.bound).or_insert_with(|| Agent {
            facts_bytes: 0,
            status: AgentStatus {
                source: name.bound.iter().map(|byte| format!("{byte:02x}")).collect(),
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

    /// Records the facts that an agent reports. If all facts exceed the limit, those of the least
    /// recently active agents are dropped.
    pub(crate) fn told(&self, name: Name, facts: Facts) {
        self.seen(name, |status| status.facts = facts.value);
        let mut all = self.known.lock();
        if let Some(agent) = all.get_mut(&name.bound) {
            agent.facts_bytes = facts.bytes;
        }
        let mut bytes: usize = all.values().map(|agent| agent.facts_bytes).sum();
        while bytes > self.most_facts_bytes
            && let Some(oldest) = least(&all, |agent| agent.facts_bytes > 0)
            && let Some(agent) = all.get_mut(&oldest)
        {
            bytes -= std::mem::take(&mut agent.facts_bytes);
            agent.status.facts = Value::Null;
            self.counters.add(FACTS_TOO_LARGE, 1);
        }
    }

    /// Records that an agent opened a stream.
    pub(crate) fn opened(&self, name: Name, address: Option<SocketAddr>) {
        self.seen(name, |status| {
            status.connected = true;
            status.address = address.map(|address| address.to_string());
        });
        if let Some(agent) = self.known.lock().get_mut(&name.bound) {
            agent.streams += 1;
        }
    }

    /// Records that a stream ended.
    pub(crate) fn closed(&self, name: Name) {
        if let Some(agent) = self.known.lock().get_mut(&name.bound) {
            agent.streams = agent.streams.saturating_sub(1);
            agent.status.connected = agent.streams > 0;
        }
    }

    /// All agents, the most recently active first.
    pub(crate) fn snapshot(&self) -> Vec<AgentStatus> {
        let mut all: Vec<_> =
            self.known.lock().values().map(|agent| agent.status.clone()).collect();
        all.sort_by_key(|status| std::cmp::Reverse(status.last_seen_unix_nano));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u32) -> Name {
        let mut source = [0; 16];
        source[..4].copy_from_slice(&number.to_be_bytes());
        Name { given: source, bound: source }
    }

    fn agents() -> (Agents, Arc<Counters>) {
        let counters = Arc::new(Counters::new(&[]));
        (Agents::new(10_000, Arc::clone(&counters)), counters)
    }

    #[test]
    fn what_all_tell_of_themselves_is_bounded() {
        let (agents, counters) = agents();
        for number in 0..20 {
            let text = format!("{{\"a\":\"{}\"}}", "x".repeat(1000));
            agents.told(name(number), Facts::read(text.as_bytes()).unwrap());
        }
        let all = agents.snapshot();
        let told = all.iter().filter(|agent| !agent.facts.is_null()).count();
        assert!((5..=10).contains(&told), "{told}");
        assert_eq!(counters.snapshot()[FACTS_TOO_LARGE], 20 - told as u64);
        assert!(!all[0].facts.is_null(), "the last one's is there");
    }

    #[test]
    fn remembers_a_bounded_number_and_forgets_the_silent_first() {
        let (agents, counters) = agents();
        agents.opened(name(0), None);
        for number in 1..=u32::try_from(MOST).unwrap() + 10 {
            agents.seen(name(number), |status| status.batches += 1);
        }
        let all = agents.snapshot();
        assert_eq!(all.len(), MOST);
        assert_eq!(counters.snapshot()[AGENTS_FORGOTTEN], 11);
        assert!(all.iter().any(|agent| agent.connected), "the connected one stays");
        agents.closed(name(0));
        assert!(agents.snapshot().iter().all(|agent| !agent.connected));
    }
}
