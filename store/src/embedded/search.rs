//! Rows that fulfil a predicate, newest first: batches in memory and blocks of
//! files are gone through from the newest, until no older one can change the
//! answer.
//!
//! Of each, only the columns that decide are read. Of the rows that they leave,
//! the newest are kept as places, and read whole in the end.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use spanwise_model::SpanRows;
use spanwise_model::schema::{column, span_schema};

use super::chunk::View;
use super::files::SpanFile;
use super::index::Block;
use super::keys::{hash_attribute, overlaps, starts};
use super::layout::Wanted;
use super::newest::Newest;
use super::parallel::NEAR_THREADS;
use super::reader::FEW_ROWS;
use super::state::Snapshot;
use super::{gather, mask, reader, sketch, valued};
use crate::contract::{Predicate, Query, TimeRange};

/// Blocks that are looked through at once, at most: as many as a row group has.
const RUN_BLOCKS: usize = 32;

/// The answer, and the files that could not be read.
pub(super) struct Found {
    pub(super) rows: Vec<RecordBatch>,
    pub(super) unreadable: Vec<(Arc<SpanFile>, String)>,
}

/// A row that may be in the answer, by its start and its place in what is
/// searched.
type Hit = (i64, u32, u32);

/// Neighbouring blocks of one file, all of which may have rows for the answer.
struct Run<'a> {
    source: u32,
    file: &'a Arc<SpanFile>,
    /// Their newest starts, and their rows; newest first, and never none.
    blocks: Vec<(i64, Range<usize>)>,
}

impl Run<'_> {
    fn newest(&self) -> i64 {
        self.blocks.first().map_or(i64::MIN, |(start, _)| *start)
    }
}

/// See the module.
pub(super) fn find(snapshot: &Snapshot, query: &Query) -> Result<Found, ArrowError> {
    let mut search = Search { query, newest: Newest::new(query.limit) };
    let mut views: Vec<(u32, &Arc<View>)> = (0..).zip(&snapshot.recent).collect();
    views.sort_by_key(|(_, view)| Reverse(view.starts.1));
    for (source, view) in views {
        if !search.newest.is_decided_before(view.starts.1) {
            search.look_in_batch(source, &view.rows)?;
        }
    }
    let mut unreadable: Vec<(u32, String)> = Vec::new();
    let first_file = snapshot.recent.len() as u32;
    search.look_in_files(first_file, &snapshot.files, &mut unreadable);
    let rows = search.finish(snapshot, &mut unreadable)?;
    let name = |(source, reason): (u32, String)| {
        (Arc::clone(&snapshot.files[(source - first_file) as usize]), reason)
    };
    Ok(Found { rows, unreadable: unreadable.into_iter().map(name).collect() })
}

struct Search<'a> {
    query: &'a Query,
    newest: Newest<Hit>,
}

