//! The dynamic table of HPACK (RFC 7541, section 2.3.2) as far as it is known.
//!
//! Entries are counted from the newest, so those added since the beginning, or
//! since bytes were lost, are known whatever was in the table before. What refers
//! to older ones is said to be unknown.
//!
//! Unless there is a bridge: how many entries were added unseen can be told from
//! a block that says what an earlier one said, each field as far from the others
//! as it was. To be wrong about that, the whole table would have to have been
//! replaced unseen, by fields in the same order. What rests on it is said to be
//! inferred.

use std::collections::VecDeque;

use super::Malformed;
use super::names::Named;

/// Size, as the RFC counts it, of the entries that are kept; older ones become
/// unknown where a connection has agreed on more.
const MAX_TABLE_BYTES: usize = 64 * 1024;
/// Size of the table until it is changed (RFC 9113, section 6.5.2).
const USUAL_TABLE_BYTES: usize = 4096;
/// What an entry costs beyond its bytes (RFC 7541, section 4.1).
pub(super) const ENTRY_BYTES: usize = 32;
/// Entries that a block may refer to, and that may have been added unseen, for
/// these to be told.
pub(super) const MAX_BRIDGED_FIELDS: usize = 16;
const MAX_BRIDGED_ENTRIES: usize = USUAL_TABLE_BYTES / ENTRY_BYTES;
/// Fields that must agree for a bridge where not all do.
const MIN_AGREEING_FIELDS: usize = 3;
/// How much faster fields may have been added unseen than they were before.
const CAUTION: u64 = 4;

/// How much of a block's fields is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Knowledge {
    /// All.
    #[default]
    Known,
    /// All, some by inference.
    Inferred,
    /// Some are not.
    Partial,
}

/// A field in the dynamic table.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Named,
    pub(super) name_bytes: usize,
    /// As the RFC counts it.
    pub(super) size: usize,
    /// Empty where the name is of no interest, or where it was not seen.
    pub(super) value: Box<[u8]>,
    /// Counts those that were seen.
    pub(super) number: u64,
    /// Its place is inferred.
    pub(super) inferred: bool,
}

impl Entry {
    /// How much of it is known.
    pub(super) fn knowledge(&self) -> Knowledge {
        match self.name {
            Named::Unknown => Knowledge::Partial,
            _ if self.inferred => Knowledge::Inferred,
            _ => Knowledge::Known,
        }
    }
}

/// The table of one direction.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    /// Sum of their sizes.
    size: usize,
    limit: usize,
    /// The other end has the same limit.
    limit_known: bool,
    /// No entry is missing behind the last one.
    whole: bool,
    /// Bytes of the values kept.
    held: usize,
    /// Entries that were added after an unknown number of others; those behind
    /// them are older.
    gap: Option<usize>,
    next_number: u64,
    /// The entries that the last block referred to and added.
    block: Vec<u64>,
    /// Those of the last block that was called usual.
    usual: Vec<u64>,
    /// Bytes that passed and were read, what they added to the table, and bytes
    /// that passed in the gap.
    read_bytes: u64,
    added_bytes: u64,
    gap_bytes: u64,
}

