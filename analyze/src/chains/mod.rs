//! Physical chains: runs of one entrance and one shape, with their figures. `docs/analysis.md` has
//! the definitions.

mod calls;
mod dependency;
mod figures;
mod fold;
mod path_map;
mod peaks;
mod relations;
mod sketch;
mod stored;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use ahash::AHashMap;
use spanwise_assemble::Trace;
use spanwise_model::TraceId;

use crate::labels::Labels;
pub use calls::{ChainCall, calls};
pub use dependency::{Dependency, Follow, Verdict};
pub use figures::{Chain, ChainNode, Load, capacity};
use fold::MOST;
pub use path_map::PathMap;
pub use peaks::{Peak, Peaks};
pub use relations::{Entrance, Operation, Relation, Sources, Strength};
pub(crate) use sketch::LAST_BUCKET;
pub use sketch::Sketch;
pub(crate) use stored::less;

/// The deepest level of a run that is counted.
const MAX_LEVEL: usize = 128;
/// The most different paths of one run.
const MAX_PATHS: usize = 10_000;

/// A place in call trees: the entrance and the calls down to this one, as a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub(crate) u64);

/// A set of paths, as a hash: 16 hexadecimal digits. It is the same in every process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub(crate) u64);

impl fmt::Display for ShapeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl ShapeId {
    /// Reads the 16 digits.
    pub fn read(text: &str) -> Option<Self> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| is_hex).map(Self)
    }
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The path of the caller; `None` for an entrance.
    pub parent: Option<PathId>,
    /// 0 for an entrance.
    pub level: usize,
    /// The called service.
    pub service: String,
    /// The called operation.
    pub operation: String,
}

/// Figures of one path in one shape.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathFigures {
    /// Calls.
    pub calls: u64,
    /// Failed calls.
    pub failures: u64,
    /// Sum of self times.
    pub self_nano: u128,
    /// Runs with such a call.
    pub runs: u64,
    /// What followed calls below the same caller.
    pub below_caller: Follow,
    /// What followed calls in the whole run.
    pub in_chain: Follow,
}

impl PathFigures {
    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failures += other.failures;
        self.self_nano += other.self_nano;
        self.runs += other.runs;
        self.below_caller.merge(&other.below_caller);
        self.in_chain.merge(&other.in_chain);
    }
}

/// An example: a duration and the trace's id.
pub type Example = (i64, TraceId);

/// Runs with exactly the same set of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The path of the entrance.
    pub root: PathId,
    /// Runs.
    pub runs: u64,
    /// Runs whose entrance failed.
    pub failures: u64,
    /// Durations of runs.
    pub durations: Sketch,
    /// Start of the first run.
    pub first_unix_nano: i64,
    /// Start of the last run.
    pub last_unix_nano: i64,
    /// The slowest run.
    pub slowest: Example,
    /// The slowest failed run.
    pub failed: Option<Example>,
    /// A run that did not fail, for each bucket of durations.
    examples: BTreeMap<u16, TraceId>,
    /// The shape's own paths, if shapes of its chain joined it.
    own: Option<Box<[PathId]>>,
    /// Figures of all paths.
    pub paths: PathMap,
}

impl Shape {
    fn new(root: PathId) -> Self {
        Self {
            root,
            runs: 0,
            failures: 0,
            durations: Sketch::default(),
            first_unix_nano: i64::MAX,
            last_unix_nano: i64::MIN,
            slowest: (i64::MIN, TraceId([0; 16])),
            failed: None,
            examples: BTreeMap::new(),
            own: None,
            paths: PathMap::default(),
        }
    }

    /// A run that did not fail and took about as long as the median; `None` if all failed.
    pub fn typical(&self) -> Option<TraceId> {
        let median = sketch::bucket_of(self.durations.quantile(0.5));
        let nearest = self.examples.iter().min_by_key(|(bucket, _)| bucket.abs_diff(median));
        nearest.map(|(_, id)| *id)
    }

    fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.failures += other.failures;
        self.durations.merge(&other.durations);
        self.first_unix_nano = self.first_unix_nano.min(other.first_unix_nano);
        self.last_unix_nano = self.last_unix_nano.max(other.last_unix_nano);
        self.slowest = self.slowest.max(other.slowest);
        self.failed = self.failed.max(other.failed);
        for (bucket, id) in &other.examples {
            let kept = self.examples.entry(*bucket).or_insert(*id);
            *kept = (*kept).min(*id);
        }
        if self.own.is_none() {
            self.own.clone_from(&other.own);
        }
        self.paths.merge(&other.paths);
    }
}

