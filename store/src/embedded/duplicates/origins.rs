//! The batches stored from each sender, to recognise one that is sent twice.
//!
//! A sender's numbers are kept as ranges. The highest number is not enough: a batch may be refused
//! while a later one is stored. It is then sent again, and is no duplicate.

use std::collections::{BTreeMap, HashMap};

use crate::contract::Origin;

/// Maximum senders. A sender is one run of one agent, so the oldest are evicted.
const MAX_SOURCES: usize = 10_000;
/// Maximum ranges of one sender. Beyond it, the gap between the two lowest ranges counts as stored.
/// A sender does not return to a batch hundreds of gaps ago.
const MAX_RANGES: usize = 256;

/// Stored numbers by sender, in the format of the files.
pub(crate) type TakenRanges = BTreeMap<String, Vec<(u64, u64)>>;

/// Stored batches by sender. See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    sources: HashMap<[u8; 16], Source>,
    clock: u64,
}

#[derive(Debug, Default)]
struct Source {
    /// Inclusive, ascending and not adjacent.
    ranges: Vec<(u64, u64)>,
    used: u64,
}

impl Origins {
    /// Whether the batch was stored before.
    pub(crate) fn knows(&self, origin: Origin) -> bool {
        let Some(source) = self.sources.get(&origin.source) else { return false };
        let at = source.ranges.partition_point(|&(_, last)| last < origin.sequence);
        source.ranges.get(at).is_some_and(|&(first, _)| first <= origin.sequence)
    }

    /// Records a batch as stored.
    pub(crate) fn take(&mut self, origin: Origin) {
        self.take_range(origin.source, (origin.sequence, origin.sequence));
    }

    fn take_range(&mut self, source: [u8; 16], range: (u64, u64)) {
        self.clock += 1;
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            let oldest = self.sources.iter().min_by_key(|(_, source)| source.used);
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                self.sources.remove(&oldest);
            }
        }
        let entry = self.sources.entry(source).or_default();
        entry.used = self.clock;
        insert(&mut entry.ranges, range);
        if entry.ranges.len() > MAX_RANGES {
            entry.ranges[1].0 = entry.ranges[0].0;
            entry.ranges.remove(0);
        }
    }

    /// All recorded ranges.
    pub(crate) fn ranges(&self) -> TakenRanges {
        let sources = self.sources.iter();
        sources.map(|(source, taken)| (hex(source), taken.ranges.clone())).collect()
    }

    /// Adds ranges that were read from a file.
    pub(crate) fn restore(&mut self, taken: &TakenRanges) {
        for (source, ranges) in taken {
            let Some(source) = unhex(source) else { continue };
            for &(first, last) in ranges.iter().filter(|(first, last)| first <= last) {
                self.take_range(source, (first, last));
            }
        }
    }
}

/// The ranges of these batches.
pub(crate) fn ranges_of(origins: impl Iterator<Item = Origin>) -> TakenRanges {
    let mut taken = TakenRanges::new();
    for origin in origins {
        let ranges = taken.entry(hex(&origin.source)).or_default();
        insert(ranges, (origin.sequence, origin.sequence));
    }
    taken
}

/// Adds the second to the first.
pub(crate) fn unite(taken: &mut TakenRanges, more: &TakenRanges) {
    for (source, ranges) in more {
        let own = taken.entry(source.clone()).or_default();
        for &range in ranges {
            insert(own, range);
        }
    }
}

/// Adds a range to ascending ranges that are not adjacent.
pub(crate) fn insert(ranges: &mut Vec<(u64, u64)>, (first, last): (u64, u64)) {
    // Merges every range that overlaps or is adjacent with the new one.
    let from = ranges.partition_point(|&(_, end)| end.saturating_add(1) < first);
    let to = ranges.partition_point(|&(start, _)| start <= last.saturating_add(1));
    let (mut first, mut last) = (first, last);
    if from < to {
        first = first.min(ranges[from].0);
        last = last.max(ranges[to - 1].1);
    }
    ranges.splice(from..to.max(from), [(first, last)]);
}

fn hex(source: &[u8; 16]) -> String {
    source.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32).map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_the_set_of_what_was_taken(
            sequences in proptest::collection::vec(0u64..200, 0..120),
        ) {
            let mut origins = Origins::default();
            let mut taken = BTreeSet::new();
            let of = |sequence| Origin { source: [7; 16], sequence };
            for &sequence in &sequences {
                origins.take(of(sequence));
                taken.insert(sequence);
            }
            let mut restored = Origins::default();
            restored.restore(&ranges_of(sequences.iter().map(|&sequence| of(sequence))));
            for sequence in 0..202 {
                prop_assert_eq!(origins.knows(of(sequence)), taken.contains(&sequence));
                prop_assert_eq!(restored.knows(of(sequence)), taken.contains(&sequence));
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stay() {
        let mut origins = Origins::default();
        for n in 0..MAX_SOURCES as u128 + 10 {
            origins.take(Origin { source: n.to_be_bytes(), sequence: u64::MAX });
        }
        assert_eq!(origins.sources.len(), MAX_SOURCES);
        let newest = (MAX_SOURCES as u128 + 9).to_be_bytes();
        assert!(origins.knows(Origin { source: newest, sequence: u64::MAX }));
        for n in 0..1000 {
            origins.take(Origin { source: [1; 16], sequence: n * 2 });
        }
        assert_eq!(origins.sources[&[1; 16]].ranges.len(), MAX_RANGES);
        assert!(!origins.knows(Origin { source: [1; 16], sequence: 1997 }));
    }
}
