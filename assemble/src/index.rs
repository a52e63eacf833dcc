//! Rows, and everything that a parent rule looks them up by.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::AHashMap;
use spanwise_model::{Capture, SpanId, TraceId};

use crate::multi::Multi;
use crate::row::Row;

/// A row's place in an [`Index`].
pub(crate) type Slot = u32;

/// How many of a process's rows around one moment are looked at. A process with
/// more of them in flight gives no link by time, and rightly so.
const LOOK_AT: usize = 1024;

/// Where rows of one process are to be found: a process id with its host, or
/// the service's name for rows whose process ids do not compare.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Process(Option<Arc<str>>, u32),
    Service(Arc<str>),
}

fn places(row: &Row) -> impl Iterator<Item = Place> {
    let process = row.process_id.map(|process| Place::Process(row.host.clone(), process));
    process.into_iter().chain([Place::Service(Arc::clone(&row.service))])
}

/// Rows by place and start.
#[derive(Debug, Default)]
struct Timeline(AHashMap<Place, BTreeSet<(i64, Slot)>>);

impl Timeline {
    fn insert(&mut self, row: &Row, slot: Slot) {
        for place in places(row) {
            self.0.entry(place).or_default().insert((row.start_unix_nano, slot));
        }
    }

    fn remove(&mut self, row: &Row, slot: Slot) {
        for place in places(row) {
            if let Some(rows) = self.0.get_mut(&place) {
                rows.remove(&(row.start_unix_nano, slot));
                if rows.is_empty() {
                    self.0.remove(&place);
                }
            }
        }
    }

