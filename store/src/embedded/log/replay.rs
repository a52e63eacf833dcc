//! Reads the log into memory when a store is opened.
//!
//! A segment is read up to its first damaged record. If an intact record follows at the offset that
//! the damaged record's length implies, reading continues there. Segments are never written again,
//! so they are not truncated.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use ahash::AHashSet;

use super::record::{Damage, Entry, Record};
use super::templates::TemplatesByNumber;
use super::{segment_path, segments};
use crate::contract::{Origin, StoreError};
use crate::embedded::duplicates::identity::{self, Identities};
use crate::embedded::fault;
use crate::embedded::recent::chunk::Chunk;
use crate::embedded::state::State;
use crate::embedded::upkeep::spool::Note;

/// Where writing continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) generation: u64,
    pub(crate) batch: u64,
}

/// The contents of a segment.
#[derive(Debug, Default)]
struct Contents {
    /// Records and the bytes that each takes.
    records: Vec<(Record, u64)>,
    /// Bytes of templates, which are counted with the next batch.
    template_bytes: u64,
    damages: Vec<Damage>,
    damaged_bytes: u64,
}

/// Adds every row of the log that is not in a file and was not released.
///
/// # Errors
/// If the log's directory cannot be read. Damage is not an error.
pub(crate) fn replay(
    log: &Path,
    next: Next,
    note: &Note,
    identities: &Identities,
    state: &mut State,
) -> Result<Next, StoreError> {
    let context = || format!("cannot read the log in {}", log.display());
    let mut next = next;
    let mut seen: HashSet<Origin> = HashSet::new();
    let mut spans: AHashSet<u64> = AHashSet::new();
    for generation in segments(log).map_err(fault::io(context()))? {
        next.generation = next.generation.max(generation + 1);
        let path = segment_path(log, generation);
        let is_in_a_file = state.is_in_a_file(generation);
        if is_in_a_file || note.has_released(generation) {
            remove(&path);
            continue;
        }
        let contents = match fs::read(&path) {
            Ok(bytes) => read(&bytes),
            Err(error) => {
                state.count("log_segments_unreadable", 1);
                state.warn(format!(
                    "{} cannot be read ({error}); its spans are missing from answers until it can",
                    path.display()
                ));
                continue;
            }
        };
        if contents.damaged_bytes > 0 {
            state.count("log_segments_damaged", 1);
            state.count("log_bytes_damaged", contents.damaged_bytes);
            state.warn(format!(
                "{}: {} bytes are left out ({}), {} batches are sound. After a crash that is a \
                 batch that was never acknowledged; otherwise have a look at the disk",
                path.display(),
                contents.damaged_bytes,
                contents.damages.iter().map(Damage::to_string).collect::<Vec<_>>().join(", "),
                contents.records.len(),
            ));
        }
        if contents.records.is_empty() {
            remove(&path);
            continue;
        }
        for (record, bytes) in contents.records {
            next.batch = next.batch.max(record.batch + 1);
            if let Some(origin) = record.origin {
                state.origins.take(origin);
                if !seen.insert(origin) {
                    // The record was written, but the sync failed, and the sender sent it again.
                    state.count("batches_duplicate", 1);
                    continue;
                }
            }
            let sent_twice = twice(&record, identities, &mut spans);
            state.count("spans_duplicate", sent_twice.len() as u64);
            let mut chunk = Chunk::new(record);
            for row in sent_twice {
                chunk.remove(row);
            }
            state.recent.add(chunk, bytes, generation);
        }
    }
    state.recent.close_before(next.generation);
    Ok(next)
}

/// The rows of a record whose spans are already in the log. This happens if a record was written,
/// the sync failed, and the sender sent it again.
fn twice(record: &Record, identities: &Identities, spans: &mut AHashSet<u64>) -> Vec<usize> {
    let of_rows = identities.of_sent(record.rows.columns(), record.origin);
    let of_rows = of_rows.into_iter().flatten().enumerate();
    of_rows
        .filter(|(_, identity)| *identity != identity::NONE && !spans.insert(*identity))
        .map(|(row, _)| row)
        .collect()
}

fn remove(path: &Path) {
    // If this fails, the next start finds the segment again.
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}

fn read(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    let mut known = TemplatesByNumber::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let damage = match Record::decode(rest, &mut known) {
            Ok(None) => break,
            Ok(Some((entry, length))) => {
                at += length;
                match entry {
                    Entry::Batch(record) => {
                        let bytes = std::mem::take(&mut contents.template_bytes) + length as u64;
                        contents.records.push((record, bytes));
                    }
                    Entry::Templates => contents.template_bytes += length as u64,
                }
                continue;
            }
            Err(damage) => damage,
        };
        contents.damages.push(damage);
        let sound = |length: &usize| rest.get(*length..).is_some_and(Record::is_sound);
        let after = Record::claimed_length(rest).filter(sound);
        let lost = after.unwrap_or(rest.len());
        contents.damaged_bytes += lost as u64;
        at += lost;
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::log::record::tests::{record, segment};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn damage_costs_no_more_than_what_it_touches(
            count in 1usize..6,
            flip in any::<prop::sample::Index>(),
            cut in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let records: Vec<Vec<u8>> =
                (0..count as u64).map(|n| segment(&record(n + 1, None))).collect();
            let mut bytes = records.concat();
            let ends: Vec<usize> = records
                .iter()
                .scan(0, |end, record| { *end += record.len(); Some(*end) })
                .collect();
            if let Some(cut) = cut {
                // A torn end: all records before the cut are restored.
                let cut = cut.index(bytes.len());
                let whole = ends.iter().filter(|end| **end <= cut).count();
                let read = read(&bytes[..cut]);
                prop_assert_eq!(read.records.len(), whole);
                let sound: u64 = read.records.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(sound + read.template_bytes + read.damaged_bytes, cut as u64);
            } else {
                let at = flip.index(bytes.len());
                let hit = ends.iter().filter(|end| **end <= at).count();
                bytes[at] ^= 0x10;
                let read = read(&bytes);
                let rows: Vec<usize> =
                    read.records.iter().map(|(record, _)| record.rows.num_rows()).collect();
                // Of the templates' record or the batch's record.
                let before = ends[hit] - records[hit].len();
                let templates = Record::claimed_length(&records[hit]).unwrap_or_default();
                let in_length = at - before < 4 || (0..4).contains(&(at.wrapping_sub(before + templates)));
                let expected: Vec<usize> = if in_length {
                    (1..=hit).collect()
                } else {
                    (1..=count).filter(|n| *n != hit + 1).collect()
                };
                prop_assert_eq!(rows, expected);
                prop_assert!(read.damaged_bytes > 0);
            }
        }
    }
}
