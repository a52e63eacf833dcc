//! The analysis against the truth.

use std::collections::BTreeMap;

use ahash::AHashMap;
use spanwise_analyze::{Chain, Chains, Dependency};

use crate::paths::{Labelled, PathAt, Paths};
use crate::topology::{Mode, Topology};
use crate::truth::{Counted, Expected, Runs, Truth};

/// Paths whose callers were called less often are not held against probabilities: chance alone
/// would be more than the goal.
const LEAST_FOR_CHANCE: u64 = 100_000;
/// Edges with fewer failures need no verdict.
const LEAST_FAILURES: u64 = 20;
/// Operations that fewer runs call have no load that one could predict to 3 %: chance alone moves
/// it by 1 %.
pub(crate) const LEAST_RUNS: u64 = 100_000;

/// The worst errors, and what they are of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Worst {
    /// Figures that were compared.
    pub(crate) compared: usize,
    pub(crate) error: f64,
    pub(crate) what: String,
}

impl Worst {
    fn see(&mut self, found: f64, truth: f64, what: impl FnOnce() -> String) {
        self.compared += 1;
        let error = (found - truth).abs() / truth.max(1.0);
        if error > self.error || self.compared == 1 {
            (self.error, self.what) = (error, format!("{}: {found:.4}, not {truth:.4}", what()));
        }
    }

    pub(crate) fn worst(&mut self, other: &Self) {
        self.compared += other.compared;
        if other.error >= self.error {
            (self.error, self.what) = (other.error, other.what.clone());
        }
    }
}

/// Verdicts that were right, of how many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdicts {
    pub(crate) edges: usize,
    pub(crate) right: usize,
    pub(crate) wrong: Vec<String>,
}

/// Paths of the truth for the nodes of a chain. Nothing if there is no such path.
fn places(chain: &Chain, labels: &Labelled) -> Vec<Option<PathAt>> {
    let mut above: Vec<Option<PathAt>> = Vec::new();
    let mut places = Vec::with_capacity(chain.nodes.len());
    for node in &chain.nodes {
        above.truncate(node.level);
        let caller = above.last().copied();
        let place = match caller {
            Some(None) => None,
            caller => labels
                .get(&(caller.flatten(), node.service.clone(), node.operation.clone()))
                .copied(),
        };
        above.push(place);
        places.push(place);
    }
    places
}

/// LR, DR and CR of chains, and of all chains of each entrance together, against what happened and
/// what was to be expected.
pub(crate) fn figures(
    chains: &[Chain],
    truth: &Truth,
    paths: &Paths,
    topology: &Topology,
) -> (Worst, Worst) {
    let labels = paths.labels(topology);
    let (mut exact, mut by_chance) = (Worst::default(), Worst::default());
    let mut entrances: BTreeMap<PathAt, Runs> = BTreeMap::new();
    let known = truth.chains();
    for chain in chains {
        let places = places(chain, &labels);
        let Some(root) = places.first().copied().flatten() else {
            exact.see(1.0, 0.0, || format!("{} is no entrance", chain.service));
            continue;
        };
        let sum = entrances.entry(root).or_default();
        sum.runs += chain.total.runs;
        for (node, place) in chain.nodes.iter().zip(&places) {
            let Some(place) = place else {
                exact.see(1.0, 0.0, || {
                    format!("{} {} was not called here", node.service, node.operation)
                });
                continue;
            };
            let counted = sum.paths.entry(*place).or_default();
            counted.calls += node.figures.calls;
            counted.self_nano += i128::try_from(node.figures.self_nano).unwrap_or(i128::MAX);
        }
        // Among equally rare shapes the rule's order is not known here, so only chains of some size
        // are compared.
        let whole = truth.entrances.get(&root).map_or(0, |runs| runs.runs);
        if known.is_empty() || chain.total.runs * 50 < whole {
            continue;
        }
        let of_root = known.iter().filter(|(founder, _)| founder[0] == root);
        let nearest = of_root.min_by_key(|(_, runs)| {
            let common = places.iter().flatten().filter(|at| runs.paths.contains_key(at)).count();
            (runs.runs.abs_diff(chain.total.runs), places.len().abs_diff(common))
        });
        let Some((_, runs)) = nearest else { continue };
        let wanted = of(runs, paths);
        let found: BTreeMap<PathAt, [f64; 3]> = (chain.nodes.iter().zip(&places))
            .filter_map(|(node, place)| Some(((*place)?, [node.lr, node.dr, node.cr])))
            .collect();
        against(&mut exact, &found, &wanted, paths, topology);
    }
    let expected = Expected::of(topology);
    for (root, runs) in &truth.entrances {
        let found = entrances.remove(root).unwrap_or_default();
        let (found_of, wanted) = (of(&found, paths), of(runs, paths));
        against(&mut exact, &found_of, &wanted, paths, topology);
        exact.see(found.runs as f64 / runs.runs as f64, 1.0, || "runs".into());
        let calls = |at: PathAt| runs.paths.get(&at).map_or(0, |counted| counted.calls);
        for (at, [_, dr, cr]) in &found_of {
            let Some(above) = paths.get(*at).above else { continue };
            if calls(above) < LEAST_FOR_CHANCE {
                continue;
            }
            by_chance.see(*dr, expected.dr(paths, *at), || {
                format!("DR of {}", name(*at, paths, topology))
            });
            let ups = std::iter::successors(Some(*at), |at| paths.get(*at).above);
            let wanted: f64 = ups.map(|at| expected.dr(paths, at)).product();
            by_chance.see(*cr, wanted, || format!("CR of {}", name(*at, paths, topology)));
        }
    }
    (exact, by_chance)
}