/// Accumulates runs. Partial results merge in any order to the same result, as long as no shape
/// joined another or was folded. Its memory grows with shapes, not with traces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chains {
    paths: AHashMap<PathId, Path>,
    shapes: BTreeMap<ShapeId, Shape>,
    /// Paths of all shapes.
    cells: usize,
    /// The number of paths at which shapes join their chains again.
    join_at: usize,
    /// A shape that joined another one, which is asked for.
    asked: Option<(ShapeId, ShapeId)>,
    /// Shapes that joined their chain for good because there were too many shapes. Their figures are
    /// the chain's. One may be counted again.
    pub joined_shapes: u64,
    /// Runs of rare chains that joined the largest chain of their entrance for lack of room.
    pub misplaced_runs: u64,
    /// Shapes that were folded because there were too many entrances. One may be counted again.
    pub folded_shapes: u64,
    /// Runs of folded shapes. No chain contains them.
    pub folded_runs: u64,
    /// Runs whose trace changed later and that could not be taken away, because they were folded.
    pub runs_not_subtracted: u64,
    /// Runs with missing or doubtful parents, or that are too deep or have too many paths. No chain contains them.
    pub runs_left_out: u64,
}

impl Chains {
    /// Adds a trace. One with missing or doubtful links is only counted: its calls are not all of
    /// its run.
    pub fn add(&mut self, trace: &Trace, labels: &Labels<'_>) {
        match whole_calls(trace, labels) {
            Some(calls) => self.add_calls(trace.trace_id, &calls),
            None => self.runs_left_out += 1,
        }
    }

    /// Whether all calls of a trace are there, below their callers.
    pub fn is_whole(trace: &Trace) -> bool {
        trace.is_complete() && !trace.is_doubtful() && trace.depth() <= MAX_LEVEL
    }

