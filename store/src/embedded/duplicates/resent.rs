//! Finds spans that are already in files. Only spans that start earlier than the [identities in
//! memory](super::seen) need this.
//!
//! A file may contain such a span if it has the span's trace, in a block whose starts and ids
//! match. Data in memory rules out most files. For the others, two small reads rule out nearly
//! every span.

use std::ops::Range;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use arrow::array::{Array, AsArray, Int64Array, RecordBatch, UInt32Array};
use parquet::errors::ParquetError;
use spanwise_model::schema::column;
use spanwise_model::{SpanId, SpanRows};

use super::identity::{self, COLUMNS, Identities};
use crate::contract::{Key, Origin, StoreError, TimeRange};
use crate::embedded::files::SpanFile;
use crate::embedded::files::layout::Wanted;
use crate::embedded::files::reader;
use crate::embedded::keys::{hash_key, hash_trace, starts};
use crate::embedded::upkeep::blocking;
use crate::embedded::{EmbeddedStore, fault};

/// Rows to store.
pub(crate) struct RowsToStore {
    pub(crate) rows: SpanRows,
    /// The identity of each row; `None` if identities are not needed.
    pub(crate) identities: Option<Vec<u64>>,
    /// The indexes of the remaining rows in the original batch, if some rows were left out.
    pub(crate) kept: Option<Vec<u32>>,
}

impl EmbeddedStore {
    /// The rows of a batch that files do not have yet. Batches whose origin is known, including all
    /// batches of agents, cost nothing here.
    ///
    /// # Errors
    /// If the rows cannot be copied.
    pub(crate) async fn without_stored(
        &self,
        rows: SpanRows,
        origin: Option<Origin>,
    ) -> Result<RowsToStore, StoreError> {
        let is_known = origin.is_some_and(|origin| self.state.lock().origins.knows(origin));
        let identities = match is_known {
            true => None,
            false => self.identities.of_sent(rows.columns(), origin),
        };
        let all_new = |rows, identities| Ok(RowsToStore { rows, identities, kept: None });
        let (Some(of_rows), Some(starts)) = (&identities, starts(rows.columns())) else {
            return all_new(rows, None);
        };
        let covered_after = self.covered.after();
        let is_late =
            |row: &usize| starts.value(*row) <= covered_after && of_rows[*row] != identity::NONE;
        let late: Vec<usize> = (0..starts.len()).filter(is_late).collect();
        let of_late = late.iter().map(|row| starts.value(*row));
        let Some((least, most)) = of_late.clone().min().zip(of_late.max()) else {
            return all_new(rows, identities);
        };
        let time = TimeRange { from_unix_nano: least, to_unix_nano: most.saturating_add(1) };
        let files = self.state.lock().files_in(time);
        if files.is_empty() {
            return all_new(rows, identities);
        }
        let (columns, hashes) = (rows.columns().clone(), Arc::clone(&self.identities));
        let of_rows = identities.unwrap_or_default();
        let look = move || {
            let found = stored(&files, &columns, (&hashes, &of_rows), &late);
            Ok((of_rows, found))
        };
        let (of_rows, (found, unreadable)) = blocking("looking for what came twice", look).await?;
        if !unreadable.is_empty() {
            self.state.lock().count("files_not_asked_for_duplicates", unreadable.len() as u64);
            self.set_broken_aside(&unreadable).await;
        }
        if found.is_empty() {
            return all_new(rows, Some(of_rows));
        }
        let kept: Vec<u32> = (0u32..)
            .zip(&of_rows)
            .filter(|(_, identity)| !found.contains(identity))
            .map(|(row, _)| row)
            .collect();
        self.state.lock().count("spans_duplicate", (of_rows.len() - kept.len()) as u64);
        let rows = rows.take(&UInt32Array::from(kept.clone()));
        let rows = rows.map_err(fault::engine("cannot copy the rows of a batch"))?;
        let identities = kept.iter().map(|row| of_rows[*row as usize]).collect();
        Ok(RowsToStore { rows, identities: Some(identities), kept: Some(kept) })
    }
}

