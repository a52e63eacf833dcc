//! Chains with LR, DR and CR, and predicted loads.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Chains, Operation, PathFigures, PathId, Shape, ShapeId, Verdict};

/// The most chains of one entrance. Names with ids in them would make as many as there are runs.
pub(super) const MAX_CHAINS: usize = 500;

/// Runs of one entrance with nearly the same calls.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The entrance's service.
    pub service: String,
    /// The entrance's operation.
    pub operation: String,
    /// The shapes that are merged in it, the founder first.
    pub shapes: Vec<ShapeId>,
    /// Their runs, together.
    pub total: Shape,
    /// Its calls in depth-first order, those with most calls first.
    pub nodes: Vec<ChainNode>,
}

/// A call of a chain.
#[derive(Debug, Clone)]
pub struct ChainNode {
    /// The place in call trees.
    pub path: PathId,
    /// 0 for the entrance.
    pub level: usize,
    /// The called service.
    pub service: String,
    /// The called operation.
    pub operation: String,
    /// Share of the chain's response time.
    pub lr: f64,
    /// Calls for each call of the caller; 1 for the entrance.
    pub dr: f64,
    /// Calls for each run.
    pub cr: f64,
    /// Share of runs with such a call.
    pub present: f64,
    /// The counts.
    pub figures: PathFigures,
    /// Whether its caller depends on it.
    pub edge: Verdict,
    /// Whether the rest of the chain depends on it.
    pub chain: Verdict,
}

/// A load on an operation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Load {
    /// Calls per second now.
    pub now_per_second: f64,
    /// Calls per second with the scaled entrances.
    pub predicted_per_second: f64,
    /// Seconds of self time per second now.
    pub busy_now: f64,
    /// Seconds of self time per second with the scaled entrances, if calls take as long as now.
    pub busy_predicted: f64,
    /// The part of the prediction that each chain causes, by the chain's place in the list.
    pub by_chain: BTreeMap<usize, f64>,
}

impl Load {
    /// Adds another one.
    pub fn merge(&mut self, other: &Self) {
        self.now_per_second += other.now_per_second;
        self.predicted_per_second += other.predicted_per_second;
        self.busy_now += other.busy_now;
        self.busy_predicted += other.busy_predicted;
        for (chain, rate) in &other.by_chain {
            *self.by_chain.entry(*chain).or_default() += rate;
        }
    }
}

/// Shapes that are being merged to one chain.
struct Group<'a> {
    founder: &'a Shape,
    total: Shape,
    shapes: Vec<ShapeId>,
}

impl Chains {
    /// The chains, most runs first. Shapes join as `docs/analysis.md` says.
    pub fn chains(&self) -> Vec<Chain> {
        let mut shapes: Vec<(&ShapeId, &Shape)> = self.shapes.iter().collect();
        shapes.sort_unstable_by_key(|(key, shape)| (Reverse(shape.runs), **key));
        let mut groups: BTreeMap<PathId, Vec<Group<'_>>> = BTreeMap::new();
        for (key, shape) in shapes {
            let groups = groups.entry(shape.root).or_default();
            let fitting = groups.iter().position(|group| group.founder.is_joined_by(shape));
            let full = groups.len().checked_sub(1).filter(|last| last + 1 >= MAX_CHAINS);
            match fitting.or(full).map(|place| &mut groups[place]) {
                Some(group) => {
                    group.total.merge(shape);
                    group.shapes.push(*key);
                }
                None => {
                    groups.push(Group { founder: shape, total: shape.clone(), shapes: vec![*key] })
                }
            }
        }
        if let Some((asked, founder)) = self.asked {
            let mut all = groups.values_mut().flatten();
            if let Some(group) = all.find(|group| group.shapes.contains(&founder))
                && !group.shapes.contains(&asked)
            {
                group.shapes.push(asked);
            }
        }
        let mut chains: Vec<Chain> =
            groups.into_values().flatten().map(|group| self.chain(group)).collect();
        chains.sort_by_key(|chain| Reverse(chain.total.runs));
        chains
    }

    fn chain(&self, group: Group<'_>) -> Chain {
        let total = group.total;
        let whole: u128 = total.paths.values().map(|figures| figures.self_nano).sum();
        let mut below: BTreeMap<PathId, Vec<PathId>> = BTreeMap::new();
        for path in total.paths.keys() {
            if let Some(parent) = self.paths[path].parent {
                below.entry(parent).or_default().push(*path);
            }
        }
        let mut nodes = Vec::with_capacity(total.paths.len());
        let mut stack = vec![total.root];
        while let Some(id) = stack.pop() {
            let (path, figures) = (&self.paths[&id], &total.paths[&id]);
            // All of them were taken away.
            if figures.calls == 0 {
                continue;
            }
            let callers = path.parent.map_or(total.runs, |parent| total.paths[&parent].calls);
            nodes.push(ChainNode {
                path: id,
                level: path.level,
                service: path.service.clone(),
                operation: path.operation.clone(),
                lr: figures.self_nano as f64 / whole.max(1) as f64,
                dr: figures.calls as f64 / callers.max(1) as f64,
                cr: figures.calls as f64 / total.runs.max(1) as f64,
                present: figures.runs as f64 / total.runs.max(1) as f64,
                figures: figures.clone(),
                edge: figures.below_caller.verdict(),
                chain: figures.in_chain.verdict(),
            });
            let mut children = below.remove(&id).unwrap_or_default();
            children.sort_by_key(|child| total.paths[child].calls);
            stack.append(&mut children);
        }
        let root = &self.paths[&total.root];
        let (service, operation) = (root.service.clone(), root.operation.clone());
        Chain { service, operation, shapes: group.shapes, total, nodes }
    }
}

/// The load on every operation if entrances are called more often. `factor` gives that of a chain.
/// Linear: every run makes the calls that runs make now.
pub fn capacity(
    chains: &[Chain],
    window_seconds: f64,
    factor: impl Fn(&Chain) -> f64,
) -> BTreeMap<Operation, Load> {
    let mut loads: BTreeMap<Operation, Load> = BTreeMap::new();
    if window_seconds <= 0.0 {
        return loads;
    }
    for (place, chain) in chains.iter().enumerate() {
        let factor = factor(chain);
        for node in &chain.nodes {
            let (service, operation) = (node.service.clone(), node.operation.clone());
            let now = node.figures.calls as f64 / window_seconds;
            let busy = node.figures.self_nano as f64 / 1e9 / window_seconds;
            let load = loads.entry(Operation { service, operation }).or_default();
            load.now_per_second += now;
            load.predicted_per_second += now * factor;
            load.busy_now += busy;
            load.busy_predicted += busy * factor;
            *load.by_chain.entry(place).or_default() += now * factor;
        }
    }
    loads
}
