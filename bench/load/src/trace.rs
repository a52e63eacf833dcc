//! A trace: a call tree with times.

use crate::profile::Profile;
use crate::random::Random;
use crate::services::{GATEWAY, SERVICES};

/// Maximum depth of nested services.
const MAX_DEPTH: u8 = 7;
/// Probability that a span fails. A failure makes its caller fail half of the time.
const FAILS: f64 = 0.007;
const CALLER_FAILS: f64 = 0.5;
const USERS: u64 = 200_000;

/// The role of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Serves a request.
    Server,
    /// Calls the service with this index.
    Client { callee: usize },
    /// Queries the service's database.
    Store,
    /// Internal computation.
    App,
    /// Sends a message to the service with this index.
    Producer { consumer: usize },
    /// Consumes a message.
    Consumer,
}

/// A span of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span_id: [u8; 8],
    /// Index in [`Trace::nodes`], always lower than the node's own.
    pub(crate) parent: Option<usize>,
    pub(crate) service: usize,
    pub(crate) instance: usize,
    /// Index among the endpoints of the serving service, or among the other options of the role.
    pub(crate) choice: usize,
    pub(crate) role: Role,
    pub(crate) failed: bool,
    pub(crate) start_unix_nano: i64,
    pub(crate) duration_nano: i64,
    depth: u8,
    /// Whether its calls are concurrent.
    parallel: bool,
    own_nano: i64,
    /// Start of the next child.
    cursor_nano: i64,
}

impl Node {
    pub(crate) const fn end_unix_nano(&self) -> i64 {
        self.start_unix_nano + self.duration_nano
    }
}

/// A trace and its user.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    profile: Profile,
    pub(crate) trace_id: [u8; 16],
    pub(crate) nodes: Vec<Node>,
    pub(crate) user: u64,
    pub(crate) session: u64,
    /// A unique order number, on some traces.
    pub(crate) order: Option<u64>,
    /// Indexes of the nodes, earliest end first, which is the order of their export.
    pub(crate) by_end: Vec<usize>,
    /// Server spans that may still make calls.
    open: Vec<usize>,
}

