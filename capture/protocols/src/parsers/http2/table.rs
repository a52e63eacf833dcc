//! The dynamic table of HPACK (RFC 7541, section 2.3.2) as far as it is known.
//!
//! Entries are counted from the newest, so those added since the beginning, or
//! since bytes were lost, are known whatever was in the table before. What refers
//! to older ones is said to be unknown.
//!
//! Unless there is a bridge: of how many entries were added unseen, only one number gives a
//! block the fields that blocks of its shape have had until then, in their order. To be wrong
//! about that, what it refers to would have to have been replaced unseen, and the gap is too
//! small for this by how fast entries were added before. What rests on it is said to be
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
/// Fields that must agree for a bridge where one may be new.
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

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A request's head.
    Request,
    /// The head of a response of which more follows.
    Answer,
    /// A head that is the whole of a response.
    LastAnswer,
}

const SHAPES: usize = 3;

/// What tells the name of a block's field before the block is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// It is there, or in the static table.
    Named(u32),
    /// The entry that was at this place before the block.
    At(usize),
    /// An entry that the block itself adds.
    Own,
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
    /// Its name, see [`super::names::number_of`]; 0 where that was not seen.
    pub(super) name_number: u32,
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
    /// The names of the last block's fields, but of those beyond the bound.
    block: Vec<u32>,
    /// Those of the last block of each shape that was called usual.
    usual: [Vec<u32>; SHAPES],
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
            block: Vec::new(),
            usual: [const { Vec::new() }; SHAPES],
            read_bytes: 0,
            added_bytes: 0,
            gap_bytes: 0,
        }
    }

    /// A block begins.
    pub(super) fn begin_block(&mut self) {
        self.block.clear();
    }

    /// The block has a field of this name.
    #[inline]
    pub(super) fn says(&mut self, name_number: u32) {
        if self.block.len() < MAX_BRIDGED_FIELDS {
            self.block.push(name_number);
        }
    }

    /// The connection begins here.
    pub(super) fn fresh(&mut self) {
        *self = Self { whole: true, limit_known: true, ..Self::new() };
    }

    /// Fields may have been added that were not seen.
    pub(super) fn lose(&mut self) {
        let Self { limit, limit_known, .. } = *self;
        *self = Self { limit, limit_known, ..Self::new() };
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

    /// The last block is what others of its shape nearly always are.
    pub(super) fn is_usual(&mut self, shape: Shape) {
        self.usual[shape as usize].clone_from(&self.block);
    }

    /// Looks for a bridge in a block before it is read.
    pub(super) fn bridge(&mut self, fields: &[Field], shape: Shape) -> bool {
        let Some(fresh) = self.gap.filter(|fresh| *fresh < self.entries.len()) else {
            return false;
        };
        if !self.is_too_small_a_gap_to_replace_the_table() {
            return false;
        }
        let mut fitting =
            (0..=MAX_BRIDGED_ENTRIES).filter(|added| self.fits(fields, shape, *added));
        let (Some(added), None) = (fitting.next(), fitting.next()) else { return false };
        self.entries.range_mut(fresh..).for_each(|entry| entry.inferred = true);
        let unknown = |_| Entry {
            name: Named::Unknown,
            name_bytes: 0,
            size: ENTRY_BYTES,
            value: Box::default(),
            name_number: 0,
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

    /// Whether a block has the fields that blocks of its shape have, if so many entries were
    /// added in the gap.
    fn fits(&self, fields: &[Field], shape: Shape, added: usize) -> bool {
        let usual = &self.usual[shape as usize];
        let fresh = self.gap.unwrap_or(0);
        let (mut agreeing, mut new) = (0, 0);
        let same = |(field, usual): (&Field, &u32)| {
            let place = match *field {
                Field::Named(number) => return number == *usual,
                Field::Own => return true,
                Field::At(place) => place,
            };
            let known = match place.checked_sub(fresh) {
                None => return self.entries.get(place).is_some_and(|e| e.name_number == *usual),
                Some(behind) => behind.checked_sub(added),
            };
            let Some(known) = known else {
                // It was added in the gap.
                new += 1;
                return true;
            };
            agreeing += 1;
            self.entries.get(fresh + known).is_some_and(|entry| entry.name_number == *usual)
        };
        let (least, most_new) = match shape {
            Shape::Request => (MIN_AGREEING_FIELDS, 1),
            Shape::Answer | Shape::LastAnswer => (1, 0),
        };
        fields.len() == usual.len()
            && fields.iter().zip(usual).all(same)
            && agreeing >= least
            && new <= most_new
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
        let numbers = self.usual.iter().chain([&self.block]).map(Vec::capacity).sum::<usize>();
        let numbers = numbers * size_of::<u32>();
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

    /// Adds an entry. It has at most `most_bytes`.
    pub(super) fn insert(&mut self, entry: Entry, most_bytes: usize) {
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
