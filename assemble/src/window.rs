//! The streaming join: rows come in as they are stored, and go out as soon as
//! their trace has been quiet for a moment, with their trace and parent.
//!
//! Rows that share a key (a hop's sequence numbers, a fragment, a header's
//! trace id, a request id within a process) form a group. A group is told when
//! it is quiet, remembered for a while, and told again where late rows change
//! something.

use std::collections::{BTreeMap, VecDeque};

use ahash::{AHashMap, AHashSet};
use spanwise_model::{Assembled, Capture, Kind, RowRef, Span, SpanId, TraceId};

use crate::links::{Link, links};

/// Times and bounds of the window. All times are of one monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct WindowConfig {
    /// A group that got no row for this long is told.
    pub quiet_nano: u64,
    /// A group is told at the latest this long after its first untold row.
    pub longest_wait_nano: u64,
    /// A group is remembered for this long after its last row.
    pub remember_nano: u64,
    /// Rows held at once; beyond, the groups longest unheard of are let go.
    pub max_rows: usize,
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self {
            quiet_nano: 400_000_000,
            longest_wait_nano: 2_000_000_000,
            remember_nano: 45_000_000_000,
            max_rows: 200_000,
        }
    }
}

/// What the window did and could not do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowCounters {
    /// Rows taken.
    pub rows: u64,
    /// Results told.
    pub told: u64,
    /// Of them, results that changed an earlier one.
    pub changed: u64,
    /// Groups let go before their time, for want of room.
    pub groups_evicted: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum JoinKey {
    Hop(u32, u32),
    Fragment(u64),
    HeaderTrace(TraceId),
    RequestId(Process, String),
}

type Process = (String, u32);

struct Member {
    row: RowRef,
    span: Span,
    told: Option<Assembled>,
}

#[derive(Default)]
struct Group {
    members: Vec<Member>,
    keys: Vec<JoinKey>,
    trace_id: Option<TraceId>,
    last_row_nano: u64,
    untold_since_nano: Option<u64>,
}

/// A request that a process served, for SDK spans that name no request.
struct Served {
    start_unix_nano: i64,
    end_unix_nano: i64,
    client_port: Option<u16>,
    group: u64,
    heard_nano: u64,
}

/// See the module.
pub struct Window {
    config: WindowConfig,
    groups: AHashMap<u64, Group>,
    /// Where a merged group went.
    merged: AHashMap<u64, u64>,
    by_key: AHashMap<JoinKey, u64>,
    untold: AHashSet<u64>,
    /// Groups by the time of a row of theirs, to find those to forget.
    heard: BTreeMap<(u64, u64), ()>,
    served: AHashMap<Process, VecDeque<Served>>,
    /// Groups with an SDK span that may belong to a request of this process.
    unbound: AHashMap<Process, AHashSet<u64>>,
    rows: usize,
    next_group: u64,
    counters: WindowCounters,
}

impl Window {
    /// An empty window.
    pub fn new(config: WindowConfig) -> Self {
        Self {
            config,
            groups: AHashMap::new(),
            merged: AHashMap::new(),
            by_key: AHashMap::new(),
            untold: AHashSet::new(),
            heard: BTreeMap::new(),
            served: AHashMap::new(),
            unbound: AHashMap::new(),
            rows: 0,
            next_group: 1,
            counters: WindowCounters::default(),
        }
    }

    /// What the window did so far.
    pub const fn counters(&self) -> WindowCounters {
        self.counters
    }

    /// Rows held now.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Takes the rows of one stored batch.
    pub fn push(
        &mut self,
        batch: u64,
        spans: impl IntoIterator<Item = (u32, Span)>,
        now_nano: u64,
    ) {
        for (row, span) in spans {
            self.push_row(RowRef { batch, row }, compact(span), now_nano);
        }
        self.make_room();
    }

