//! The right answers: what runs really did, and what the call graph makes one expect.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ahash::AHashMap;

use crate::paths::{PathAt, Paths};
use crate::topology::{Edge, Mode, OperationAt, Topology};
use crate::traffic::Made;

/// What happened on a path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) calls: u64,
    /// Runs with such a call.
    pub(crate) runs: u64,
    pub(crate) self_nano: i128,
}

/// Runs with figures of their paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    pub(crate) runs: u64,
    pub(crate) paths: BTreeMap<PathAt, Counted>,
}

impl Runs {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        for (path, counted) in &other.paths {
            let kept = self.paths.entry(*path).or_default();
            kept.calls += counted.calls;
            kept.runs += counted.runs;
            kept.self_nano += counted.self_nano;
        }
    }
}

/// What really happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Truth {
    /// By path of the entrance.
    pub(crate) entrances: BTreeMap<PathAt, Runs>,
    /// By path of the entrance and set of paths, if they are few.
    shapes: Option<AHashMap<Vec<PathAt>, Runs>>,
}

impl Truth {
    pub(crate) fn new(keeps_shapes: bool) -> Self {
        Self { entrances: BTreeMap::new(), shapes: keeps_shapes.then(AHashMap::new) }
    }

    pub(crate) fn add(&mut self, made: &[Made]) {
        let Some(root) = made.first() else { return };
        let mut run = Runs { runs: 1, paths: BTreeMap::new() };
        for call in made {
            let counted = run.paths.entry(call.path).or_default();
            counted.calls += 1;
            counted.runs = 1;
            counted.self_nano += i128::from(call.self_nano);
        }
        self.entrances.entry(root.path).or_default().add(&run);
        if let Some(shapes) = &mut self.shapes {
            shapes.entry(run.paths.keys().copied().collect()).or_default().add(&run);
        }
    }

    /// Chains by the written rule, with the paths of their founders.
    pub(crate) fn chains(&self) -> Vec<(Vec<PathAt>, Runs)> {
        let mut shapes: Vec<_> = self.shapes.iter().flatten().collect();
        shapes.sort_by_key(|(paths, runs)| (Reverse(runs.runs), (*paths).clone()));
        let mut chains: Vec<(Vec<PathAt>, Runs)> = Vec::new();
        for (paths, runs) in shapes {
            let joins = |founder: &Vec<PathAt>| {
                let common = paths.iter().filter(|path| founder.contains(path)).count();
                let together = founder.len() + paths.len() - common;
                founder[0] == paths[0] && (common == paths.len() || 2 * common >= together)
            };
            match chains.iter_mut().find(|(founder, _)| joins(founder)) {
                Some((_, chain)) => chain.add(runs),
                None => chains.push((paths.clone(), runs.clone())),
            }
        }
        chains
    }
}

/// What probabilities make one expect.
pub(crate) struct Expected<'a> {
    topology: &'a Topology,
    /// That a call of an operation fails.
    failures: Vec<f64>,
}

impl<'a> Expected<'a> {
    pub(crate) fn of(topology: &'a Topology) -> Self {
        let failures = vec![0.0; topology.operations.len()];
        let mut expected = Self { topology, failures };
        // Operations call only later ones.
        for (at, operation) in topology.operations.iter().enumerate().rev() {
            let goes_on: f64 =
                operation.edges.iter().map(|edge| 1.0 - expected.stops(edge)).product();
            expected.failures[at] = 1.0 - (1.0 - operation.failure) * goes_on;
        }
        expected
    }

    /// That an attempt fails.
    fn attempt_fails(&self, edge: &Edge) -> f64 {
        match edge.mode {
            Mode::Request | Mode::Unseen => self.failures[edge.to],
            Mode::Message => 0.0,
        }
    }

    /// That an edge ends its caller.
    fn stops(&self, edge: &Edge) -> f64 {
        if !edge.is_strong {
            return 0.0;
        }
        let item_fails = self.attempt_fails(edge).powi(edge.retries as i32 + 1);
        let all_pass = mean(edge.fan_out, |items| (1.0 - item_fails).powi(items as i32));
        edge.probability * (1.0 - all_pass)
    }

    /// Calls of a path for each call of its caller.
    pub(crate) fn dr(&self, paths: &Paths, at: PathAt) -> f64 {
        let path = paths.get(at);
        let Some(above) = path.above.map(|above| paths.get(above)) else { return 1.0 };
        if above.is_broker {
            return 1.0;
        }
        let caller = &self.topology.operations[above.operation];
        let Some(edge) = edge_to(self.topology, above.operation, path.operation) else {
            return 0.0;
        };
        let before = caller.edges.iter().filter(|other| other.group < edge.group);
        let reached: f64 = before.map(|other| 1.0 - self.stops(other)).product();
        let fails = self.attempt_fails(edge);
        let attempts: f64 = (0..=edge.retries).map(|attempt| fails.powi(attempt as i32)).sum();
        let item_fails = fails.powi(edge.retries as i32 + 1);
        let items = mean(edge.fan_out, |items| match edge.is_strong {
            true => (0..items).map(|item| (1.0 - item_fails).powi(item as i32)).sum(),
            false => f64::from(items),
        });
        (1.0 - caller.failure / 2.0) * reached * edge.probability * items * attempts
    }
}

/// The edge of one operation to another.
pub(crate) fn edge_to(topology: &Topology, from: OperationAt, to: OperationAt) -> Option<&Edge> {
    topology.operations[from].edges.iter().find(|edge| edge.to == to)
}

fn mean((least, most): (u32, u32), of: impl Fn(u32) -> f64) -> f64 {
    (least..=most).map(of).sum::<f64>() / f64::from(most - least + 1)
}