impl Search<'_> {
    fn look_in_batch(&mut self, source: u32, rows: &SpanRows) -> Result<(), ArrowError> {
        let mask = mask::of_rows_in_memory(rows, &self.query.predicate, self.query.time)?;
        let Some(starts) = starts(rows.columns()) else { return Ok(()) };
        for row in mask.values().set_indices().filter(|row| mask.is_valid(*row)) {
            self.newest.admit((starts.value(row), source, row as u32));
        }
        Ok(())
    }

    fn look_in_files(
        &mut self,
        first_file: u32,
        files: &[Arc<SpanFile>],
        unreadable: &mut Vec<(u32, String)>,
    ) {
        let query = self.query;
        let mut runs = Runs::new(first_file, files, query);
        let mut is_first = true;
        loop {
            // The first one alone may decide, or even its first blocks. Where they have
            // not, hits are few, and the others are asked for all of theirs at once.
            let (count, blocks) = if is_first { (1, 1) } else { (NEAR_THREADS, RUN_BLOCKS) };
            is_first = false;
            let open: Vec<Run<'_>> = std::iter::from_fn(|| runs.next(unreadable))
                .take(count)
                .take_while(|run| !self.newest.is_decided_before(run.newest()))
                .collect();
            // What comes after them is older still.
            let Some((own, others)) = open.split_first() else { break };
            let looked = std::thread::scope(|scope| {
                let mut threads = Vec::new();
                for run in others {
                    threads
                        .push((run.source, scope.spawn(move || look_in_run(run, query, blocks))));
                }
                let mut looked = vec![(own.source, look_in_run(own, query, blocks))];
                for (source, thread) in threads {
                    let hits =
                        thread.join().unwrap_or_else(|_| Err("reading it failed".to_owned()));
                    looked.push((source, hits));
                }
                looked
            });
            for (source, hits) in looked {
                match hits {
                    Ok(hits) => {
                        hits.into_iter()
                            .for_each(|(start, row)| self.newest.admit((start, source, row)));
                    }
                    Err(reason) => unreadable.push((source, reason)),
                }
            }
        }
    }

    /// Reads the rows of all hits, newest first.
    fn finish(
        self,
        snapshot: &Snapshot,
        unreadable: &mut Vec<(u32, String)>,
    ) -> Result<Vec<RecordBatch>, ArrowError> {
        let columns = answered(self.query);
        let whole = span_schema();
        let places: Vec<usize> =
            columns.iter().map(|name| whole.index_of(name)).collect::<Result<_, _>>()?;
        let schema: SchemaRef = Arc::new(whole.project(&places)?);
        let mut hits: Vec<(u32, u32)> =
            self.newest.into_vec().into_iter().map(|(_, source, row)| (source, row)).collect();
        hits.sort_unstable();
        let mut found = Vec::new();
        for of_source in hits.chunk_by(|one, other| one.0 == other.0) {
            let source = of_source[0].0;
            if let Some(view) = snapshot.recent.get(source as usize) {
                let rows: UInt32Array = of_source.iter().map(|(_, row)| Some(*row)).collect();
                found.push(view.rows.pick(&places, &rows)?);
                continue;
            }
            let file = &snapshot.files[source as usize - snapshot.recent.len()];
            match read_rows(file, of_source, &columns) {
                Ok(rows) => found.extend(rows),
                Err(error) => unreadable.push((source, error.to_string())),
            }
        }
        let rows = gather::all(&schema, &found)?;
        let options = arrow::compute::SortOptions { descending: true, nulls_first: false };
        let order = match starts(&rows) {
            Some(starts) => {
                arrow::compute::sort_to_indices(starts, Some(options), Some(self.query.limit))?
            }
            None => UInt32Array::from(Vec::<u32>::new()),
        };
        Ok(vec![take_record_batch(&rows, &order)?])
    }
}

/// The blocks of all files that may have rows for the answer, newest first, in
/// runs of neighbours in this order. A row of a wrong clock sets its own block
/// apart from its file, and no other.
struct Runs<'a> {
    /// All that have rows in the time.
    blocks: Vec<Candidate<'a>>,
    predicate: &'a Predicate,
    /// Of the attributes that are asked for.
    hashes: Vec<u64>,
    /// By source and row group, which blocks may have rows that fulfil the predicate.
    fitting: AHashMap<(u32, usize), u32>,
    /// How many were looked at, and are ready to be.
    next: usize,
    prepared: usize,
    /// Was looked at, and begins the next run.
    ahead: Option<Candidate<'a>>,
}

type Candidate<'a> = (u32, &'a Arc<SpanFile>, &'a Block);

impl<'a> Runs<'a> {
    fn new(first_file: u32, files: &'a [Arc<SpanFile>], query: &'a Query) -> Self {
        let mut blocks: Vec<Candidate<'_>> = Vec::new();
        for (source, file) in (first_file..).zip(files) {
            let in_time =
                file.index.blocks.iter().filter(|block| overlaps(block.starts, query.time));
            blocks.extend(in_time.map(|block| (source, file, block)));
        }
        blocks.sort_by_key(|(_, _, block)| Reverse(block.starts.1));
        let (predicate, fitting) = (&query.predicate, AHashMap::new());
        let attributes = predicate.attributes.iter();
        let hashes = attributes.map(|wanted| hash_attribute(&wanted.key, &wanted.value)).collect();
        Self { blocks, predicate, hashes, fitting, next: 0, prepared: 0, ahead: None }
    }