    fn push_row(&mut self, row: RowRef, span: Span, now_nano: u64) {
        self.counters.rows += 1;
        self.rows += 1;
        let keys = join_keys(&span);
        let mut group = None;
        for key in &keys {
            if let Some(&other) = self.by_key.get(key) {
                let other = self.resolve(other);
                group = Some(group.map_or(other, |group| self.merge(group, other)));
            }
        }
        let group = group.unwrap_or_else(|| {
            let id = self.next_group;
            self.next_group += 1;
            self.groups.insert(id, Group::default());
            id
        });
        if let Some(process) = process(&span) {
            match span.capture {
                Capture::ServerProcess => {
                    self.served.entry(process.clone()).or_default().push_back(Served {
                        start_unix_nano: span.start_unix_nano,
                        end_unix_nano: span.end_unix_nano(),
                        client_port: span.flow.client_port,
                        group,
                        heard_nano: now_nano,
                    });
                    // An SDK span that found no request may find this one.
                    for other in self.unbound.get(&process).cloned().unwrap_or_default() {
                        let other = self.resolve(other);
                        self.mark(other, now_nano);
                    }
                }
                Capture::App if is_entry(&span) => {
                    self.unbound.entry(process).or_default().insert(group);
                }
                _ => {}
            }
        }
        for key in &keys {
            self.by_key.insert(key.clone(), group);
        }
        if let Some(entry) = self.groups.get_mut(&group) {
            entry.keys.extend(keys);
            entry.members.push(Member { row, span, told: None });
            entry.last_row_nano = now_nano;
        }
        self.heard.insert((now_nano, group), ());
        self.mark(group, now_nano);
    }

    fn mark(&mut self, group: u64, now_nano: u64) {
        if let Some(entry) = self.groups.get_mut(&group) {
            entry.untold_since_nano.get_or_insert(now_nano);
            self.untold.insert(group);
        }
    }

    fn resolve(&self, mut group: u64) -> u64 {
        while let Some(&into) = self.merged.get(&group) {
            group = into;
        }
        group
    }

    /// Makes one group of two; which one is left.
    fn merge(&mut self, a: u64, b: u64) -> u64 {
        if a == b {
            return a;
        }
        let weight = |id: u64| {
            self.groups.get(&id).map_or((false, 0), |g| (g.trace_id.is_some(), g.members.len()))
        };
        let (into, from) = if weight(a) >= weight(b) { (a, b) } else { (b, a) };
        let Some(gone) = self.groups.remove(&from) else { return into };
        self.untold.remove(&from);
        self.merged.insert(from, into);
        if let Some(group) = self.groups.get_mut(&into) {
            group.members.extend(gone.members);
            group.keys.extend(gone.keys);
            group.last_row_nano = group.last_row_nano.max(gone.last_row_nano);
            group.trace_id = group.trace_id.or(gone.trace_id);
            let since = group.untold_since_nano.into_iter().chain(gone.untold_since_nano).min();
            group.untold_since_nano = since.or(Some(group.last_row_nano));
            self.untold.insert(into);
        }
        into
    }

    /// The results that are due: of groups that have become quiet, every row
    /// whose result is new or has changed.
    pub fn poll(&mut self, now_nano: u64) -> Vec<Assembled> {
        self.tell(now_nano, |config, group| {
            now_nano.saturating_sub(group.last_row_nano) >= config.quiet_nano
                || group
                    .untold_since_nano
                    .is_some_and(|since| now_nano.saturating_sub(since) >= config.longest_wait_nano)
        })
    }

    /// All results that are outstanding, due or not.
    pub fn flush(&mut self, now_nano: u64) -> Vec<Assembled> {
        self.tell(now_nano, |_, _| true)
    }