/// A span that may already be stored.
struct PossibleDuplicate {
    identity: u64,
    start_unix_nano: i64,
    /// The hash of its span id.
    span: u64,
}

/// The identities of late spans that files contain, and the files that could not be read.
fn stored(
    files: &[Arc<SpanFile>],
    batch: &RecordBatch,
    identities: (&Identities, &[u64]),
    late: &[usize],
) -> (AHashSet<u64>, Vec<Arc<SpanFile>>) {
    let (mut found, mut unreadable) = (AHashSet::new(), Vec::new());
    let (hashes, of_rows) = identities;
    let Some(traces) = by_trace(batch, of_rows, late) else { return (found, unreadable) };
    for file in files {
        match look_in(file, &traces, hashes, &mut found) {
            Ok(()) => {}
            Err(_) => unreadable.push(Arc::clone(file)),
        }
    }
    (found, unreadable)
}

/// The late rows of a batch, by the hash of their trace id.
fn by_trace(
    batch: &RecordBatch,
    identities: &[u64],
    late: &[usize],
) -> Option<AHashMap<u64, Vec<PossibleDuplicate>>> {
    let ids = |name| batch.column_by_name(name)?.as_fixed_size_binary_opt();
    let (traces, spans) = (ids(column::TRACE_ID)?, ids(column::SPAN_ID)?);
    let starts: &Int64Array = starts(batch)?;
    let mut all: AHashMap<u64, Vec<PossibleDuplicate>> = AHashMap::new();
    for row in late.iter().copied().filter(|row| traces.is_valid(*row)) {
        let span = SpanId(spans.value(row).try_into().ok()?);
        all.entry(hash_trace(traces.value(row))).or_default().push(PossibleDuplicate {
            identity: identities[row],
            start_unix_nano: starts.value(row),
            span: hash_key(&Key::Span(span)),
        });
    }
    Some(all)
}

fn look_in(
    file: &SpanFile,
    traces: &AHashMap<u64, Vec<PossibleDuplicate>>,
    identities: &Identities,
    found: &mut AHashSet<u64>,
) -> Result<(), ParquetError> {
    let is_in = |(least, most): (i64, i64)| {
        move |late: &&PossibleDuplicate| {
            least <= late.start_unix_nano && late.start_unix_nano <= most
        }
    };
    let mut rows: Vec<Range<usize>> = Vec::new();
    let mut wanted: AHashSet<u64> = AHashSet::new();
    for (trace, spans) in traces {
        if !spans.iter().any(|late| is_in(file.starts)(&late)) {
            continue;
        }
        let runs = match file.index.trace(&file.file, *trace)? {
            Some(runs) => runs
                .into_iter()
                .map(|run| run.first_row as usize..run.first_row as usize + run.rows as usize)
                .collect(),
            // The index is damaged or missing.
            None => vec![file.all_rows()],
        };
        for run in runs {
            let blocks = &file.index.blocks;
            let first = blocks.partition_point(|block| block.first_row + block.rows <= run.start);
            for block in blocks[first..].iter().take_while(|block| block.first_row < run.end) {
                for late in spans.iter().filter(is_in(block.starts)) {
                    let with_it = file.index.blocks_with(&file.file, block.group, late.span)?;
                    if with_it >> block.number & 1 == 1 {
                        wanted.insert(late.identity);
                        let end = block.first_row + block.rows;
                        rows.push(run.start.max(block.first_row)..run.end.min(end));
                    }
                }
            }
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let rows = reader::united(rows, file.all_rows().end);
    for batch in reader::read(file, &reader::left(file, &rows), &Wanted::columns(&COLUMNS))? {
        let there = identities.of(&batch).unwrap_or_default();
        found.extend(there.into_iter().filter(|identity| wanted.contains(identity)));
    }
    Ok(())
}
