//! From the rules' results to traces: cuts cycles, finds the rows that belong together, and gives
//! each trace its id.

use ahash::AHashMap;
use spanwise_model::{Assembled, Evidence, SpanId, TraceId};

use crate::index::Index;
use crate::parents::{Verdict, verdict};
use crate::row::Row;
use crate::slot::Slot;

/// A row's position in the tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TreePosition {
    /// No parent and no ambiguity.
    Root,
    /// No parent, because there were several candidates.
    Ambiguous,
    /// A child of the row at index `parent` of the given slots.
    Child { parent: usize, evidence: Evidence, confidence: f32 },
}

/// The assembled columns for a complete set of rows, in the rows' order.
pub fn assemble_all(rows: impl IntoIterator<Item = Row>) -> Vec<Assembled> {
    assemble_places(rows).1
}

/// The same, with each row's tree position.
pub(crate) fn assemble_places(
    rows: impl IntoIterator<Item = Row>,
) -> (Vec<TreePosition>, Vec<Assembled>) {
    let mut index = Index::default();
    // An empty index assigns slots in order.
    let slots: Vec<Slot> = rows.into_iter().map(|row| index.insert(row)).collect();
    let places = places(&index, &slots, |slot| verdict(&index, slot));
    let told = |slot: Slot| index.row(slot).prior.map(|prior| prior.trace_id);
    let results = results(&index, &slots, &places, told);
    (places, results)
}

/// The assembled columns of the rows in `slots`, in that order. `slots` must be sorted and must
/// hold every row that can be a parent of one of them.
///
/// `verdict` returns the rules' result for a row. `told` returns the trace id that was reported for
/// a row before. A reported id stays as long as its trace does.
pub(crate) fn resolve(
    index: &Index,
    slots: &[Slot],
    verdict: impl Fn(Slot) -> Verdict,
    told: impl Fn(Slot) -> Option<TraceId>,
) -> Vec<Assembled> {
    results(index, slots, &places(index, slots, verdict), told)
}

fn results(
    index: &Index,
    slots: &[Slot],
    places: &[TreePosition],
    told: impl Fn(Slot) -> Option<TraceId>,
) -> Vec<Assembled> {
    let result = |slot: Slot, place: TreePosition, trace_id| {
        let root = index.row(slot).as_root(trace_id);
        match place {
            TreePosition::Root => root,
            TreePosition::Ambiguous => {
                Assembled { evidence: Some(Evidence::Ambiguous), confidence: None, ..root }
            }
            TreePosition::Child { parent, evidence, confidence } => Assembled {
                parent: Some(index.row(slots[parent]).span_id),
                evidence: Some(evidence),
                confidence: Some(confidence),
                ..root
            },
        }
    };
    let rows = slots.iter().zip(places);
    if let Some(trace_id) = only_header(index, slots) {
        return rows.map(|(slot, place)| result(*slot, *place, trace_id)).collect();
    }
    let traces = traces(index, slots, places, told);
    rows.zip(traces).map(|((slot, place), trace_id)| result(*slot, *place, trace_id)).collect()
}

/// The header's trace id, if all rows carry the same one. It is then the trace's id, whatever was
/// reported before.
fn only_header(index: &Index, slots: &[Slot]) -> Option<TraceId> {
    let first = index.row(*slots.first()?).trace_id?;
    slots.iter().all(|slot| index.row(*slot).trace_id == Some(first)).then_some(first)
}