    /// The next run; files that cannot be read are told of.
    fn next(&mut self, unreadable: &mut Vec<(u32, String)>) -> Option<Run<'a>> {
        let (source, file, block) = self.ahead.take().or_else(|| self.next_block(unreadable))?;
        let mut run = Run { source, file, blocks: vec![entry(block)] };
        while run.blocks.len() < RUN_BLOCKS
            && let Some(next) = self.next_block(unreadable)
        {
            if next.0 != source {
                self.ahead = Some(next);
                break;
            }
            run.blocks.push(entry(next.2));
        }
        Some(run)
    }

    /// The next block that may have rows which fulfil the predicate.
    fn next_block(&mut self, unreadable: &mut Vec<(u32, String)>) -> Option<Candidate<'a>> {
        loop {
            let candidate = *self.blocks.get(self.next)?;
            let (source, _, block) = candidate;
            match self.fitting(candidate) {
                Ok(blocks) => {
                    self.next += 1;
                    if blocks >> block.number & 1 == 1 {
                        return Some(candidate);
                    }
                }
                Err(error) => {
                    unreadable.push((source, error.to_string()));
                    // None of its blocks will be any better.
                    let rest = self.blocks.split_off(self.next);
                    self.blocks.extend(rest.into_iter().filter(|other| other.0 != source));
                    self.prepared = self.next;
                }
            }
        }
    }

    fn fitting(&mut self, (source, file, block): Candidate<'_>) -> Result<u32, ParquetError> {
        if let Some(blocks) = self.fitting.get(&(source, block.group)) {
            return Ok(*blocks);
        }
        self.prepare()?;
        let mut blocks = file.blocks_with_all(block.group, &self.hashes)?;
        if blocks != 0 && sketch::is_of_use(self.predicate) {
            blocks &= sketch::blocks(file, block.group, self.predicate)?;
        }
        self.fitting.insert((source, block.group), blocks);
        Ok(blocks)
    }

    /// Has ready what tells of some blocks, the more the further the search goes.
    fn prepare(&mut self) -> Result<(), ParquetError> {
        if self.next < self.prepared {
            return Ok(());
        }
        let count = self.next.max(RUN_BLOCKS);
        let some = &self.blocks[self.next..self.blocks.len().min(self.next + count)];
        let own = some.chunk_by(|one, other| one.0 == other.0).next().unwrap_or_default();
        self.prepared = self.next + own.len();
        let Some((_, file, _)) = own.first() else { return Ok(()) };
        let groups = own.chunk_by(|one, other| one.2.group == other.2.group);
        let groups = groups.map(|blocks| blocks[0].2.group);
        if sketch::is_of_use(self.predicate) {
            sketch::prepare(file, groups.clone())?;
        }
        Ok(file.prepare_groups(groups, &self.hashes)?)
    }
}

/// The newest start of a block, and its rows.
const fn entry(block: &Block) -> (i64, Range<usize>) {
    (block.starts.1, block.first_row..block.first_row + block.rows)
}

/// Starts and numbers of the rows of a run that fulfil the predicate; where there
/// are more than are asked for, older ones may be missing. Begins with so many
/// blocks.
fn look_in_run(run: &Run<'_>, query: &Query, mut count: usize) -> Result<Vec<(i64, u32)>, String> {
    let mut newest: Newest<(i64, u32)> = Newest::new(query.limit);
    let mut rest = run.blocks.as_slice();
    while let Some((start, _)) = rest.first()
        && !newest.is_decided_before(*start)
    {
        let (now, later) = rest.split_at(count.min(rest.len()));
        let mut rows: Vec<Range<usize>> = now.iter().map(|(_, rows)| rows.clone()).collect();
        rows.sort_unstable_by_key(|rows| rows.start);
        let hits = look_in_blocks(run.file, rows, query).map_err(|error| error.to_string())?;
        hits.into_iter().for_each(|hit| newest.admit(hit));
        // To ask for columns costs as much for one block as for several.
        (rest, count) = (later, count.saturating_mul(4));
    }
    Ok(newest.into_vec())
}