    /// Rows at the places of `row` that started from `from_nano` to `to_nano`,
    /// latest first at each place. A row may come twice.
    fn started(&self, row: &Row, from_nano: i64, to_nano: i64) -> impl Iterator<Item = Slot> {
        places(row).filter_map(|place| self.0.get(&place)).flat_map(move |rows| {
            let range = (from_nano, Slot::MIN)..=(to_nano.max(from_nano), Slot::MAX);
            rows.range(range).rev().take(LOOK_AT).map(|(_, slot)| *slot)
        })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Index {
    rows: Vec<Option<Row>>,
    free: Vec<Slot>,
    apps_by_span: Multi<SpanId>,
    by_fragment: Multi<u64>,
    by_request_seq: Multi<u32>,
    by_header: Multi<(TraceId, SpanId)>,
    clients_by_trace: Multi<TraceId>,
    by_x_request_id: Multi<Arc<str>>,
    servers: Timeline,
    clients: Timeline,
    apps: Timeline,
}

impl Index {
    /// The row in a slot that is in use.
    pub(crate) fn row(&self, slot: Slot) -> &Row {
        // Slots come from `insert` and are given up only through `remove`.
        self.rows[slot as usize].as_ref().expect("a slot is used no longer than its row is there")
    }

    /// Adds a row.
    pub(crate) fn insert(&mut self, row: Row) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            // Four thousand million rows do not fit in memory.
            Slot::try_from(self.rows.len() - 1).unwrap_or(Slot::MAX)
        });
        self.link_up(&row, slot, true);
        self.rows[slot as usize] = Some(row);
        slot
    }

    /// Forgets a row.
    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(row) = self.rows[slot as usize].take() {
            self.link_up(&row, slot, false);
            self.free.push(slot);
        }
    }

    fn link_up(&mut self, row: &Row, slot: Slot, add: bool) {
        macro_rules! keep {
            ($map:ident, $key:expr) => {
                if let Some(key) = $key {
                    if add { self.$map.insert(key, slot) } else { self.$map.remove(&key, slot) }
                }
            };
        }
        macro_rules! keep_time {
            ($timeline:ident) => {
                if add {
                    self.$timeline.insert(row, slot)
                } else {
                    self.$timeline.remove(row, slot)
                }
            };
        }
        if row.capture == Capture::App {
            keep!(apps_by_span, Some(row.span_id));
            keep_time!(apps);
            return;
        }
        keep!(by_fragment, row.fragment_id);
        keep!(by_request_seq, row.request_tcp_seq);
        keep!(by_header, row.trace_id.zip(row.parent_span_id));
        match row.capture {
            Capture::ServerProcess => {
                keep!(by_x_request_id, row.x_request_id.clone());
                keep_time!(servers);
            }
            Capture::ClientProcess => {
                keep!(clients_by_trace, row.trace_id);
                keep!(by_x_request_id, row.x_request_id.clone());
                if row.trace_id.is_none() {
                    keep_time!(clients);
                }
            }
            _ => {}
        }
    }

    /// SDK rows with this trace and span id.
    pub(crate) fn apps(&self, trace: TraceId, span: SpanId) -> impl Iterator<Item = Slot> {
        let slots = self.apps_by_span.get(&span).iter().copied();
        slots.filter(move |slot| self.row(*slot).trace_id == Some(trace))
    }

    /// Kernel rows of a fragment.
    pub(crate) fn in_fragment(&self, fragment: u64) -> &[Slot] {
        self.by_fragment.get(&fragment)
    }

    /// Kernel rows whose request began with this TCP sequence number.
    pub(crate) fn with_request_seq(&self, seq: u32) -> &[Slot] {
        self.by_request_seq.get(&seq)
    }

    /// Kernel rows whose request carried this trace id and parent id.
    pub(crate) fn with_header(&self, trace: TraceId, parent: SpanId) -> &[Slot] {
        self.by_header.get(&(trace, parent))
    }

    /// Client-process rows whose request carried this trace id.
    pub(crate) fn clients_of_trace(&self, trace: TraceId) -> &[Slot] {
        self.clients_by_trace.get(&trace)
    }

    /// Process rows with this X-Request-ID.
    pub(crate) fn with_x_request_id(&self, id: &Arc<str>) -> &[Slot] {
        self.by_x_request_id.get(id)
    }

    /// Server-process rows of (likely) the same process as `row` that started
    /// at most `slack_nano` after it did, latest first, each once.
    pub(crate) fn servers_before(&self, row: &Row, slack_nano: i64) -> Vec<Slot> {
        let to = row.start_unix_nano.saturating_add(slack_nano);
        self.of_process(row, self.servers.started(row, i64::MIN, to))
    }

    /// SDK rows of (likely) the same process as `row` that started at most
    /// `slack_nano` after it did.
    pub(crate) fn apps_before(&self, row: &Row, slack_nano: i64) -> Vec<Slot> {
        let to = row.start_unix_nano.saturating_add(slack_nano);
        self.of_process(row, self.apps.started(row, i64::MIN, to))
    }

    /// SDK rows of (likely) the same process that started while `row` ran, give
    /// or take `slack_nano`.
    pub(crate) fn apps_during(&self, row: &Row, slack_nano: i64) -> Vec<Slot> {
        self.during(&self.apps, row, slack_nano)
    }

    /// Client rows without a header of (likely) the same process that started
    /// while `row` ran, give or take `slack_nano`.
    pub(crate) fn clients_during(&self, row: &Row, slack_nano: i64) -> Vec<Slot> {
        self.during(&self.clients, row, slack_nano)
    }

    fn during(&self, timeline: &Timeline, row: &Row, slack_nano: i64) -> Vec<Slot> {
        let from = row.start_unix_nano.saturating_sub(slack_nano);
        let to = row.end_unix_nano.saturating_add(slack_nano);
        self.of_process(row, timeline.started(row, from, to))
    }

    fn of_process(&self, row: &Row, slots: impl Iterator<Item = Slot>) -> Vec<Slot> {
        let mut found: Vec<Slot> = slots.filter(|slot| self.row(*slot).same_process(row)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Whether no key of any row is left.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
            && self.apps_by_span.len() == 0
            && self.by_fragment.len() == 0
            && self.by_request_seq.len() == 0
            && self.by_header.len() == 0
            && self.clients_by_trace.len() == 0
            && self.by_x_request_id.len() == 0
            && [&self.servers, &self.clients, &self.apps].iter().all(|times| times.0.is_empty())
    }
}