/// The tree position of each row, as indexes into `slots`.
fn places(index: &Index, slots: &[Slot], verdict: impl Fn(Slot) -> Verdict) -> Vec<TreePosition> {
    let mut by_span: Option<AHashMap<SpanId, usize>> = None;
    let mut places: Vec<TreePosition> = Vec::with_capacity(slots.len());
    for slot in slots {
        let now = match verdict(*slot) {
            Verdict::Nothing => TreePosition::Root,
            Verdict::Several => TreePosition::Ambiguous,
            Verdict::Child(parent) => {
                slots.binary_search(&parent.slot).map_or(TreePosition::Root, |position| {
                    TreePosition::Child {
                        parent: position,
                        evidence: parent.evidence,
                        confidence: parent.confidence,
                    }
                })
            }
        };
        let row = index.row(*slot);
        let Some(prior) = row.prior else {
            places.push(now);
            continue;
        };
        // The prior link was found among more rows. It stays unless a more certain link has been
        // found.
        let sure = |place| match place {
            TreePosition::Child { confidence, .. } => confidence,
            _ => 0.0,
        };
        let before = match prior.parent {
            // Links by the span's own parent id are computed again. If several spans share that id,
            // another one may be the better match now.
            Some(parent) if row.names(parent) && matches!(now, TreePosition::Child { .. }) => None,
            Some(parent) => {
                let by_span = by_span.get_or_insert_with(|| positions_by_span(index, slots));
                by_span.get(&parent).filter(|position| slots[**position] != *slot).map(|position| {
                    TreePosition::Child {
                        parent: *position,
                        evidence: row.evidence.unwrap_or(Evidence::Timing),
                        confidence: row.confidence.unwrap_or(0.0),
                    }
                })
            }
            None => (row.evidence == Some(Evidence::Ambiguous) && sure(now) < Evidence::CERTAIN)
                .then_some(TreePosition::Ambiguous),
        };
        places.push(match before {
            Some(before) if before == TreePosition::Ambiguous || sure(before) >= sure(now) => {
                before
            }
            _ => now,
        });
    }
    cut_cycles(&mut places, |at| index.row(slots[at]).span_id);
    places
}

fn positions_by_span(index: &Index, slots: &[Slot]) -> AHashMap<SpanId, usize> {
    let ids = slots.iter().enumerate();
    ids.map(|(position, slot)| (index.row(*slot).span_id, position)).collect()
}

/// Makes the least certain member of every cycle ambiguous. Only bad input makes cycles: spans that
/// name each other as parents.
pub(crate) fn cut_cycles(places: &mut [TreePosition], span_id: impl Fn(usize) -> SpanId) {
    // 0: not visited; n: visited in walk n.
    let mut met_in = vec![0usize; places.len()];
    for start in 0..places.len() {
        let walk = start + 1;
        let mut at = start;
        while met_in[at] == 0 {
            met_in[at] = walk;
            match places[at] {
                TreePosition::Child { parent, .. } => at = parent,
                _ => break,
            }
        }
        if met_in[at] != walk || !matches!(places[at], TreePosition::Child { .. }) {
            continue;
        }
        // The walk has returned to `at`, so `at` is on a cycle.
        let mut members = Vec::new();
        let mut member = at;
        while let TreePosition::Child { parent, confidence, .. } = places[member] {
            members.push((confidence, span_id(member), member));
            member = parent;
            if member == at {
                break;
            }
        }
        let weakest = members
            .into_iter()
            .min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        if let Some((_, _, weakest)) = weakest {
            places[weakest] = TreePosition::Ambiguous;
        }
    }
}

