//! Figures of calls between services. A call is counted once both its sides had time to arrive.

use std::collections::VecDeque;

use ahash::AHashMap;
use spanwise_model::{Assembled, Kind, ServiceKind, SpanId, TraceId};

use super::batches::Batches;
use super::held::Held;
use super::histogram::Exemplar;
use super::series::{Place, Series, Table};
use super::{ConnectionType, EXAMPLES_AT_ONCE, RedCounters};
use crate::graph::{Call, Calls, Hop, Node, name_of};
use crate::names::{Name, Names};

/// How long a trace's calls wait for their other sides, from the first span that was assembled.
/// Tempo waits as long.
const SETTLE_NANO: u64 = 10_000_000_000;
/// Spans that arrive later than this after their trace was counted are not told apart from those of
/// a new trace. The assembly window forgets no later.
const REMEMBER_NANO: u64 = 45_000_000_000;
/// The most spans that wait in traces, and the most traces that are remembered.
const MOST_SPANS: usize = 200_000;
/// From so many names on, those that no waiting span has are dropped.
const MANY_NAMES: usize = 65_536;
/// Lists of at most this many calls are used again, so many of them.
const USUAL_CALLS: usize = 256;
const MOST_LISTS: usize = 64;
/// So many spans are read ahead.
const AHEAD: usize = 64;

/// The caller of requests that nobody traced is said to have made, as Tempo calls it.
pub(crate) const USER: &str = "user";
/// The parent of a span whose own parent is absent, and the id of a span that went to another
/// trace. No span has this id.
const ABSENT: SpanId = SpanId([0; 8]);

/// A trace that waits. Its calls are together, as they are counted one after the other.
#[derive(Debug)]
struct Trace {
    id: TraceId,
    due_nano: u64,
    calls: Vec<Call>,
    /// Calls that went to another trace.
    gone: usize,
}

/// What is known of a trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The number of the trace.
    Waiting(u64),
    Counted,
}

/// Traces that wait, the oldest first.
#[derive(Debug)]
struct Traces {
    waiting: VecDeque<Trace>,
    /// The number of the first. All before are counted.
    first: u64,
    by_id: AHashMap<TraceId, Known>,
    /// Counted traces by age.
    counted: VecDeque<(u64, TraceId)>,
    /// Lists to use again.
    unused: Vec<Vec<Call>>,
    /// Calls of all waiting traces.
    calls: usize,
    reopened: u64,
}

impl Traces {
    fn get_mut(&mut self, number: u64) -> Option<&mut Trace> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.waiting.get_mut(place)
    }

    /// The number of a waiting trace. If it is a new one, so many calls are expected at once.
    fn number(&mut self, id: TraceId, expected: usize, now_nano: u64) -> u64 {
        let next = self.first + self.waiting.len() as u64;
        let known = self.by_id.entry(id).or_insert(Known::Waiting(next));
        self.reopened += u64::from(*known == Known::Counted);
        let number = match *known {
            Known::Waiting(number) => number,
            Known::Counted => next,
        };
        *known = Known::Waiting(number);
        if number == next {
            let calls = self.unused.pop().unwrap_or_else(|| Vec::with_capacity(expected));
            let due_nano = now_nano.saturating_add(SETTLE_NANO);
            self.waiting.push_back(Trace { id, due_nano, calls, gone: 0 });
        }
        number
    }

    /// Adds a span to a waiting trace.
    fn add(&mut self, number: u64, held: &mut Held, parent: Option<SpanId>) {
        let Some(trace) = self.get_mut(number) else { return };
        held.trace = number;
        held.place = trace.calls.len() as u32;
        trace.calls.push(held.call(parent));
        self.calls += 1;
    }

    /// A call of a waiting trace.
    fn call(&mut self, number: u64, place: u32) -> Option<&mut Call> {
        self.get_mut(number)?.calls.get_mut(place as usize)
    }

    /// Tells of a call that went to another trace.
    fn gone(&mut self, number: u64) {
        if let Some(trace) = self.get_mut(number) {
            trace.gone += 1;
            self.calls -= 1;
        }
    }

    /// Takes out the oldest trace.
    fn pop(&mut self, now_nano: u64) -> Option<Trace> {
        let trace = self.waiting.pop_front()?;
        self.first += 1;
        self.calls -= trace.calls.len() - trace.gone;
        self.by_id.insert(trace.id, Known::Counted);
        self.counted.push_back((now_nano, trace.id));
        Some(trace)
    }

    /// Forgets traces that were counted long ago.
    fn forget(&mut self, now_nano: u64) {
        while let Some((counted, id)) = self.counted.front().copied() {
            let is_old = now_nano.saturating_sub(counted) >= REMEMBER_NANO;
            if !is_old && self.counted.len() <= MOST_SPANS {
                break;
            }
            self.counted.pop_front();
            if self.by_id.get(&id) == Some(&Known::Counted) {
                self.by_id.remove(&id);
            }
        }
    }
}

