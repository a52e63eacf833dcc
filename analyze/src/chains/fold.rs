//! Keeping within the bound of memory. No run is lost as long as entrances have room.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ahash::AHashSet;

use super::figures::MAX_CHAINS;
use super::{Chains, PathId, Shape, ShapeId};

/// The most shapes, and the most paths of all shapes together.
pub(super) const MOST: Bound = Bound { shapes: 20_000, cells: 1_000_000 };

/// Up to so many paths, shapes are kept apart.
const FEW_CELLS: usize = 100_000;
/// A chain has at most this part of all paths.
const LARGEST: usize = 16;

/// A bound of memory.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) shapes: usize,
    /// Paths of all shapes.
    pub(super) cells: usize,
}

impl Bound {
    /// Whether it is kept.
    fn holds(self, chains: &Chains) -> bool {
        chains.shapes.len() <= self.shapes && chains.cells <= self.cells
    }

    /// What is aimed at, so that folding is rare.
    const fn parts(self, of_four: usize) -> Self {
        Self { shapes: self.shapes * of_four / 4, cells: self.cells * of_four / 4 }
    }
}

impl Shape {
    /// The number of paths of the shape itself.
    pub(super) fn own_len(&self) -> usize {
        self.own.as_ref().map_or(self.paths.len(), |own| own.len())
    }

    /// The paths of the shape itself, sorted.
    fn own_paths(&self) -> impl Iterator<Item = PathId> {
        let (own, all) = match &self.own {
            Some(own) => (Some(own.iter().copied()), None),
            None => (None, Some(self.paths.keys().copied())),
        };
        own.into_iter().flatten().chain(all.into_iter().flatten())
    }

    /// Whether another shape belongs to the chain that this one founded: all of its paths are the
    /// founder's, or at least half of the paths of both together are common.
    pub(super) fn is_joined_by(&self, other: &Self) -> bool {
        let mut own = self.own_paths().peekable();
        let mut common = 0;
        for path in other.own_paths() {
            while own.next_if(|own| *own < path).is_some() {}
            common += usize::from(own.next_if_eq(&path).is_some());
        }
        common == other.own_len() || 2 * common >= self.own_len() + other.own_len() - common
    }

    /// Adds the figures of another shape, but not its paths to the shape's own ones.
    fn take_in(&mut self, other: &Self) {
        if self.own.is_none() {
            self.own = Some(self.paths.keys().copied().collect());
        }
        let own = self.own.take();
        self.merge(other);
        self.own = own;
    }
}

impl Chains {
    /// Makes room if there are many shapes or the bound is reached. First, shapes join their chains, as they do in the end.
    /// Then the rarest chains of an entrance join its largest one. If there are too many entrances,
    /// the rarest are folded.
    pub(super) fn fold(&mut self, most: Bound) {
        let join_at = self.join_at.max(FEW_CELLS);
        if most.holds(self) && self.cells <= join_at {
            return;
        }
        self.join(most, false);
        // Where each run has a shape of its own, memory is at most twice that of the chains.
        self.join_at = 2 * self.cells;
        if !most.parts(3).holds(self) {
            self.join(most, true);
        }
        if !most.parts(3).holds(self) {
            self.drop_rarest(most.parts(2));
        }
        let used: AHashSet<PathId> =
            self.shapes.values().flat_map(|shape| shape.paths.keys().copied()).collect();
        self.paths.retain(|id, _| used.contains(id));
    }

    /// Joins shapes of one entrance to chains; if `all`, to the largest one. What would give a chain
    /// too much of the room, such as ever new names below one entrance, is folded.
    fn join(&mut self, most: Bound, all: bool) {
        let largest = most.cells / LARGEST;
        let mut shapes: Vec<(ShapeId, Shape)> =
            std::mem::take(&mut self.shapes).into_iter().collect();
        shapes.sort_by_key(|(key, shape)| (Reverse(shape.runs), *key));
        let mut founders: BTreeMap<PathId, Vec<(ShapeId, Shape)>> = BTreeMap::new();
        for (key, shape) in shapes {
            let of_root = founders.entry(shape.root).or_default();
            match of_root.iter_mut().find(|(_, founder)| all || founder.is_joined_by(&shape)) {
                Some((_, founder)) if founder.paths.len() + shape.paths.len() > largest => {
                    self.folded_shapes += 1;
                    self.folded_runs += shape.runs;
                }
                Some((_, founder)) => {
                    if all {
                        self.misplaced_runs += shape.runs;
                    }
                    self.joined_shapes += 1;
                    founder.take_in(&shape);
                }
                None => of_root.push((key, shape)),
            }
        }
        self.shapes = founders.into_values().flatten().collect();
        self.cells = self.shapes.values().map(|shape| shape.paths.len()).sum();
    }

    /// In entrances whose shapes have more paths than this together, the rarer shapes join their
    /// chains for good, as they do in the end. Those with most runs stay apart. Returns the shapes
    /// that joined, each with the one that it joined.
    pub(crate) fn join_rare_shapes(&mut self, most_paths: usize) -> Vec<(ShapeId, ShapeId)> {
        let mut joined: Vec<(ShapeId, ShapeId)> = Vec::new();
        let mut of_root: BTreeMap<PathId, Vec<(ShapeId, Shape)>> = BTreeMap::new();
        for (key, shape) in std::mem::take(&mut self.shapes) {
            of_root.entry(shape.root).or_default().push((key, shape));
        }
        for (_, mut shapes) in of_root {
            let all: usize = shapes.iter().map(|(_, shape)| shape.paths.len()).sum();
            if all <= most_paths {
                self.shapes.extend(shapes);
                continue;
            }
            shapes.sort_by_key(|(key, shape)| (Reverse(shape.runs), *key));
            let mut kept: Vec<(ShapeId, Shape)> = Vec::new();
            // Places of founders, with their paths.
            let mut founders: Vec<(usize, Shape)> = Vec::new();
            let mut paths = 0;
            for (key, shape) in shapes {
                let fitting = founders.iter().find(|(_, founder)| founder.is_joined_by(&shape));
                let full = founders.last().filter(|_| founders.len() >= MAX_CHAINS);
                match fitting.or(full).map(|(place, _)| *place) {
                    Some(place) if paths + shape.paths.len() > most_paths => {
                        self.joined_shapes += 1;
                        joined.push((key, kept[place].0));
                        kept[place].1.take_in(&shape);
                        continue;
                    }
                    Some(_) => {}
                    None => founders.push((kept.len(), shape.clone())),
                }
                paths += shape.paths.len();
                kept.push((key, shape));
            }
            self.shapes.extend(kept);
        }
        self.cells = self.shapes.values().map(|shape| shape.paths.len()).sum();
        joined
    }

    fn drop_rarest(&mut self, aim: Bound) {
        let mut rarest: Vec<(u64, ShapeId)> =
            self.shapes.iter().map(|(key, shape)| (shape.runs, *key)).collect();
        rarest.sort_unstable();
        for (runs, key) in rarest {
            if aim.holds(self) {
                break;
            }
            let shape = self.shapes.remove(&key);
            self.cells -= shape.map_or(0, |shape| shape.paths.len());
            self.folded_shapes += 1;
            self.folded_runs += runs;
        }
    }
}
