//! Chains as bytes, and the removal of what was counted before.

use std::collections::BTreeMap;

use ahash::AHashMap;
use spanwise_model::TraceId;

use super::{
    Chains, Follow, MAX_LEVEL, Path, PathFigures, PathId, SEED, Shape, ShapeId, Sketch, mix,
    path_id,
};
use crate::rollup::{Reader, RollupError, Writer};

impl Chains {
    /// Takes away what the other one counted, because its traces changed. Examples, and the times of
    /// the first and the last run, stay. Runs that are not found here, because they were folded,
    /// are counted.
    pub fn subtract(&mut self, other: &Self) {
        for (key, shape) in &other.shapes {
            let place = match self.shapes.get(key) {
                Some(kept) if kept.runs >= shape.runs => Some(*key),
                _ => self.shapes.iter().find(|(_, kept)| kept.contains(shape)).map(|(key, _)| *key),
            };
            let Some(place) = place else {
                self.runs_not_subtracted += shape.runs;
                continue;
            };
            let Some(kept) = self.shapes.get_mut(&place) else { continue };
            kept.subtract(shape);
            if kept.runs == 0 {
                self.cells -= kept.paths.len();
                self.shapes.remove(&place);
            }
        }
        self.runs_left_out = self.runs_left_out.saturating_sub(other.runs_left_out);
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        // Callers before the called.
        let mut order: Vec<(&PathId, &Path)> = self.paths.iter().collect();
        order.sort_by_key(|(id, path)| (path.level, **id));
        let places: AHashMap<PathId, usize> =
            order.iter().enumerate().map(|(place, (id, _))| (**id, place)).collect();
        out.length(order.len());
        for (_, path) in &order {
            out.length(path.parent.map_or(0, |parent| places[&parent] + 1));
            out.text(&path.service);
            out.text(&path.operation);
        }
        out.length(self.shapes.len());
        for shape in self.shapes.values() {
            shape.write(out, &places);
        }
        self.left_out().into_iter().for_each(|count| out.number(count));
    }

    /// What is not counted, or not where it belongs.
    pub(crate) const fn left_out(&self) -> [u64; 6] {
        [
            self.joined_shapes,
            self.misplaced_runs,
            self.folded_shapes,
            self.folded_runs,
            self.runs_left_out,
            self.runs_not_subtracted,
        ]
    }

    /// Adds such counts.
    pub(crate) fn add_left_out(&mut self, counts: [u64; 6]) {
        for (kept, count) in self.left_out_mut().into_iter().zip(counts) {
            *kept += count;
        }
    }

    /// Takes back that a run was left out.
    pub(crate) const fn take_back_left_out(&mut self) {
        self.runs_left_out = self.runs_left_out.saturating_sub(1);
    }

    const fn left_out_mut(&mut self) -> [&mut u64; 6] {
        [
            &mut self.joined_shapes,
            &mut self.misplaced_runs,
            &mut self.folded_shapes,
            &mut self.folded_runs,
            &mut self.runs_left_out,
            &mut self.runs_not_subtracted,
        ]
    }

    /// Shapes, ascending, with their entrances.
    pub(crate) fn shape_ids(&self) -> impl Iterator<Item = (ShapeId, PathId)> {
        self.shapes.iter().map(|(id, shape)| (*id, shape.root))
    }

    /// The entrance with a shape.
    pub fn entrance_of(&self, shape: ShapeId) -> Option<PathId> {
        self.shapes.get(&shape).map(|shape| shape.root)
    }

    /// Keeps only the chains of an entrance, and all counts of what is left out.
    pub fn retain_entrance(&mut self, entrance: PathId) {
        self.shapes.retain(|_, shape| shape.root == entrance);
        self.cells = self.shapes.values().map(|shape| shape.paths.len()).sum();
    }

    /// Start of the first run.
    pub fn first_unix_nano(&self) -> Option<i64> {
        self.shapes.values().map(|shape| shape.first_unix_nano).min()
    }