impl Table {
    /// A table of which nothing is known.
    pub(super) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            limit: USUAL_TABLE_BYTES,
            limit_known: false,
            whole: false,
            held: 0,
            gap: None,
            next_number: 0,
            block: Vec::new(),
            usual: Vec::new(),
            read_bytes: 0,
            added_bytes: 0,
            gap_bytes: 0,
        }
    }

    /// A block begins.
    pub(super) fn begin_block(&mut self) {
        self.block.clear();
    }

    /// The block refers to this entry, or adds it.
    pub(super) fn refers(&mut self, number: u64) {
        if self.block.len() < MAX_BRIDGED_FIELDS {
            self.block.push(number);
        }
    }

    /// The connection begins here.
    pub(super) fn fresh(&mut self) {
        *self = Self { whole: true, limit_known: true, ..Self::new() };
    }

    /// Fields may have been added that were not seen.
    pub(super) fn lose(&mut self) {
        let Self { limit, limit_known, next_number, .. } = *self;
        *self = Self { limit, limit_known, next_number, ..Self::new() };
    }

    /// As [`Self::lose`], but a bridge to what was before may be found.
    pub(super) fn lose_sight(&mut self) {
        // What is behind two gaps is out of reach.
        while self.gap.is_some_and(|fresh| fresh > 0 && self.entries.len() > fresh) {
            self.drop_oldest();
        }
        if self.gap != Some(0) {
            self.gap_bytes = 0;
        }
        self.whole = false;
        self.gap = Some(0);
    }

    /// Bytes of the direction have passed, read or unseen.
    pub(super) const fn passed(&mut self, bytes: u64, seen: bool) {
        let count = if seen { &mut self.read_bytes } else { &mut self.gap_bytes };
        *count = count.saturating_add(bytes);
    }

    /// The last block is what others nearly always are.
    pub(super) fn is_usual(&mut self) {
        self.usual.clone_from(&self.block);
    }

    /// Looks for a bridge in a block before it is read: the places that it refers
    /// to, none for what it adds. `same` where it can be nothing but the usual one;
    /// otherwise one of its fields may be another.
    pub(super) fn bridge(&mut self, places: &[Option<usize>], same: bool) -> bool {
        let Some(fresh) = self.gap.filter(|fresh| *fresh < self.entries.len()) else {
            return false;
        };
        if places.len() != self.usual.len() {
            return false;
        }
        // For each field, how many entries it says were added.
        let place = |number: u64| self.entries.iter().position(|entry| entry.number == number);
        let fields: Vec<Option<usize>> = places
            .iter()
            .zip(&self.usual)
            .filter_map(|(now, usual)| Some((now.filter(|now| *now >= fresh)?, place(*usual)?)))
            .map(|(now, before)| now.checked_sub(before))
            .collect();
        let agreeing = |added: &usize| fields.iter().filter(|f| **f == Some(*added)).count();
        let Some(added) = fields.iter().flatten().copied().max_by_key(agreeing) else {
            return false;
        };
        let count = agreeing(&added);
        let agrees = if same {
            count == self.usual.len()
        } else {
            count >= MIN_AGREEING_FIELDS
                && count + 1 >= fields.len()
                && self.is_too_small_a_gap_to_replace_the_table()
        };
        if !agrees || added > MAX_BRIDGED_ENTRIES {
            return false;
        }
        self.entries.range_mut(fresh..).for_each(|entry| entry.inferred = true);
        let unknown = |_| Entry {
            name: Named::Unknown,
            name_bytes: 0,
            size: ENTRY_BYTES,
            value: Box::default(),
            number: u64::MAX,
            inferred: true,
        };
        let old = self.entries.split_off(fresh);
        self.entries.extend((0..added).map(unknown));
        self.entries.extend(old);
        self.size += added * ENTRY_BYTES;
        self.gap = None;
        self.gap_bytes = 0;
        self.evict();
        true
    }

    /// Judged by how fast fields were added before, and some times that.
    fn is_too_small_a_gap_to_replace_the_table(&self) -> bool {
        let added = self.gap_bytes.saturating_mul(self.added_bytes).saturating_mul(CAUTION);
        self.limit_known && added <= (self.limit as u64).saturating_mul(self.read_bytes)
    }

    /// Whether entries were added unseen.
    pub(super) const fn has_gap(&self) -> bool {
        self.gap.is_some()
    }

    /// Bytes that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        let numbers = (self.block.capacity() + self.usual.capacity()) * size_of::<u64>();
        self.held + self.entries.capacity() * size_of::<Entry>() + numbers
    }

    /// The entry at this place; `None` where it is not known.
    pub(super) fn entry(&self, at: usize) -> Result<Option<&Entry>, Malformed> {
        if self.gap.is_some_and(|fresh| at >= fresh) {
            return Ok(None);
        }
        match self.entries.get(at) {
            None if self.whole => Err(Malformed),
            found => Ok(found),
        }
    }

    /// Adds an entry, which takes its number. It has at most `most_bytes`.
    pub(super) fn insert(&mut self, mut entry: Entry, most_bytes: usize) {
        entry.number = self.next_number;
        self.next_number += 1;
        self.refers(entry.number);
        self.added_bytes = self.added_bytes.saturating_add(most_bytes as u64);
        self.size += entry.size;
        self.held += entry.value.len();
        self.entries.push_front(entry);
        if let Some(fresh) = &mut self.gap {
            *fresh += 1;
        }
        self.evict();
    }

    /// RFC 7541, section 4.3.
    pub(super) fn resize(&mut self, limit: u64) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.limit = limit.min(MAX_TABLE_BYTES);
        self.limit_known = true;
        self.evict();
        // An empty table has nothing unknown in it.
        self.gap = self.gap.filter(|_| limit > 0);
        self.whole = (self.whole || limit == 0) && limit <= MAX_TABLE_BYTES;
    }

    fn evict(&mut self) {
        while self.size > self.limit && !self.entries.is_empty() {
            self.drop_oldest();
        }
        self.gap = self.gap.map(|fresh| fresh.min(self.entries.len()));
    }

    fn drop_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_back() {
            self.size -= entry.size;
            self.held -= entry.value.len();
        }
    }
}