/// Spans that wait for their traces, and the figures of those that no longer do.
#[derive(Debug)]
pub(super) struct Edges {
    pub(super) table: Table,
    pub(super) names: Names,
    pub(super) batches: Batches,
    traces: Traces,
    /// Series by client, server and protocol.
    places: AHashMap<(NodeKey, NodeKey, Option<Name>), Place>,
    many_names: usize,
    counters: RedCounters,
}

impl Edges {
    pub(super) fn new(table: Table) -> Self {
        Self {
            table,
            names: Names::default(),
            batches: Batches::default(),
            traces: Traces {
                waiting: VecDeque::new(),
                first: 1,
                by_id: AHashMap::new(),
                counted: VecDeque::new(),
                unused: Vec::new(),
                calls: 0,
                reopened: 0,
            },
            places: AHashMap::new(),
            many_names: MANY_NAMES,
            counters: RedCounters::default(),
        }
    }

    /// Spans that are not counted yet.
    pub(super) const fn waiting(&self) -> usize {
        self.batches.untraced() + self.traces.calls
    }

    pub(super) const fn counters(&self) -> RedCounters {
        RedCounters {
            edges_folded: self.table.folded,
            traces_reopened: self.traces.reopened,
            ..self.counters
        }
    }

    /// Takes the spans of a batch.
    pub(super) fn hold(&mut self, batch: u64, rows: Vec<Held>, now_nano: u64) {
        self.counters.spans_not_assembled += self.batches.add(batch, rows, now_nano);
    }

    /// Takes what assembly found. `with` sees each span and its trace.
    pub(super) fn place(
        &mut self,
        results: &[Assembled],
        now_nano: u64,
        mut with: impl FnMut(&Held, TraceId),
    ) {
        for results in results.chunks(AHEAD) {
            // Reads of memory that do not wait for each other go on at the same time. So all spans
            // are read before any is worked on.
            let read = |result: &Assembled| self.batches.get(result.row).map_or(0, |it| it.trace);
            std::hint::black_box(results.iter().map(read).fold(0, |all, one| all ^ one));
            // Spans of a trace mostly come one after the other.
            for results in results.chunk_by(|one, next| one.trace_id == next.trace_id) {
                let mut number = None;
                for result in results {
                    self.place_one(result, &mut number, (results.len(), now_nano), &mut with);
                }
            }
        }
    }

    fn place_one(
        &mut self,
        result: &Assembled,
        number: &mut Option<u64>,
        (expected, now_nano): (usize, u64),
        with: &mut impl FnMut(&Held, TraceId),
    ) {
        let (row, id) = (result.row, result.trace_id);
        let Self { batches, traces, counters, .. } = self;
        let Some(held) = batches.get_mut(row) else {
            counters.spans_changed_late += u64::from(batches.had(row.batch));
            return;
        };
        let before = match held.trace {
            0 => None,
            trace if trace < traces.first => {
                counters.spans_changed_late += 1;
                return;
            }
            trace => Some(trace),
        };
        let number = *number.get_or_insert_with(|| traces.number(id, expected, now_nano));
        let parent = result.parent.or(held.names_parent().then_some(ABSENT));
        with(held, id);
        match before.and_then(|trace| traces.call(trace, held.place)) {
            Some(call) if before == Some(number) => {
                call.parent = parent;
                return;
            }
            Some(call) => {
                call.span_id = ABSENT;
                traces.gone(held.trace);
            }
            None => {
                traces.add(number, held, parent);
                batches.placed(row.batch);
                return;
            }
        }
        traces.add(number, held, parent);
    }

    /// Counts the calls of traces that have waited long enough, or all.
    pub(super) fn settle(&mut self, now_nano: u64, now_unix_nano: i64, all: bool) {
        let mut examples = EXAMPLES_AT_ONCE;
        while let Some(trace) = self.traces.waiting.front() {
            let is_early = now_nano < trace.due_nano && !all;
            if is_early && self.traces.calls <= MOST_SPANS {
                break;
            }
            self.counters.traces_counted_early += u64::from(is_early);
            let Some(trace) = self.traces.pop(now_nano) else { break };
            self.count(trace, now_unix_nano, &mut examples);
        }
        self.traces.forget(now_nano);
        self.counters.spans_not_assembled += self.batches.forget(now_nano);
        if self.names.len() >= self.many_names {
            self.drop_names();
        }
        // A peer may have any number of ports.
        if self.places.len() >= MANY_NAMES {
            self.places.clear();
        }
    }