    fn tell(
        &mut self,
        now_nano: u64,
        due: impl Fn(&WindowConfig, &Group) -> bool,
    ) -> Vec<Assembled> {
        let groups: Vec<u64> = self
            .untold
            .iter()
            .copied()
            .filter(|id| self.groups.get(id).is_none_or(|group| due(&self.config, group)))
            .collect();
        let mut results = Vec::new();
        for id in groups {
            let id = self.bind(self.resolve(id));
            self.untold.remove(&id);
            if let Some(group) = self.groups.get_mut(&id) {
                group.untold_since_nano = None;
                tell_group(group, &mut results, &mut self.counters);
            }
        }
        self.forget(now_nano);
        results
    }

    /// Joins the group of an SDK span that begins a trace in its process to
    /// the one request of that process that encloses it.
    fn bind(&mut self, id: u64) -> u64 {
        let Some(group) = self.groups.get(&id) else { return id };
        let has_served = group.members.iter().any(|m| m.span.capture == Capture::ServerProcess);
        let entries: Vec<(Process, i64, i64, Option<u16>)> = group
            .members
            .iter()
            .filter(|m| !has_served && m.span.capture == Capture::App && is_entry(&m.span))
            .filter_map(|m| {
                let span = &m.span;
                let port = span.flow.client_port;
                Some((process(span)?, span.start_unix_nano, span.end_unix_nano(), port))
            })
            .collect();
        let mut into = id;
        for (process, start, end, port) in entries {
            let covering: Vec<(u64, Option<u16>)> = self
                .served
                .get(&process)
                .into_iter()
                .flatten()
                .filter(|s| {
                    s.start_unix_nano <= start.saturating_add(SLACK_NANO)
                        && end <= s.end_unix_nano.saturating_add(SLACK_NANO)
                })
                .map(|s| (s.group, s.client_port))
                .collect();
            let same_port = covering.iter().find(|(_, p)| port.is_some() && *p == port);
            let chosen = match (same_port, covering.as_slice()) {
                (Some(&(group, _)), _) => Some(group),
                (None, &[(group, _)]) => Some(group),
                _ => None,
            };
            if let Some(group) = chosen {
                into = self.merge(into, self.resolve(group));
                if let Some(waiting) = self.unbound.get_mut(&process) {
                    waiting.remove(&id);
                }
            }
        }
        into
    }

    /// Lets go of groups unheard of for long.
    fn forget(&mut self, now_nano: u64) {
        let horizon = now_nano.saturating_sub(self.config.remember_nano);
        while let Some((&(heard, id), ())) = self.heard.first_key_value() {
            if heard > horizon {
                break;
            }
            self.heard.pop_first();
            let last =
                self.groups.get(&id).map(|group| (group.last_row_nano, group.untold_since_nano));
            match last {
                Some((last, None)) if last <= horizon => self.drop_group(id),
                Some((last, _)) => {
                    self.heard.insert((last.max(horizon + 1), id), ());
                }
                None => {
                    self.merged.remove(&id);
                }
            }
        }
        self.served.retain(|_, requests| {
            while requests.front().is_some_and(|served| served.heard_nano <= horizon) {
                requests.pop_front();
            }
            !requests.is_empty()
        });
    }

    fn drop_group(&mut self, id: u64) {
        let Some(group) = self.groups.remove(&id) else { return };
        self.untold.remove(&id);
        self.rows -= group.members.len();
        for key in group.keys {
            if self.by_key.get(&key).is_some_and(|&owner| self.resolve(owner) == id) {
                self.by_key.remove(&key);
            }
        }
        for member in &group.members {
            if let Some(process) = process(&member.span)
                && let Some(waiting) = self.unbound.get_mut(&process)
            {
                waiting.remove(&id);
                if waiting.is_empty() {
                    self.unbound.remove(&process);
                }
            }
        }
    }

