//! Who depends on whom: entrances, edges, and callers and called at any distance.

use std::collections::BTreeMap;

use ahash::AHashMap;

use super::{Chains, Follow, PathFigures, PathId, Sketch};

/// An operation of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation {
    /// The service; the protocol of what was called and not captured.
    pub service: String,
    /// The operation.
    pub operation: String,
}

/// The first call of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entrance {
    /// Runs.
    pub runs: u64,
    /// Runs of which the entrance failed.
    pub failures: u64,
    /// Durations of runs.
    pub durations: Sketch,
    /// Calls of all runs.
    pub calls: u64,
    /// Start of the first run.
    pub first_unix_nano: i64,
    /// Start of the last run.
    pub last_unix_nano: i64,
}

/// Calls from one operation to another, in all chains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strength {
    /// Calls.
    pub calls: u64,
    /// Failed calls.
    pub failures: u64,
    /// What followed calls below the same caller.
    pub follow: Follow,
}

/// An operation above or below another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relation {
    /// The least number of calls between them: 1 for a direct caller.
    pub distance: usize,
    /// Of a caller: calls of the operation that it causes. Of a called one: its calls that the
    /// operation causes.
    pub calls: u64,
}

/// Where the calls of an operation come from, and where they lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Calls of the operation.
    pub calls: u64,
    /// Failed calls.
    pub failures: u64,
    /// Callers at any distance.
    pub callers: BTreeMap<Operation, Relation>,
    /// Called operations at any distance.
    pub called: BTreeMap<Operation, Relation>,
    /// Calls of the operation by the entrance of the run.
    pub entrances: BTreeMap<Operation, u64>,
}

impl Chains {
    /// The entrances.
    pub fn entrances(&self) -> BTreeMap<Operation, Entrance> {
        let mut entrances: BTreeMap<Operation, Entrance> = BTreeMap::new();
        for shape in self.shapes.values() {
            let new = Entrance {
                first_unix_nano: i64::MAX,
                last_unix_nano: i64::MIN,
                ..Entrance::default()
            };
            let entrance = entrances.entry(self.operation(shape.root)).or_insert(new);
            entrance.runs += shape.runs;
            entrance.failures += shape.failures;
            entrance.durations.merge(&shape.durations);
            entrance.calls += shape.paths.values().map(|figures| figures.calls).sum::<u64>();
            entrance.first_unix_nano = entrance.first_unix_nano.min(shape.first_unix_nano);
            entrance.last_unix_nano = entrance.last_unix_nano.max(shape.last_unix_nano);
        }
        entrances
    }

    /// How strongly callers depend on what they call, by caller and called, over all chains.
    pub fn strengths(&self) -> BTreeMap<(Operation, Operation), Strength> {
        let mut strengths: BTreeMap<(Operation, Operation), Strength> = BTreeMap::new();
        for (path, figures) in self.totals() {
            let Some(parent) = self.paths[&path].parent else { continue };
            let edge = (self.operation(parent), self.operation(path));
            let strength = strengths.entry(edge).or_default();
            strength.calls += figures.calls;
            strength.failures += figures.failures;
            strength.follow.merge(&figures.below_caller);
        }
        strengths
    }

    /// What calls a service, or one operation of it, and what it calls, at most `depth` calls away.
    pub fn sources(&self, service: &str, operation: Option<&str>, depth: usize) -> Sources {
        let mut sources = Sources::default();
        let is_asked = |path: PathId| {
            let path = &self.paths[&path];
            path.service == service && operation.is_none_or(|name| path.operation == name)
        };
        for (path, figures) in self.totals() {
            let callers = self.callers(path);
            let root = callers.last().copied().unwrap_or(path);
            if is_asked(path) {
                sources.calls += figures.calls;
                sources.failures += figures.failures;
                *sources.entrances.entry(self.operation(root)).or_default() += figures.calls;
                // An operation that is above twice causes the calls once.
                let mut nearest: BTreeMap<Operation, usize> = BTreeMap::new();
                for (above, caller) in callers.iter().enumerate().take(depth) {
                    nearest.entry(self.operation(*caller)).or_insert(above + 1);
                }
                for (caller, distance) in nearest {
                    relate(&mut sources.callers, caller, distance, figures.calls);
                }
            }
            if let Some(above) = callers.iter().take(depth).position(|caller| is_asked(*caller)) {
                let called = self.operation(path);
                relate(&mut sources.called, called, above + 1, figures.calls);
            }
        }
        sources
    }

    /// Figures of each path over all shapes.
    fn totals(&self) -> AHashMap<PathId, PathFigures> {
        let mut totals: AHashMap<PathId, PathFigures> = AHashMap::with_capacity(self.paths.len());
        for (path, figures) in self.shapes.values().flat_map(|shape| &shape.paths) {
            totals.entry(*path).or_default().merge(figures);
        }
        totals
    }

    /// The paths above this one, the nearest first.
    fn callers(&self, path: PathId) -> Vec<PathId> {
        let parent = |path: &PathId| self.paths[path].parent;
        std::iter::successors(parent(&path), parent).collect()
    }

    fn operation(&self, path: PathId) -> Operation {
        let path = &self.paths[&path];
        Operation { service: path.service.clone(), operation: path.operation.clone() }
    }
}

fn relate(
    relations: &mut BTreeMap<Operation, Relation>,
    operation: Operation,
    distance: usize,
    calls: u64,
) {
    let relation = relations.entry(operation).or_insert(Relation { distance, calls: 0 });
    relation.distance = relation.distance.min(distance);
    relation.calls += calls;
}