impl Trace {
    /// An empty trace of this profile.
    pub(crate) fn new(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    /// Becomes the `number`-th trace, with exactly `spans` spans.
    pub(crate) fn grow(&mut self, random: &mut Random, number: u64, spans: usize, start: i64) {
        self.trace_id[..8].copy_from_slice(&random.next().to_be_bytes());
        self.trace_id[8..].copy_from_slice(&(random.next() | 1).to_be_bytes());
        self.user = random.skewed(USERS);
        self.session = random.next();
        self.order = random.chance(0.3).then_some(7_000_000_000 + number);
        self.nodes.clear();
        self.open.clear();
        self.answer(random, None, GATEWAY, Role::Server);
        while self.nodes.len() < spans {
            self.add_child(random, spans - self.nodes.len());
        }
        self.fail_callers(random);
        self.set_durations();
        self.set_starts(random, start);
        self.by_end.clear();
        self.by_end.extend(0..self.nodes.len());
        self.by_end.sort_unstable_by_key(|place| self.nodes[*place].end_unix_nano());
    }

    /// Adds an action of a server span, with at most `most` spans.
    fn add_child(&mut self, random: &mut Random, most: usize) {
        // The newest are chosen more often, so trees are deep rather than wide.
        let back = random.skewed(self.open.len() as u64) as usize;
        let parent = self.open[self.open.len() - 1 - back];
        let (service, depth) = (self.nodes[parent].service, self.nodes[parent].depth);
        let about = &SERVICES[service];
        let kind = random.unit();
        if most >= 2 && depth < MAX_DEPTH && !about.calls.is_empty() && kind < 0.5 {
            let callee = *random.of(about.calls);
            let client = self.push(random, Some(parent), service, Role::Client { callee });
            let server = self.answer(random, Some(client), callee, Role::Server);
            self.nodes[client].choice = self.nodes[server].choice;
        } else if let (true, Some((_, consumer))) = (most >= 2 && kind < 0.6, about.topic) {
            let producer = self.push(random, Some(parent), service, Role::Producer { consumer });
            self.answer(random, Some(producer), consumer, Role::Consumer);
        } else if about.store.is_some() && kind < 0.85 {
            self.push(random, Some(parent), service, Role::Store);
        } else {
            self.push(random, Some(parent), service, Role::App);
        }
    }

    /// Adds a span that may make calls.
    fn answer(
        &mut self,
        random: &mut Random,
        parent: Option<usize>,
        service: usize,
        role: Role,
    ) -> usize {
        let place = self.push(random, parent, service, role);
        let endpoints = SERVICES[service].endpoints.len();
        self.nodes[place].choice = self.profile.endpoint(random, endpoints);
        self.nodes[place].depth = parent.map_or(0, |parent| self.nodes[parent].depth + 1);
        self.open.push(place);
        place
    }

    fn push(
        &mut self,
        random: &mut Random,
        parent: Option<usize>,
        service: usize,
        role: Role,
    ) -> usize {
        let instance = match (role, parent) {
            (Role::Server | Role::Consumer, _) | (_, None) => {
                self.profile.instance(random, service)
            }
            (_, Some(parent)) => self.nodes[parent].instance,
        };
        let median_nano = match role {
            Role::Server => 900_000.0,
            Role::Client { .. } => 500_000.0,
            Role::Store => SERVICES[service].store.map_or(1e6, |store| store.median_nano()),
            Role::App => 250_000.0,
            Role::Producer { .. } => 700_000.0,
            Role::Consumer => 3_000_000.0,
        };
        self.nodes.push(Node {
            span_id: (random.next() | 1).to_be_bytes(),
            parent,
            service,
            instance,
            choice: random.below(1 << 16) as usize,
            role,
            failed: random.chance(FAILS),
            start_unix_nano: 0,
            duration_nano: 0,
            depth: parent.map_or(0, |parent| self.nodes[parent].depth),
            parallel: random.chance(0.3),
            own_nano: random.latency(median_nano).max(20_000),
            cursor_nano: 0,
        });
        self.nodes.len() - 1
    }

    fn fail_callers(&mut self, random: &mut Random) {
        for place in (1..self.nodes.len()).rev() {
            let node = &self.nodes[place];
            // The sender of a message does not learn about its failure.
            if let (true, Some(parent)) = (node.failed && node.role != Role::Consumer, node.parent)
                && random.chance(CALLER_FAILS)
            {
                self.nodes[parent].failed = true;
            }
        }
    }

    /// A span takes its own time and that of its children.
    fn set_durations(&mut self) {
        for node in &mut self.nodes {
            node.duration_nano = 0;
        }
        for place in (0..self.nodes.len()).rev() {
            let own_nano = self.nodes[place].own_nano;
            self.nodes[place].duration_nano += own_nano;
            let Node { duration_nano, role, parent, .. } = self.nodes[place];
            // A message is consumed after it was sent, not during.
            if let (true, Some(parent)) = (role != Role::Consumer, parent) {
                let parent = &mut self.nodes[parent];
                parent.duration_nano = if parent.parallel {
                    parent.duration_nano.max(duration_nano)
                } else {
                    parent.duration_nano + duration_nano
                };
            }
        }
    }

    fn set_starts(&mut self, random: &mut Random, start: i64) {
        for place in 0..self.nodes.len() {
            let (role, duration_nano) = (self.nodes[place].role, self.nodes[place].duration_nano);
            let start = match self.nodes[place].parent {
                None => start,
                Some(parent) if role == Role::Consumer => {
                    self.nodes[parent].end_unix_nano() + random.latency(4_000_000.0)
                }
                Some(parent) => {
                    let parent = &mut self.nodes[parent];
                    let start = parent.cursor_nano;
                    if !parent.parallel {
                        parent.cursor_nano += duration_nano;
                    }
                    start
                }
            };
            let node = &mut self.nodes[place];
            node.start_unix_nano = start;
            // Part of its own time comes first, the rest after the children.
            node.cursor_nano = start + node.own_nano * 2 / 5;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traces() -> impl Iterator<Item = Trace> {
        let mut random = Random::new(5);
        (0..300_u64).map(move |number| {
            let mut trace = Trace::default();
            let spans = 12 + (number % 29) as usize;
            trace.grow(&mut random, number, spans, 1_000_000_000_000);
            assert_eq!(trace.nodes.len(), spans);
            trace
        })
    }

    #[test]
    fn children_lie_within_their_parents_and_messages_are_taken_after_they_were_sent() {
        for trace in traces() {
            for node in &trace.nodes {
                let Some(parent) = node.parent.map(|parent| &trace.nodes[parent]) else { continue };
                if node.role == Role::Consumer {
                    assert!(node.start_unix_nano > parent.end_unix_nano());
                } else {
                    assert!(node.start_unix_nano >= parent.start_unix_nano);
                    assert!(node.end_unix_nano() <= parent.end_unix_nano());
                }
            }
        }
    }

    #[test]
    fn calls_are_answered_by_the_service_that_is_called() {
        for trace in traces() {
            for node in &trace.nodes {
                match (node.role, node.parent.map(|parent| trace.nodes[parent].role)) {
                    (Role::Server, parent) => match parent {
                        Some(Role::Client { callee }) => assert_eq!(callee, node.service),
                        other => assert_eq!(other, None),
                    },
                    (Role::Consumer, parent) => {
                        assert_eq!(parent, Some(Role::Producer { consumer: node.service }));
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn one_to_two_spans_of_a_hundred_fail() {
        let (mut failed, mut all) = (0, 0);
        for trace in traces() {
            failed += trace.nodes.iter().filter(|node| node.failed).count();
            all += trace.nodes.len();
        }
        let share = failed as f64 / all as f64;
        assert!((0.01..0.02).contains(&share), "{share}");
    }
}
