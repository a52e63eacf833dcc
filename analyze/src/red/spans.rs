//! Figures of spans by service, operation, kind and status.

use hashbrown::HashMap;
use spanwise_model::{Kind, Status};

use super::columns::Columns;
use super::series::{Place, Table};

/// The number of a series: kind and status.
fn rest(kind: Kind, status: Status) -> u8 {
    (kind as u8) << 2 | status as u8
}

/// The kind and the status of a series' number.
pub(super) fn kind_and_status(rest: u8) -> (Kind, Status) {
    let kind = Kind::ALL.get(usize::from(rest >> 2)).copied().unwrap_or(Kind::Internal);
    let status = Status::ALL.get(usize::from(rest & 3)).copied().unwrap_or(Status::Unset);
    (kind, status)
}

/// The series of a batch's rows. A name of a batch is a small number, so that most rows find their
/// series without their texts.
#[derive(Debug)]
pub(super) struct SeriesOfRows {
    known: HashMap<u64, Place, ahash::RandomState>,
    /// Some of them at places that follow from their numbers, which is faster.
    near: [(u64, Place); NEAR],
}

const NEAR_BITS: u32 = 7;
const NEAR: usize = 1 << NEAR_BITS;
const NOTHING: (u64, Place) = (u64::MAX, Place { series: 0, is_folded: false });

impl Default for SeriesOfRows {
    fn default() -> Self {
        Self { known: HashMap::default(), near: [NOTHING; NEAR] }
    }
}

impl SeriesOfRows {
    /// Begins another batch.
    pub(super) fn begin(&mut self) {
        self.known.clear();
        self.near = [NOTHING; NEAR];
    }

    pub(super) fn of(
        &mut self,
        row: usize,
        (kind, status): (Kind, Status),
        columns: &Columns<'_>,
        table: &mut Table,
        now: i64,
    ) -> Place {
        let rest = rest(kind, status);
        // Numbers of names are below 2^31, but only a batch of more than 2^26 rows has such.
        let place = |place: Option<usize>| place.map_or(0, |place| place as u64 + 1);
        let (service, operation) = (columns.services.place(row), columns.operations.place(row));
        let key = place(service) << 37 | place(operation) << 5 | u64::from(rest);
        // Fibonacci hashing.
        let near = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - NEAR_BITS)) as usize;
        let (near_key, found) = self.near[near];
        if near_key == key {
            return found;
        }
        let found = *self.known.entry(key).or_insert_with(|| {
            table.place(columns.services.text(row), columns.operations.text(row), rest, now)
        });
        self.near[near] = (key, found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_status_are_one_number() {
        for kind in Kind::ALL {
            for status in Status::ALL {
                let number = rest(*kind, *status);
                assert!(number < 32);
                assert_eq!(kind_and_status(number), (*kind, *status));
            }
        }
    }
}
