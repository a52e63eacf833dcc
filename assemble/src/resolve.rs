//! From what the rules say of each row to traces: cycles cut, rows that belong
//! together found, each trace named.

use ahash::AHashMap;
use spanwise_model::{Assembled, Evidence, SpanId, TraceId};

use crate::index::Index;
use crate::parents::{Verdict, verdict};
use crate::row::Row;
use crate::slot::Slot;

/// The place that was found for a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TreePosition {
    /// No parent, and nothing to say why.
    Root,
    /// No parent, because there were several.
    Ambiguous,
    /// A child of the row at this position of the slots asked about.
    Child { parent: usize, evidence: Evidence, confidence: f32 },
}

/// What the assembled columns of the rows shall be, in their order, where these
/// are all the rows there are.
pub fn assemble_all(rows: impl IntoIterator<Item = Row>) -> Vec<Assembled> {
    assemble_places(rows).1
}

/// The same, with the place of each row among them.
pub(crate) fn assemble_places(
    rows: impl IntoIterator<Item = Row>,
) -> (Vec<TreePosition>, Vec<Assembled>) {
    let mut index = Index::default();
    // An empty index gives its slots out in order.
    let slots: Vec<Slot> = rows.into_iter().map(|row| index.insert(row)).collect();
    let places = places(&index, &slots, |slot| verdict(&index, slot));
    let told = |slot: Slot| index.row(slot).prior.map(|prior| prior.trace_id);
    let results = results(&index, &slots, &places, told);
    (places, results)
}

/// What the assembled columns of the rows shall be, in the order of `slots`,
/// which are sorted and hold every row that one of them may hang under.
///
/// `verdict` gives what the rules say of a row. `told` gives the trace id that
/// a row was given before: ids once told stay, as far as their trace does.
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

/// The trace id that every row carries: then it is the trace's, whatever was
/// told before.
fn only_header(index: &Index, slots: &[Slot]) -> Option<TraceId> {
    let first = index.row(*slots.first()?).trace_id?;
    slots.iter().all(|slot| index.row(*slot).trace_id == Some(first)).then_some(first)
}

/// The place of each row; positions refer to `slots`.
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
        // Found before, among more rows than these: it stands, unless something
        // surer has come.
        let sure = |place| match place {
            TreePosition::Child { confidence, .. } => confidence,
            _ => 0.0,
        };
        let before = match prior.parent {
            // What the span says of itself is found anew: by an id that several have, another of
            // them may be meant now.
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

/// Makes the least sure member of every cycle ambiguous. Only bad input makes
/// cycles: spans that name each other.
pub(crate) fn cut_cycles(places: &mut [TreePosition], span_id: impl Fn(usize) -> SpanId) {
    // 0: not met; n: met in walk n.
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
        // The walk has come back to `at`, so `at` is on a cycle.
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

/// The trace id of each row. Rows are of one trace where a link, a fragment or
/// a header's trace id says so.
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
    // By start, so that the first member of each set that has something decides.
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
            // It is of a trace from which this one has come apart.
            Some(_) => {}
            None => facts.told = facts.told.or(Some(told)),
        }
    }
    // Where a trace has come apart since it was told, its first part keeps the
    // id.
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

/// By what rows are ordered where the earliest decides.
const fn age(row: &Row) -> (i64, Option<TraceId>, SpanId) {
    (row.start_unix_nano, row.trace_id, row.span_id)
}

/// The trace id of rows that are all of one trace, which nearly all are.
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
    // No rows have no trace, and are not asked about.
    told.or(header).or_else(|| earliest(&made)).unwrap_or(TraceId([1; 16]))
}

struct Facts {
    /// Made of the earliest row.
    made: TraceId,
    /// The trace id of the earliest row that a header or an SDK gave one.
    header: Option<TraceId>,
    /// The earliest made id that was told before.
    told: Option<TraceId>,
    /// The earliest header's id that was told before.
    told_header: Option<TraceId>,
}

/// An id for a trace that has none: 48 bits of milliseconds, so that ids sort
/// by time, 16 bits mixed from the rest, and the first span's id, by which the
/// trace can still be found should it get another id later.
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

/// Disjoint sets of positions.
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