    /// Keeps the bound on rows by letting the oldest told groups go.
    fn make_room(&mut self) {
        let mut tries = self.heard.len();
        while self.rows > self.config.max_rows && tries > 0 {
            tries -= 1;
            let Some(((heard, id), ())) = self.heard.pop_first() else { break };
            match self.groups.get(&id) {
                Some(group) if group.untold_since_nano.is_some() => {
                    // Not told yet: it must be, so it waits behind the others.
                    self.heard.insert((heard + self.config.longest_wait_nano, id), ());
                }
                Some(_) => {
                    self.counters.groups_evicted += 1;
                    self.drop_group(id);
                }
                None => {
                    self.merged.remove(&id);
                }
            }
        }
    }
}

const SLACK_NANO: i64 = 2_000_000;

fn is_entry(span: &Span) -> bool {
    matches!(span.kind, Kind::Server | Kind::Consumer) || span.parent_span_id.is_none()
}

fn process(span: &Span) -> Option<Process> {
    Some((span.host.clone().unwrap_or_default(), span.process_id?))
}

fn join_keys(span: &Span) -> Vec<JoinKey> {
    let mut keys = Vec::new();
    if let (Some(request), Some(response)) = (span.request_tcp_seq, span.response_tcp_seq) {
        keys.push(JoinKey::Hop(request, response));
    }
    keys.extend(span.fragment_id.map(JoinKey::Fragment));
    keys.extend(span.trace_id.map(JoinKey::HeaderTrace));
    if span.capture != Capture::App
        && let (Some(process), Some(id)) = (process(span), &span.x_request_id)
    {
        keys.push(JoinKey::RequestId(process, id.clone()));
    }
    keys
}

/// The span without what no rule looks at.
fn compact(mut span: Span) -> Span {
    span.attributes.retain(|(key, _)| key == "http.request.method" || key == "url.path");
    span.attributes.shrink_to_fit();
    span.events = Vec::new();
    span.links = Vec::new();
    span.resource = spanwise_model::ResourceJson::default();
    span.error = None;
    span.instance = None;
    span.trace_state = None;
    span.operation = String::new();
    span.flow.client_address = None;
    span.flow.server_address = None;
    span
}

fn tell_group(group: &mut Group, results: &mut Vec<Assembled>, counters: &mut WindowCounters) {
    let spans: Vec<&Span> = group.members.iter().map(|member| &member.span).collect();
    let found = links(&spans);
    let ids: Vec<SpanId> = spans.iter().map(|span| span.span_id).collect();
    let trace_id = *group.trace_id.get_or_insert_with(|| trace_id(&spans, &found));
    for (member, link) in group.members.iter_mut().zip(found) {
        let result = Assembled {
            row: member.row,
            trace_id,
            parent: link.parent.map(|parent| ids[parent]),
            evidence: link.evidence,
            confidence: link.confidence,
        };
        if member.told != Some(result) {
            counters.told += 1;
            counters.changed += u64::from(member.told.is_some());
            member.told = Some(result);
            results.push(result);
        }
    }
}

/// The trace id for spans that belong together: that of the earliest span that
/// a header or an SDK gave one; else one made of the earliest root's start and
/// id, so that ids sort by time and the same spans get the same id again.
pub fn trace_id(spans: &[&Span], links: &[Link]) -> TraceId {
    let order = |span: &&&Span| (span.start_unix_nano, span.span_id);
    let given = spans.iter().filter(|span| span.trace_id.is_some()).min_by_key(order);
    if let Some(id) = given.and_then(|span| span.trace_id) {
        return id;
    }
    let roots = spans.iter().zip(links).filter(|(_, link)| link.parent.is_none());
    let root = roots.map(|(span, _)| span).min_by_key(order);
    let Some(root) = root.or_else(|| spans.iter().min_by_key(order)) else {
        return TraceId([1; 16]);
    };
    let milliseconds = u64::try_from(root.start_unix_nano / 1_000_000).unwrap_or(0);
    let mut id = [0; 16];
    id[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
    id[6..8].copy_from_slice(&root.request_tcp_seq.unwrap_or(1).to_be_bytes()[2..]);
    id[8..].copy_from_slice(&root.span_id.0);
    TraceId(id)
}