/// Starts and numbers of those of some blocks' rows that fulfil the predicate.
fn look_in_blocks(
    file: &SpanFile,
    mut rows: Vec<Range<usize>>,
    query: &Query,
) -> Result<Vec<(i64, u32)>, ParquetError> {
    let mut predicate = query.predicate.clone();
    rows = reader::left(file, &rows);
    if sketch::is_of_use(&predicate) && !rows.is_empty() {
        rows = sketch::narrow(file, &rows, &predicate)?;
        // They are decided.
        (predicate.service, predicate.operation, predicate.status) = (None, None, None);
        (predicate.min_duration_nano, predicate.max_duration_nano) = (None, None);
    }
    for wanted in &predicate.attributes {
        rows = valued::narrow(file, &rows, wanted)?;
    }
    predicate.attributes.retain(|wanted| !valued::is_exact(file, &wanted.key));
    // The start is read for each part, so a few rows are asked everything at once.
    let is_few = rows.iter().map(ExactSizeIterator::len).sum::<usize>() <= FEW_ROWS;
    let mut hits = Vec::new();
    for stage in if is_few { vec![predicate] } else { stages(&predicate) } {
        hits = matching(file, &rows, &stage, query.time)?;
        rows = ranges(hits.iter().map(|(_, row)| *row));
    }
    Ok(hits)
}

/// The predicate in parts, of which each is asked of the rows that those before
/// have left: what is read for the last one is the largest.
fn stages(predicate: &Predicate) -> Vec<Predicate> {
    let Predicate { attributes, assembled, root, .. } = predicate.clone();
    let attributes = Predicate { attributes, ..Predicate::default() };
    let ids = Predicate { assembled, root, ..Predicate::default() };
    let rest =
        Predicate { attributes: Vec::new(), assembled: false, root: false, ..predicate.clone() };
    let mut stages = vec![rest, attributes, ids];
    stages.retain(|stage| *stage != Predicate::default());
    if stages.is_empty() {
        // The time is asked of every row.
        stages.push(Predicate::default());
    }
    stages
}

/// Starts and numbers of those of some rows that fulfil the predicate.
fn matching(
    file: &SpanFile,
    rows: &[Range<usize>],
    predicate: &Predicate,
    time: TimeRange,
) -> Result<Vec<(i64, u32)>, ParquetError> {
    let mut hits = Vec::new();
    if rows.is_empty() {
        return Ok(hits);
    }
    let columns = mask::columns(predicate);
    let keys: Vec<&str> = predicate.attributes.iter().map(|wanted| wanted.key.as_str()).collect();
    let wanted = Wanted { columns: Some(&columns), keys: Some(&keys), parent_ids: false };
    let mut numbers = rows.iter().cloned().flatten();
    for batch in reader::read(file, rows, &wanted)? {
        let mask = mask::of_rows(&batch, predicate, time)?;
        let Some(starts) = starts(&batch) else { continue };
        for (row, number) in numbers.by_ref().take(batch.num_rows()).enumerate() {
            if mask.is_valid(row) && mask.value(row) {
                hits.push((starts.value(row), number as u32));
            }
        }
    }
    Ok(hits)
}

/// Row numbers in order, as ranges.
fn ranges(rows: impl Iterator<Item = u32>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for row in rows.map(|row| row as usize) {
        match ranges.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}

fn read_rows(
    file: &SpanFile,
    rows: &[(u32, u32)],
    columns: &[&'static str],
) -> Result<Vec<RecordBatch>, ParquetError> {
    let ranges = ranges(rows.iter().map(|(_, row)| *row));
    reader::read(file, &ranges, &Wanted::columns(columns))
}

/// The columns of the answer, in the schema's order; with the start, by which it
/// is ordered.
fn answered(query: &Query) -> Vec<&'static str> {
    let wanted = |name: &&str| {
        query.columns.is_empty() || query.columns.contains(name) || *name == column::START_UNIX_NANO
    };
    column::ALL.iter().copied().filter(wanted).collect()
}

#[cfg(test)]
mod tests;
