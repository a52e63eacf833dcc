//! Totals of rows by words. A file does not change, so its totals are counted once and kept.

use std::sync::Arc;

use ahash::AHashMap;
use arrow::error::ArrowError;
use parquet::errors::ParquetError;

use super::count::{Kinds, each_batch};
use crate::contract::{RowTotal, StoreError};
use crate::embedded::fault;
use crate::embedded::files::{FileTotals, SpanFile, reader};
use crate::embedded::keys::starts;
use crate::embedded::parallel::{self, NEAR_THREADS};
use crate::embedded::state::Snapshot;

/// Totals of a file with more kinds of rows are not kept.
const MOST_KEPT: usize = 20_000;

/// The totals, and the files that could not be read.
pub(in crate::embedded) struct TotalsAnswer {
    pub(in crate::embedded) totals: Vec<RowTotal>,
    pub(in crate::embedded) unreadable: Vec<Arc<SpanFile>>,
}

/// Sums under way.
#[derive(Default)]
struct Sums(AHashMap<Vec<String>, (u64, i64)>);

/// See the module. The columns are some of [`RowTotal::COLUMNS`].
pub(in crate::embedded) fn total(
    snapshot: &Snapshot,
    columns: &[&'static str],
) -> Result<TotalsAnswer, StoreError> {
    let place = |column: &&str| RowTotal::COLUMNS.iter().position(|known| known == column);
    let places: Option<Vec<usize>> = columns.iter().map(place).collect();
    let places = places.ok_or_else(|| StoreError::Limit("no totals by this column".to_owned()))?;
    let mut sums = Sums::default();
    for view in &snapshot.recent {
        let rows = view.rows.columns();
        let kinds = Kinds::of(rows, columns).map_err(ArrowError::from);
        let kinds = kinds.map_err(fault::engine("cannot count rows in memory"))?;
        let Some(starts) = starts(rows) else { continue };
        let mut own = vec![(0, i64::MIN); kinds.words.len()];
        kinds.sum(starts.values(), 0..rows.num_rows() as u32, &mut own);
        kinds.words.into_iter().zip(own).for_each(|(words, own)| sums.add(words, own));
    }
    let mut unreadable = Vec::new();
    let counted = parallel::each(&snapshot.files, NEAR_THREADS, |file| of_file(file));
    for (file, counted) in snapshot.files.iter().zip(counted) {
        match counted {
            Ok(totals) => {
                for total in &totals.of_kinds {
                    let words = places.iter().map(|place| total.words[*place].clone());
                    sums.add(words.collect(), (total.rows, total.last_start_unix_nano));
                }
            }
            Err(error) => {
                tracing::warn!("{} cannot be counted: {error}", file.path.display());
                unreadable.push(Arc::clone(file));
            }
        }
    }
    Ok(TotalsAnswer { totals: sums.finish(), unreadable })
}

fn of_file(file: &SpanFile) -> Result<Arc<FileTotals>, ParquetError> {
    if let Some(totals) = file.totals() {
        return Ok(totals);
    }
    // If rows are deleted meanwhile, the next one counts again.
    let gone = file.gone().map_or(0, |gone| gone.count);
    let mut sums = Sums::default();
    let all = 0..usize::try_from(file.rows).unwrap_or(usize::MAX);
    for (group, rows) in reader::by_group(file, &reader::left(file, &[all])) {
        let mut own = Vec::new();
        let kinds = each_batch(file, group, &rows, &RowTotal::COLUMNS, |kinds, starts, places| {
            own.resize(kinds.words.len(), (0, i64::MIN));
            kinds.sum(starts.values(), places.iter().copied(), &mut own);
        })?;
        kinds.words.into_iter().zip(own).for_each(|(words, own)| sums.add(words, own));
    }
    let totals = Arc::new(FileTotals { gone, of_kinds: sums.finish() });
    if totals.of_kinds.len() <= MOST_KEPT {
        file.keep_totals(&totals);
    }
    Ok(totals)
}

impl Kinds {
    /// Adds the number of rows and the latest start of each kind.
    fn sum(&self, starts: &[i64], places: impl Iterator<Item = u32>, sums: &mut [(u64, i64)]) {
        for (start, place) in starts.iter().zip(places) {
            if let Some(number) = self.numbers.get(place as usize)
                && let Some((rows, latest)) = sums.get_mut(*number as usize)
            {
                *rows += 1;
                *latest = (*latest).max(*start);
            }
        }
    }
}

impl Sums {
    fn add(&mut self, words: Vec<String>, (own_rows, own_latest): (u64, i64)) {
        if own_rows > 0 {
            let (rows, latest) = self.0.entry(words).or_insert((0, i64::MIN));
            *rows += own_rows;
            *latest = (*latest).max(own_latest);
        }
    }

    fn finish(self) -> Vec<RowTotal> {
        let total =
            |(words, (rows, latest))| RowTotal { words, rows, last_start_unix_nano: latest };
        self.0.into_iter().map(total).collect()
    }
}
