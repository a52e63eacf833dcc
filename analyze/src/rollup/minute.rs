//! The figures of a minute.

use ahash::AHashMap;

use super::bytes::{Reader, RollupError, Writer};
use crate::chains::{ChainCall, Chains, ShapeId, Sketch, less};
use crate::names::{Name, Names};
use spanwise_model::TraceId;

/// The form of the bytes.
pub(super) const VERSION: u8 = 1;
/// The most operations, and the most edges between them.
const MOST_OPERATIONS: usize = 100_000;
const MOST_EDGES: usize = 200_000;
/// Paths of the shapes of one entrance in an hour, from which on rarer shapes join their chains.
const MOST_PATHS_OF_ENTRANCE: usize = 2_000;

/// Calls of an operation, or from one operation to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timed {
    /// Calls.
    pub calls: u64,
    /// Failed calls.
    pub failures: u64,
    /// Sum of self times.
    pub self_nano: u128,
    /// Durations on the caller's side.
    pub durations: Sketch,
}

impl Timed {
    fn count(&mut self, call: &ChainCall<'_>) {
        self.calls += 1;
        self.failures += u64::from(call.failed);
        self.self_nano += u128::from(call.self_nano.max(0).unsigned_abs());
        self.durations.add(call.end_unix_nano.saturating_sub(call.start_unix_nano));
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failures += other.failures;
        self.self_nano += other.self_nano;
        self.durations.merge(&other.durations);
    }

    fn subtract(&mut self, other: &Self) {
        less(&mut self.calls, other.calls);
        less(&mut self.failures, other.failures);
        self.self_nano = self.self_nano.saturating_sub(other.self_nano);
        self.durations.subtract(&other.durations);
    }

