//! Figures by two names and a small number, of which there is a most: what does not fit is counted
//! under `other`.

use ahash::RandomState;
use hashbrown::HashTable;

use super::histogram::{Bounds, Histogram};

/// What a name is folded into.
pub const OTHER: &str = "other";
/// The longest name, in bytes. Longer ones are cut.
pub const LONGEST_NAME: usize = 256;

/// The figures of two names and a small number.
#[derive(Debug, Clone)]
pub struct Series {
    /// The first name: a service, or the client.
    pub first: Box<str>,
    /// The second name: an operation, or the server.
    pub second: Box<str>,
    /// The number: kind and status, or the type of connection.
    pub rest: u8,
    /// When it was first counted.
    pub since_unix_nano: i64,
    /// Durations.
    pub durations: Histogram,
    /// Durations as the other side saw them; those of spans have no other side.
    pub other_durations: Option<Histogram>,
    /// How many failed; that of spans is in the status.
    pub failed: u64,
}

impl Series {
    /// A copy in which all durations are in their buckets.
    pub(super) fn filled(&self) -> Self {
        Self {
            durations: self.durations.filled(),
            other_durations: self.other_durations.as_ref().map(Histogram::filled),
            first: self.first.clone(),
            second: self.second.clone(),
            ..*self
        }
    }
}

/// Where something is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) series: u32,
    pub(super) is_folded: bool,
}

/// A bounded table.
#[derive(Debug)]
pub(super) struct Table {
    bounds: Bounds,
    has_other_side: bool,
    places: HashTable<u32>,
    pub(super) all: Vec<Series>,
    hasher: RandomState,
    /// From so many on, only new first names come in, with `other` for the second.
    most_whole: usize,
    /// From so many on, what is new is `other` entirely.
    most: usize,
    /// How much was folded.
    pub(super) folded: u64,
}

impl Table {
    pub(super) fn new(bounds: Bounds, has_other_side: bool, most: usize) -> Self {
        Self {
            bounds,
            has_other_side,
            places: HashTable::new(),
            all: Vec::new(),
            hasher: RandomState::new(),
            most_whole: most - most / 4,
            most,
            folded: 0,
        }
    }

    pub(super) const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The bounds of buckets, and the series at this place.
    pub(super) fn series(&mut self, place: Place) -> (&Bounds, &mut Series) {
        (&self.bounds, &mut self.all[place.series as usize])
    }

    /// Where to count what has these names and this number.
    pub(super) fn place(&mut self, first: &str, second: &str, rest: u8, now: i64) -> Place {
        let (first, second) = (cut(first), cut(second));
        if let Some(series) = self.find(first, second, rest) {
            return Place { series, is_folded: false };
        }
        if self.all.len() < self.most_whole {
            return Place { series: self.add(first, second, rest, now), is_folded: false };
        }
        let (first, second) = match self.find(first, OTHER, rest) {
            Some(series) => return Place { series, is_folded: true },
            None if self.all.len() < self.most => (first, OTHER),
            None => (OTHER, OTHER),
        };
        let found = self.find(first, second, rest);
        let series = found.unwrap_or_else(|| self.add(first, second, rest, now));
        Place { series, is_folded: true }
    }

    fn find(&self, first: &str, second: &str, rest: u8) -> Option<u32> {
        let hash = self.hasher.hash_one((first, second, rest));
        let is_it = |place: &u32| {
            let series = &self.all[*place as usize];
            *series.first == *first && *series.second == *second && series.rest == rest
        };
        self.places.find(hash, is_it).copied()
    }

    fn add(&mut self, first: &str, second: &str, rest: u8, now: i64) -> u32 {
        let place = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(Series {
            first: first.into(),
            second: second.into(),
            rest,
            since_unix_nano: now,
            durations: Histogram::new(&self.bounds),
            other_durations: self.has_other_side.then(|| Histogram::new(&self.bounds)),
            failed: 0,
        });
        let Self { places, all, hasher, .. } = self;
        let hash =
            |series: &Series| hasher.hash_one((&*series.first, &*series.second, series.rest));
        places
            .insert_unique(hash(&all[place as usize]), place, |place| hash(&all[*place as usize]));
        place
    }
}

/// A name, or its beginning if it is too long.
pub(super) fn cut(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LONGEST_NAME)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(table: &Table, place: Place) -> (&str, &str, u8, bool) {
        let series = &table.all[place.series as usize];
        (&series.first, &series.second, series.rest, place.is_folded)
    }

    #[test]
    fn what_does_not_fit_is_counted_as_other() {
        let mut table = Table::new(Bounds::doubling(1, 1), false, 8);
        let mut put = |first, second, expected: (&str, &str, bool)| {
            let place = table.place(first, second, 1, 0);
            let (first, second, folded) = expected;
            assert_eq!(names(&table, place), (first, second, 1, folded));
        };
        for name in ["1", "2", "3", "4", "5", "6"] {
            put("a", name, ("a", name, false));
        }
        put("a", "7", ("a", OTHER, true));
        put("a", "8", ("a", OTHER, true));
        put("a", "3", ("a", "3", false));
        put("b", "1", ("b", OTHER, true));
        // Full.
        put("c", "1", (OTHER, OTHER, true));
        put("d", "1", (OTHER, OTHER, true));
        put("b", "2", ("b", OTHER, true));
        assert_eq!(table.all.len(), 9);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = "ü".repeat(200);
        assert_eq!(cut(&long).len(), 256);
        assert_eq!(cut(&format!("x{long}")).len(), 255);
        assert_eq!(cut("short"), "short");
    }
}