    /// Adds the calls of a trace, callers before the called.
    pub fn add_calls(&mut self, trace_id: TraceId, calls: &[ChainCall<'_>]) {
        let ids = path_ids(calls);
        let roots = roots(calls);
        let follows = dependency::follows(calls, &ids);
        // By run, and by path in it.
        let mut order: Vec<(usize, PathId, usize)> =
            (0..calls.len()).map(|place| (roots[place], ids[place], place)).collect();
        order.sort_unstable();
        let mut is_left_out = vec![false; calls.len()];
        let mut runs: Vec<(usize, PathMap)> = Vec::new();
        for run in order.chunk_by(|one, next| one.0 == next.0) {
            let root = run[0].0;
            let distinct = run.chunk_by(|one, next| one.1 == next.1).count();
            if distinct > MAX_PATHS {
                self.runs_left_out += 1;
                is_left_out[root] = true;
                continue;
            }
            let mut paths: Vec<(PathId, PathFigures)> = Vec::with_capacity(distinct);
            for same in run.chunk_by(|one, next| one.1 == next.1) {
                let mut figures = PathFigures { runs: 1, ..PathFigures::default() };
                for (_, _, place) in same {
                    let call = &calls[*place];
                    figures.calls += 1;
                    figures.failures += u64::from(call.failed);
                    figures.self_nano += u128::from(call.self_nano.max(0).unsigned_abs());
                    figures.below_caller.merge(&follows[*place].0);
                    figures.in_chain.merge(&follows[*place].1);
                }
                paths.push((same[0].1, figures));
            }
            runs.push((root, paths.into_iter().collect()));
        }
        for (place, call) in calls.iter().enumerate() {
            if is_left_out[roots[place]] || self.paths.contains_key(&ids[place]) {
                continue;
            }
            let parent = call.parent.map(|parent| ids[parent]);
            let level = parent.map_or(0, |parent| self.paths[&parent].level + 1);
            let (service, operation) = (call.service.into(), call.operation.into());
            self.paths.insert(ids[place], Path { parent, level, service, operation });
        }
        for (root, paths) in runs {
            let mut run = Shape::new(ids[root]);
            let call = &calls[root];
            let duration = call.end_unix_nano.saturating_sub(call.start_unix_nano);
            (run.runs, run.failures) = (1, u64::from(call.failed));
            run.durations.add(duration);
            run.first_unix_nano = call.start_unix_nano;
            run.last_unix_nano = call.start_unix_nano;
            run.slowest = (duration, trace_id);
            run.failed = call.failed.then_some((duration, trace_id));
            if !call.failed {
                run.examples.insert(sketch::bucket_of(duration), trace_id);
            }
            run.paths = paths;
            self.count_all(run.id(), run);
        }
        self.fold(MOST);
    }

    /// Adds everything that the other one counted.
    pub fn merge(&mut self, other: &Self) {
        for (id, path) in &other.paths {
            self.paths.entry(*id).or_insert_with(|| path.clone());
        }
        for (key, shape) in &other.shapes {
            self.count(*key, shape);
        }
        self.joined_shapes += other.joined_shapes;
        self.misplaced_runs += other.misplaced_runs;
        self.folded_shapes += other.folded_shapes;
        self.folded_runs += other.folded_runs;
        self.runs_left_out += other.runs_left_out;
        self.runs_not_subtracted += other.runs_not_subtracted;
        self.fold(MOST);
    }

    /// Says that the first shape joined the second one, so that the first finds its chain.
    pub const fn set_joined(&mut self, shape: ShapeId, founder: ShapeId) {
        self.asked = Some((shape, founder));
    }

    /// The runs that are counted in shapes.
    pub fn runs(&self) -> u64 {
        self.shapes.values().map(|shape| shape.runs).sum()
    }

    /// Paths of all shapes together.
    pub const fn cells(&self) -> usize {
        self.cells
    }

    /// The path with this id.
    pub fn path(&self, id: PathId) -> Option<&Path> {
        self.paths.get(&id)
    }

    /// The same, of one that is needed no more.
    pub(crate) fn merge_all(&mut self, mut other: Self) {
        for (key, shape) in std::mem::take(&mut other.shapes) {
            self.count_all(key, shape);
        }
        for (id, path) in std::mem::take(&mut other.paths) {
            self.paths.entry(id).or_insert(path);
        }
        // The rest.
        self.merge(&other);
    }

    /// The same as [`Self::count`], of a shape that is needed no more.
    fn count_all(&mut self, key: ShapeId, shape: Shape) {
        match self.shapes.entry(key) {
            Entry::Vacant(vacant) => {
                self.cells += shape.paths.len();
                vacant.insert(shape);
            }
            Entry::Occupied(mut kept) => {
                let kept = kept.get_mut();
                let before = kept.paths.len();
                kept.merge(&shape);
                self.cells += kept.paths.len() - before;
            }
        }
    }

    fn count(&mut self, key: ShapeId, shape: &Shape) {
        let kept = self.shapes.entry(key).or_insert_with(|| Shape::new(shape.root));
        let before = kept.paths.len();
        kept.merge(shape);
        self.cells += kept.paths.len() - before;
    }
}

/// The calls of a trace; `None` if links are missing or doubtful, or it is too deep, so that its calls
/// are not all of its run.
pub(crate) fn whole_calls<'a>(trace: &Trace, labels: &Labels<'a>) -> Option<Vec<ChainCall<'a>>> {
    Chains::is_whole(trace).then(|| calls(trace, labels))
}

/// The start of FNV-1a. The hash is the same in every process, so that stored figures can merge.
const SEED: u64 = 0xcbf2_9ce4_8422_2325;

fn mix(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The paths of calls, callers before the called.
pub(crate) fn path_ids(calls: &[ChainCall<'_>]) -> Vec<PathId> {
    let mut ids: Vec<PathId> = Vec::with_capacity(calls.len());
    for call in calls {
        let parent = call.parent.map(|parent| ids[parent]);
        ids.push(path_id(parent, call.service, call.operation));
    }
    ids
}

/// The entrance of each call, callers before the called.
pub(crate) fn roots(calls: &[ChainCall<'_>]) -> Vec<usize> {
    let mut roots: Vec<usize> = Vec::with_capacity(calls.len());
    for (place, call) in calls.iter().enumerate() {
        roots.push(call.parent.map_or(place, |parent| roots[parent]));
    }
    roots
}

/// The path of an operation that nothing calls.
pub(crate) fn operation_id(service: &str, operation: &str) -> PathId {
    path_id(None, service, operation)
}

fn path_id(parent: Option<PathId>, service: &str, operation: &str) -> PathId {
    let hash = mix(SEED, &parent.map_or(0, |parent| parent.0).to_le_bytes());
    // No text contains 0xff in UTF-8.
    PathId(mix(mix(mix(hash, service.as_bytes()), &[0xff]), operation.as_bytes()))
}

#[cfg(test)]
mod tests;