    fn write(&self, out: &mut Writer) {
        out.number(self.calls);
        out.number(self.failures);
        out.large(self.self_nano);
        out.counts(self.durations.counts());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, RollupError> {
        Ok(Self {
            calls: from.count()?,
            failures: from.count()?,
            self_nano: from.sum()?,
            durations: Sketch::of(from.counts()?),
        })
    }
}

/// A service's operation, by names of the minute.
type Key = (Name, Name);

/// The figures of traces whose first call was in one minute: per chain, operation and edge. Minutes
/// merge, in any order, to the figures of hours and days.
#[derive(Debug, Default)]
pub struct Minute {
    names: Names,
    chains: Chains,
    operations: AHashMap<Key, Timed>,
    edges: AHashMap<(Key, Key), Timed>,
    /// Calls of operations and of edges for which there was no room. Chains may count them.
    pub folded_calls: u64,
    /// Shapes that joined others, and which.
    joined: Vec<(ShapeId, ShapeId)>,
}

/// Places of the callers' names, for reuse.
#[derive(Debug, Default)]
pub(super) struct Scratch(Vec<Key>);

impl Minute {
    /// Adds the calls of a trace, callers before the called.
    pub fn add_calls(&mut self, trace_id: TraceId, calls: &[ChainCall<'_>]) {
        self.add(trace_id, calls, &mut Scratch::default());
    }

    pub(super) fn add(
        &mut self,
        trace_id: TraceId,
        calls: &[ChainCall<'_>],
        scratch: &mut Scratch,
    ) {
        self.chains.add_calls(trace_id, calls);
        scratch.0.clear();
        for call in calls {
            let key = (self.names.name(call.service), self.names.name(call.operation));
            scratch.0.push(key);
            match room(&mut self.operations, key, MOST_OPERATIONS) {
                Some(timed) => timed.count(call),
                None => self.folded_calls += 1,
            }
            let Some(caller) = call.parent.map(|parent| scratch.0[parent]) else { continue };
            match room(&mut self.edges, (caller, key), MOST_EDGES) {
                Some(timed) => timed.count(call),
                None => self.folded_calls += 1,
            }
        }
    }

    /// Adds what the other counted.
    pub fn merge(&mut self, other: &Self) {
        self.chains.merge(&other.chains);
        self.folded_calls += other.folded_calls;
        for (key, timed) in &other.operations {
            let key = self.key(*key, &other.names);
            match room(&mut self.operations, key, MOST_OPERATIONS) {
                Some(kept) => kept.merge(timed),
                None => self.folded_calls += timed.calls,
            }
        }
        for ((caller, called), timed) in &other.edges {
            let edge = (self.key(*caller, &other.names), self.key(*called, &other.names));
            match room(&mut self.edges, edge, MOST_EDGES) {
                Some(kept) => kept.merge(timed),
                None => self.folded_calls += timed.calls,
            }
        }
    }

    /// Adds what the other counted, which is needed no more.
    pub fn merge_all(&mut self, mut other: Self) {
        self.chains.merge_all(std::mem::take(&mut other.chains));
        self.merge(&other);
    }

    /// Makes room: in entrances with many shapes, the rarer ones join their chains for good. For
    /// hours, which are kept long and read often.
    pub fn join_rare_shapes(&mut self) {
        self.joined.extend(self.chains.join_rare_shapes(MOST_PATHS_OF_ENTRANCE));
    }

    /// Takes away what the other counted.
    pub fn subtract(&mut self, other: &Self) {
        self.chains.subtract(&other.chains);
        for (key, timed) in &other.operations {
            let key = self.key(*key, &other.names);
            take(&mut self.operations, key, timed);
        }
        for ((caller, called), timed) in &other.edges {
            let edge = (self.key(*caller, &other.names), self.key(*called, &other.names));
            take(&mut self.edges, edge, timed);
        }
    }

    /// Its chains, with LR, DR, CR, dependencies and loads.
    pub const fn chains(&self) -> &Chains {
        &self.chains
    }

    /// The same without the rest.
    pub fn into_chains(self) -> Chains {
        self.chains
    }

    /// Shapes that joined others, and which.
    pub(super) fn joined(&self) -> &[(ShapeId, ShapeId)] {
        &self.joined
    }

    pub(super) const fn chains_mut(&mut self) -> &mut Chains {
        &mut self.chains
    }

    /// Counts a trace with missing or doubtful links, which no chain contains.
    pub const fn leave_out(&mut self) {
        self.chains.runs_left_out += 1;
    }

    /// Figures of all operations, by service and name.
    pub fn operations(&self) -> impl Iterator<Item = ([&str; 2], &Timed)> {
        self.operations.iter().map(|(key, timed)| (self.texts(*key), timed))
    }

    /// Figures of all edges: service and operation of the caller and of the called.
    pub fn edges(&self) -> impl Iterator<Item = ([&str; 2], [&str; 2], &Timed)> {
        self.edges
            .iter()
            .map(|((caller, called), timed)| (self.texts(*caller), self.texts(*called), timed))
    }

    /// The figures as bytes, the same on every machine.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.chains.write(&mut out);
        self.write_operations(&mut out);
        out.finish(VERSION)
    }

    pub(super) fn write_operations(&self, out: &mut Writer) {
        out.number(self.folded_calls);
        let mut operations: Vec<_> = self.operations().collect();
        operations.sort_unstable_by_key(|(key, _)| *key);
        out.length(operations.len());
        for (key, timed) in operations {
            key.into_iter().for_each(|text| out.text(text));
            timed.write(out);
        }
        let mut edges: Vec<_> = self.edges().collect();
        edges.sort_unstable_by_key(|(caller, called, _)| (*caller, *called));
        out.length(edges.len());
        for (caller, called, timed) in edges {
            caller.into_iter().chain(called).for_each(|text| out.text(text));
            timed.write(out);
        }
    }

    /// The figures in these bytes.
    ///
    /// # Errors
    /// If a later program wrote them, or they are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RollupError> {
        let from = &mut Reader::new(bytes, VERSION)?;
        let chains = Chains::read(from)?;
        let mut minute = Self { chains, ..Self::default() };
        minute.read_operations(from)?;
        from.end()?;
        Ok(minute)
    }

    /// Reads what [`Self::write_operations`] wrote into figures that have none yet.
    pub(super) fn read_operations(&mut self, from: &mut Reader<'_>) -> Result<(), RollupError> {
        self.folded_calls = from.count()?;
        for _ in 0..from.length()? {
            let key = self.read_key(from)?;
            self.operations.insert(key, Timed::read(from)?);
        }
        for _ in 0..from.length()? {
            let edge = (self.read_key(from)?, self.read_key(from)?);
            self.edges.insert(edge, Timed::read(from)?);
        }
        Ok(())
    }

    fn read_key(&mut self, from: &mut Reader<'_>) -> Result<Key, RollupError> {
        Ok((self.names.name(from.text()?), self.names.name(from.text()?)))
    }

    fn key(&mut self, key: Key, of: &Names) -> Key {
        (self.names.name(of.text(key.0)), self.names.name(of.text(key.1)))
    }

    fn texts(&self, key: Key) -> [&str; 2] {
        [self.names.text(key.0), self.names.text(key.1)]
    }
}

/// The figures of this key, if there is room for it.
fn room<K: Eq + std::hash::Hash>(
    figures: &mut AHashMap<K, Timed>,
    key: K,
    most: usize,
) -> Option<&mut Timed> {
    if figures.len() >= most && !figures.contains_key(&key) {
        return None;
    }
    Some(figures.entry(key).or_default())
}

fn take<K: Eq + std::hash::Hash>(figures: &mut AHashMap<K, Timed>, key: K, timed: &Timed) {
    let Some(kept) = figures.get_mut(&key) else { return };
    kept.subtract(timed);
    if kept.calls == 0 {
        figures.remove(&key);
    }
}