/// LR, DR and CR, from their definitions.
fn of(runs: &Runs, paths: &Paths) -> BTreeMap<PathAt, [f64; 3]> {
    let whole: i128 = runs.paths.values().map(|counted| counted.self_nano).sum();
    let figures = |(at, counted): (&PathAt, &Counted)| {
        let above = paths.get(*at).above.and_then(|above| runs.paths.get(&above));
        let callers = above.map_or(runs.runs, |above| above.calls);
        let lr = counted.self_nano as f64 / whole as f64;
        let calls = counted.calls as f64;
        (*at, [lr, calls / callers as f64, calls / runs.runs as f64])
    };
    runs.paths.iter().map(figures).collect()
}

fn against(
    worst: &mut Worst,
    found: &BTreeMap<PathAt, [f64; 3]>,
    wanted: &BTreeMap<PathAt, [f64; 3]>,
    paths: &Paths,
    topology: &Topology,
) {
    for at in found.keys().chain(wanted.keys().filter(|at| !found.contains_key(at))) {
        let (found, wanted) = (
            found.get(at).copied().unwrap_or_default(),
            wanted.get(at).copied().unwrap_or_default(),
        );
        for (figure, (found, wanted)) in ["LR", "DR", "CR"].iter().zip(found.iter().zip(&wanted)) {
            worst.see(*found, *wanted, || format!("{figure} of {}", name(*at, paths, topology)));
        }
    }
}

fn name(at: PathAt, paths: &Paths, topology: &Topology) -> String {
    let (service, operation) = paths.label(at, topology);
    format!("{service} {operation}")
}

/// Strong and weak, for each edge between operations with enough failures.
pub(crate) fn verdicts(chains: &Chains, topology: &Topology) -> Verdicts {
    let mut known: AHashMap<[&str; 4], bool> = AHashMap::new();
    for caller in &topology.operations {
        for edge in caller.edges.iter().filter(|edge| edge.mode != Mode::Message) {
            let to = &topology.operations[edge.to];
            known.insert([&caller.service, &caller.name, &to.service, &to.name], edge.is_strong);
        }
    }
    let mut verdicts = Verdicts::default();
    for ((from, to), strength) in chains.strengths() {
        if strength.follow.failures < LEAST_FAILURES {
            continue;
        }
        let edge = [&*from.service, &*from.operation, &*to.service, &*to.operation];
        let Some(is_strong) = known.get(&edge) else { continue };
        let wanted = if *is_strong { Dependency::Strong } else { Dependency::Weak };
        let verdict = strength.follow.verdict();
        verdicts.edges += 1;
        if verdict.dependency == wanted {
            verdicts.right += 1;
        } else {
            verdicts
                .wrong
                .push(format!("{edge:?} is {wanted:?}, not {verdict:?} of {:?}", strength.follow));
        }
    }
    verdicts
}

/// Predicted loads against those that were observed later, each by service and operation.
pub(crate) fn capacity(
    predicted: &BTreeMap<(String, String), f64>,
    observed: &BTreeMap<(String, String), (f64, u64)>,
    least_runs: u64,
) -> Worst {
    let mut worst = Worst::default();
    for (name, (load, runs)) in observed {
        if *runs < least_runs {
            continue;
        }
        let found = predicted.get(name).copied().unwrap_or(0.0);
        worst.see(found / load, 1.0, || format!("load of {} {}", name.0, name.1));
    }
    worst
}