    /// The chains of each entrance by itself.
    pub(crate) fn by_entrance(&self) -> BTreeMap<PathId, Self> {
        let mut parts: BTreeMap<PathId, Self> = BTreeMap::new();
        for (id, shape) in &self.shapes {
            let part = parts.entry(shape.root).or_default();
            for path in shape.paths.keys() {
                part.paths.entry(*path).or_insert_with(|| self.paths[path].clone());
            }
            part.cells += shape.paths.len();
            part.shapes.insert(*id, shape.clone());
        }
        parts
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, RollupError> {
        let mut chains = Self::default();
        let mut order: Vec<PathId> = Vec::new();
        let mut parents: Vec<Option<usize>> = Vec::new();
        for _ in 0..from.length()? {
            let above = from.place(order.len() + 1)?;
            parents.push(above.checked_sub(1));
            let parent = above.checked_sub(1).map(|place| order[place]);
            let level = parent.map_or(0, |parent| chains.paths[&parent].level + 1);
            if level >= MAX_LEVEL {
                return Err(RollupError::Damaged);
            }
            let (service, operation) = (from.text()?.to_owned(), from.text()?.to_owned());
            let id = path_id(parent, &service, &operation);
            order.push(id);
            if chains.paths.insert(id, Path { parent, level, service, operation }).is_some() {
                return Err(RollupError::Damaged);
            }
        }
        // The last shape, by number, that has a path.
        let mut seen: Vec<usize> = vec![0; order.len()];
        for number in 1..=from.length()? {
            let (shape, places) = Shape::read(from, &order)?;
            places.iter().for_each(|place| seen[*place] = number);
            // Figures of a path need those of its caller, up to the entrance.
            let is_whole = places.iter().all(|place| match parents[*place] {
                Some(parent) => seen[parent] == number,
                None => order[*place] == shape.root,
            });
            if !is_whole || places.is_empty() {
                return Err(RollupError::Damaged);
            }
            chains.cells += shape.paths.len();
            if chains.shapes.insert(shape.id(), shape).is_some() {
                return Err(RollupError::Damaged);
            }
        }
        for count in chains.left_out_mut() {
            *count = from.count()?;
        }
        Ok(chains)
    }
}

impl Shape {
    /// The hash of its own paths.
    pub(super) fn id(&self) -> ShapeId {
        let hash = |hash, path: &PathId| mix(hash, &path.0.to_le_bytes());
        ShapeId(match &self.own {
            Some(own) => own.iter().fold(SEED, hash),
            None => self.paths.keys().fold(SEED, hash),
        })
    }

    /// Whether the other's figures can be part of these.
    fn contains(&self, other: &Self) -> bool {
        self.root == other.root
            && self.runs >= other.runs
            && other.paths.iter().all(|(path, figures)| {
                self.paths.get(path).is_some_and(|kept| kept.calls >= figures.calls)
            })
    }

    fn subtract(&mut self, other: &Self) {
        less(&mut self.runs, other.runs);
        less(&mut self.failures, other.failures);
        self.durations.subtract(&other.durations);
        for (path, figures) in &other.paths {
            if let Some(kept) = self.paths.get_mut(path) {
                kept.subtract(figures);
            }
        }
    }

    fn write(&self, out: &mut Writer, places: &AHashMap<PathId, usize>) {
        out.length(places[&self.root]);
        out.number(self.runs);
        out.number(self.failures);
        out.counts(self.durations.counts());
        out.signed(self.first_unix_nano);
        out.signed(self.last_unix_nano.wrapping_sub(self.first_unix_nano));
        out.signed(self.slowest.0);
        out.raw(&self.slowest.1.0);
        out.number(u64::from(self.failed.is_some()));
        if let Some((duration, id)) = self.failed {
            out.signed(duration);
            out.raw(&id.0);
        }
        out.length(self.examples.len());
        for (bucket, id) in &self.examples {
            out.number(u64::from(*bucket));
            out.raw(&id.0);
        }
        out.length(self.paths.len());
        for (id, figures) in &self.paths {
            // The lowest bit tells a path of the shape's own from one that joined.
            let joined = self.own.as_ref().is_some_and(|own| own.binary_search(id).is_err());
            out.length(places[id] << 1 | usize::from(joined));
            figures.write(out);
        }
    }