/// The trace id of each row. A link, a fragment or a header's trace id puts rows into one trace.
fn traces(
    index: &Index,
    slots: &[Slot],
    places: &[TreePosition],
    told: impl Fn(Slot) -> Option<TraceId>,
) -> Vec<TraceId> {
    let mut sets = Sets::new(slots.len());
    let mut fragments: AHashMap<u64, usize> = AHashMap::new();
    let mut headers: AHashMap<TraceId, usize> = AHashMap::new();
    for (position, slot) in slots.iter().enumerate() {
        let row = index.row(*slot);
        if let TreePosition::Child { parent, .. } = places[position] {
            sets.union(position, parent);
        }
        if let Some(fragment) = row.fragment_id {
            sets.union(position, *fragments.entry(fragment).or_insert(position));
        }
        if let Some(trace) = row.trace_id {
            sets.union(position, *headers.entry(trace).or_insert(position));
        }
    }
    let mut found = (0..slots.len()).map(|position| sets.find(position));
    let first = found.next();
    if found.all(|set| Some(set) == first) {
        let trace = only_trace(index, slots, told, |id| headers.contains_key(&id));
        return vec![trace; slots.len()];
    }
    // Sorted by start, so that the earliest member of each set decides.
    let mut by_start: Vec<usize> = (0..slots.len()).collect();
    by_start.sort_unstable_by_key(|position| age(index.row(slots[*position])));
    let mut facts: AHashMap<usize, Facts> = AHashMap::new();
    for position in &by_start {
        let set = sets.find(*position);
        let row = index.row(slots[*position]);
        let facts = facts.entry(set).or_insert_with(|| Facts {
            made: made_id(row.start_unix_nano, row.span_id),
            header: None,
            told: None,
            told_header: None,
        });
        facts.header = facts.header.or(row.trace_id);
        let Some(told) = told(slots[*position]) else { continue };
        match headers.get(&told) {
            Some(member) if sets.find(*member) == set => {
                facts.told_header = facts.told_header.or(Some(told));
            }
            // The id belongs to a trace from which this one was split.
            Some(_) => {}
            None => facts.told = facts.told.or(Some(told)),
        }
    }
    // If a trace was split since it was reported, its earliest part keeps the id.
    let mut taken: AHashMap<TraceId, usize> = AHashMap::new();
    let mut ids: AHashMap<usize, TraceId> = AHashMap::new();
    for position in by_start {
        let set = sets.find(position);
        if ids.contains_key(&set) {
            continue;
        }
        let Some(facts) = facts.get(&set) else { continue };
        let fresh = facts.header.unwrap_or(facts.made);
        let wanted = match facts.header {
            Some(header) => facts.told_header.unwrap_or(header),
            None => facts.told.unwrap_or(facts.made),
        };
        let free = *taken.entry(wanted).or_insert(set) == set;
        ids.insert(set, if free { wanted } else { fresh });
    }
    (0..slots.len())
        .map(|position| ids.get(&sets.find(position)).copied().unwrap_or(TraceId([1; 16])))
        .collect()
}

/// The order that decides which row is the earliest.
const fn age(row: &Row) -> (i64, Option<TraceId>, SpanId) {
    (row.start_unix_nano, row.trace_id, row.span_id)
}

/// The trace id, if all rows belong to one trace. Nearly always they do.
fn only_trace(
    index: &Index,
    slots: &[Slot],
    told: impl Fn(Slot) -> Option<TraceId>,
    is_header: impl Fn(TraceId) -> bool,
) -> TraceId {
    let earliest = |id_of: &dyn Fn(Slot) -> Option<TraceId>| {
        let ids = slots.iter().filter_map(|slot| Some((age(index.row(*slot)), id_of(*slot)?)));
        ids.min().map(|(_, id)| id)
    };
    let header = earliest(&|slot| index.row(slot).trace_id);
    let told = match header {
        Some(_) => earliest(&|slot| told(slot).filter(|id| is_header(*id))),
        None => earliest(&told),
    };
    let made = |slot| {
        let row = index.row(slot);
        Some(made_id(row.start_unix_nano, row.span_id))
    };
    // Callers pass at least one row. The constant is never used.
    told.or(header).or_else(|| earliest(&made)).unwrap_or(TraceId([1; 16]))
}

struct Facts {
    /// The id that the earliest row would give the trace.
    made: TraceId,
    /// The trace id of the earliest row with a header's or SDK's trace id.
    header: Option<TraceId>,
    /// The earliest generated id that was reported before.
    told: Option<TraceId>,
    /// The earliest header's id that was reported before.
    told_header: Option<TraceId>,
}

/// An id for a trace without one: 48 bits of milliseconds, so that ids sort by time, 16 mixed bits,
/// and the first span's id. The span id still leads to the trace if the trace gets another id
/// later.
pub(crate) fn made_id(start_unix_nano: i64, first: SpanId) -> TraceId {
    let milliseconds = u64::try_from(start_unix_nano / 1_000_000).unwrap_or(0);
    // Fibonacci hashing: the upper bits depend on all bits of the product.
    let mixed = (start_unix_nano.cast_unsigned() ^ first.as_u64())
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes();
    let mut id = [0; 16];
    id[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
    id[6..8].copy_from_slice(&mixed[..2]);
    id[8..].copy_from_slice(&first.0);
    TraceId(id)
}

/// Disjoint sets of indexes (union-find).
struct Sets(Vec<usize>);

impl Sets {
    fn new(len: usize) -> Self {
        Self((0..len).collect())
    }

    fn find(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn union(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.0[one.max(other)] = one.min(other);
    }
}