    fn count(&mut self, trace: Trace, now_unix_nano: i64, examples: &mut usize) {
        let Trace { id, mut calls, gone, .. } = trace;
        if gone > 0 {
            calls.retain(|call| call.span_id != ABSENT);
        }
        let exemplar = |nano| Exemplar { trace_id: id, nano, at_unix_nano: now_unix_nano };
        let Self { table, names, places, .. } = self;
        let mut put = |from: Option<Node>, to: Node, call: &Call, callee: Option<&Call>| {
            let place =
                *places.entry((key(from), key(Some(to)), call.protocol)).or_insert_with(|| {
                    let of = |node: Node| name_of(node, names);
                    let client = from.map_or_else(|| USER.to_owned(), of);
                    let kind = connection_type(from, to, call, names) as u8;
                    table.place(&client, &of(to), kind, now_unix_nano)
                });
            table.folded += u64::from(place.is_folded);
            let (bounds, series) = table.series(place);
            let keep = *examples > 0;
            *examples -= usize::from(keep);
            count(bounds, series, call, callee, keep.then_some(exemplar));
        };
        let all = Calls::of(&mut calls, names);
        for index in 0..all.len() {
            let call = all.call(index);
            for Hop { from, to, call, callee, .. } in all.hops(index) {
                put(Some(from), to, call, callee);
            }
            let is_root = call.parent.is_none() && call.kind == Kind::Server;
            if is_root && all.is_served(index) {
                put(None, Node::Service(call.service), call, None);
            }
        }
        if calls.capacity() <= USUAL_CALLS && self.traces.unused.len() <= MOST_LISTS {
            calls.clear();
            self.traces.unused.push(calls);
        }
    }

    /// Bounds the names: those of spans that were counted go.
    fn drop_names(&mut self) {
        let old = std::mem::take(&mut self.names);
        let names = &mut self.names;
        let mut rename = |name: Name| names.name(old.text(name));
        for call in self.traces.waiting.iter_mut().flat_map(|trace| &mut trace.calls) {
            call.service = rename(call.service);
            call.protocol = call.protocol.map(&mut rename);
            call.server = call.server.map(|(address, port)| (rename(address), port));
        }
        let first = self.traces.first;
        for held in self.batches.all_mut() {
            if held.trace == 0 || held.trace >= first {
                held.rename(&mut rename);
            }
        }
        self.places.clear();
        self.many_names = MANY_NAMES.max(self.names.len() * 2);
    }
}

/// A node as numbers, which are faster to hash. No name is 0.
type NodeKey = [u64; 2];

fn key(node: Option<Node>) -> NodeKey {
    let number = |name: Option<Name>| name.map_or(0, Name::number);
    match node {
        None => [0, 0],
        Some(Node::Service(name)) => [u64::from(name.number()), 0],
        Some(Node::Unseen(protocol, server)) => {
            let (address, port) = server.unzip();
            let port = port.flatten().map_or(1, |port| u64::from(port) + 2);
            [u64::from(number(protocol)) << 32 | u64::from(number(address)), port]
        }
    }
}

/// Counts a call. If only one side was seen, its duration stands for both.
fn count(
    bounds: &super::Bounds,
    series: &mut Series,
    call: &Call,
    callee: Option<&Call>,
    exemplar: Option<impl Fn(i64) -> Exemplar>,
) {
    series.failed += u64::from(call.error);
    let (client, server) = (call.duration_nano, callee.unwrap_or(call).duration_nano);
    let Series { durations, other_durations, .. } = series;
    for (histogram, nano) in [(Some(durations), server), (other_durations.as_mut(), client)] {
        let Some(histogram) = histogram else { continue };
        let bucket = bounds.bucket(nano);
        histogram.count(nano, bucket);
        if let Some(exemplar) = &exemplar {
            histogram.keep(bucket, exemplar(nano));
        }
    }
}

fn connection_type(from: Option<Node>, to: Node, call: &Call, names: &Names) -> ConnectionType {
    let system = call.protocol.and_then(|protocol| names.system(protocol));
    match system.map(|system| system.kind) {
        _ if from.is_none() => ConnectionType::VirtualNode,
        Some(ServiceKind::Database | ServiceKind::Cache) => ConnectionType::Database,
        Some(ServiceKind::Broker) => ConnectionType::MessagingSystem,
        _ if matches!((from, to), (Some(Node::Service(_)), Node::Service(_))) => {
            ConnectionType::Direct
        }
        _ => ConnectionType::VirtualNode,
    }
}