    /// A shape, and the places of its paths.
    fn read(from: &mut Reader<'_>, order: &[PathId]) -> Result<(Self, Vec<usize>), RollupError> {
        let bucket =
            |from: &mut Reader<'_>| Ok(from.place(usize::from(super::LAST_BUCKET) + 1)? as u16);
        let mut shape = Self::new(order[from.place(order.len())?]);
        shape.runs = from.count()?;
        shape.failures = from.count()?;
        shape.durations = Sketch::of(from.counts()?);
        shape.first_unix_nano = from.signed()?;
        shape.last_unix_nano = shape.first_unix_nano.wrapping_add(from.signed()?);
        shape.slowest = (from.signed()?, TraceId(from.array()?));
        if from.place(2)? == 1 {
            shape.failed = Some((from.signed()?, TraceId(from.array()?)));
        }
        for _ in 0..from.length()? {
            shape.examples.insert(bucket(from)?, TraceId(from.array()?));
        }
        let count = from.length()?;
        // A damaged count claims no more than there are paths.
        let room = count.min(order.len());
        let (mut own, mut paths) = (Vec::new(), Vec::with_capacity(room));
        let mut places = Vec::with_capacity(room);
        for _ in 0..count {
            let place = from.place(order.len() << 1)?;
            let id = order[place >> 1];
            places.push(place >> 1);
            if place & 1 == 0 {
                own.push(id);
            }
            paths.push((id, PathFigures::read(from)?));
        }
        own.sort_unstable();
        shape.own = (own.len() < paths.len()).then(|| own.into());
        shape.paths = paths.into_iter().collect();
        // A path that is there twice is damage.
        if shape.paths.len() < count {
            return Err(RollupError::Damaged);
        }
        Ok((shape, places))
    }
}

impl PathFigures {
    fn subtract(&mut self, other: &Self) {
        less(&mut self.calls, other.calls);
        less(&mut self.failures, other.failures);
        self.self_nano = self.self_nano.saturating_sub(other.self_nano);
        less(&mut self.runs, other.runs);
        for (kept, other) in
            [(&mut self.below_caller, &other.below_caller), (&mut self.in_chain, &other.in_chain)]
        {
            for (kept, other) in kept.parts_mut().into_iter().zip(other.parts()) {
                less(kept, other);
            }
        }
    }

    fn write(&self, out: &mut Writer) {
        out.number(self.calls);
        out.number(self.failures);
        out.large(self.self_nano);
        out.number(self.runs);
        for follow in [&self.below_caller, &self.in_chain] {
            follow.parts().into_iter().for_each(|part| out.number(part));
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, RollupError> {
        let mut figures = Self {
            calls: from.count()?,
            failures: from.count()?,
            self_nano: from.sum()?,
            runs: from.count()?,
            ..Self::default()
        };
        for follow in [&mut figures.below_caller, &mut figures.in_chain] {
            for part in follow.parts_mut() {
                *part = from.count()?;
            }
        }
        Ok(figures)
    }
}

impl Follow {
    const fn parts(&self) -> [u64; 5] {
        [
            self.successes,
            self.successes_followed,
            self.failures,
            self.failures_followed,
            self.failures_passed_on,
        ]
    }

    const fn parts_mut(&mut self) -> [&mut u64; 5] {
        [
            &mut self.successes,
            &mut self.successes_followed,
            &mut self.failures,
            &mut self.failures_followed,
            &mut self.failures_passed_on,
        ]
    }
}

pub(crate) const fn less(kept: &mut u64, other: u64) {
    *kept = kept.saturating_sub(other);
}
