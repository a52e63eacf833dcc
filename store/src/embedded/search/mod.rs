//! Finds rows by predicate, newest or longest first. Batches in memory and blocks of files are
//! searched in this order until no later one can change the answer.
//!
//! Only the columns that decide are read. The first matching rows are kept as locations, and read
//! completely at the end.

mod above;
pub(super) mod attribute;
pub(super) mod attribute_search;
pub(super) mod condition;
pub(super) mod count;
pub(super) mod first;
pub(super) mod mask;
pub(in crate::embedded) mod names;
pub(super) mod sketch;
pub(super) mod totals;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{Array, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use spanwise_model::SpanRows;
use spanwise_model::schema::{column, span_schema};

use crate::contract::{Order, Predicate, Query, TimeRange};
use crate::embedded::files::SpanFile;
use crate::embedded::files::index::Block;
use crate::embedded::files::layout::Wanted;
use crate::embedded::files::reader::FEW_ROWS;
use crate::embedded::files::{gather, reader};
use crate::embedded::keys::{overlaps, starts};
use crate::embedded::parallel::NEAR_THREADS;
use crate::embedded::recent::chunk::View;
use crate::embedded::state::Snapshot;
use above::Traces;
use attribute_search::Asked;
use first::{First, Rank, rank};

/// Maximum blocks that are searched together: those of one row group.
const RUN_BLOCKS: usize = 32;

/// The answer, and the files that could not be read.
pub(super) struct SearchAnswer {
    pub(super) rows: Vec<RecordBatch>,
    pub(super) unreadable: Vec<(Arc<SpanFile>, String)>,
}

/// The location of a matching row: source, and row in it.
type Hit = (u32, u32);

/// Consecutive blocks of one file that may all contain matching rows.
struct Run<'a> {
    source: u32,
    file: &'a Arc<SpanFile>,
    /// Each block's highest possible rank and its rows, highest rank first. Never empty.
    blocks: Vec<(Rank, Range<usize>)>,
}

impl Run<'_> {
    fn first(&self) -> Rank {
        self.blocks.first().map_or((i64::MIN, i64::MIN), |(rank, _)| *rank)
    }
}

/// The time of the rows that a search looks at. Those outside of the query's time only tell what is
/// above others.
pub(super) fn time_of_rows(query: &Query) -> TimeRange {
    let TimeRange { from_unix_nano, to_unix_nano } = query.time;
    let within = query.predicate.above.as_ref().map_or(query.time, |above| above.within);
    TimeRange {
        from_unix_nano: from_unix_nano.min(within.from_unix_nano),
        to_unix_nano: to_unix_nano.max(within.to_unix_nano),
    }
}

/// Runs a search. See the module's description. The snapshot is that of [`time_of_rows`].
pub(super) fn find(snapshot: &Snapshot, query: &Query) -> Result<SearchAnswer, ArrowError> {
    let mut search = Search { query, first: First::new(query.limit) };
    let mut views: Vec<(u32, &Arc<View>)> = (0..).zip(&snapshot.recent).collect();
    views.sort_by_key(|(_, view)| Reverse(view.starts.1));
    for (source, view) in views {
        let most = rank(query.order, view.starts.1, i64::MAX);
        if !search.first.is_decided_before(most) {
            search.look_in_batch(source, &view.rows)?;
        }
    }
    let mut unreadable: Vec<(u32, String)> = Vec::new();
    let first_file = snapshot.recent.len() as u32;
    search.look_in_files(snapshot, &mut unreadable);
    let rows = search.finish(snapshot, &mut unreadable)?;
    let name = |(source, reason): (u32, String)| {
        (Arc::clone(&snapshot.files[(source - first_file) as usize]), reason)
    };
    Ok(SearchAnswer { rows, unreadable: unreadable.into_iter().map(name).collect() })
}

struct Search<'a> {
    query: &'a Query,
    first: First<Hit>,
}

impl Search<'_> {
    fn look_in_batch(&mut self, source: u32, rows: &SpanRows) -> Result<(), ArrowError> {
        let mask = mask::of_rows_in_memory(rows, &self.query.predicate, self.query.time)?;
        let Some(ranks) = Ranks::of(rows.columns(), self.query.order) else { return Ok(()) };
        for row in mask.values().set_indices().filter(|row| mask.is_valid(*row)) {
            self.first.admit(ranks.at(row), (source, row as u32));
        }
        Ok(())
    }

    fn look_in_files(&mut self, snapshot: &Snapshot, unreadable: &mut Vec<(u32, String)>) {
        let query = self.query;
        let first_file = snapshot.recent.len() as u32;
        let traces = Traces::of(snapshot, query);
        let mut runs = Runs::new(first_file, &snapshot.files, query, unreadable);
        let look = |run: &Run<'_>, blocks| {
            let file = (run.source - first_file) as usize;
            look_in_run(run, query, traces.as_ref().map(|traces| (traces, file)), blocks)
        };
        let look = &look;
        let mut is_first = true;
        loop {
            // The first run, or even its first block, may be enough. If not, matches are rare, and
            // all blocks of the following runs are searched together.
            let (count, blocks) = if is_first { (1, 1) } else { (NEAR_THREADS, RUN_BLOCKS) };
            is_first = false;
            let mut open: Vec<Run<'_>> = Vec::new();
            while open.len() < count
                && let Some(run) = runs.next(unreadable)
            {
                if !self.first.is_decided_before(run.first()) {
                    open.push(run);
                } else if query.order == Order::NewestFirst {
                    // All later runs are older.
                    break;
                }
            }
            let Some((own, others)) = open.split_first() else { break };
            let looked = std::thread::scope(|scope| {
                let mut threads = Vec::new();
                for run in others {
                    threads.push((run.source, scope.spawn(move || look(run, blocks))));
                }
                let mut looked = vec![(own.source, look(own, blocks))];
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
                            .for_each(|(rank, row)| self.first.admit(rank, (source, row)));
                    }
                    Err(reason) => unreadable.push((source, reason)),
                }
            }
        }
    }

    /// Reads the rows of all matches, in order.
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
        let mut hits: Vec<Hit> =
            self.first.into_vec().into_iter().map(|(_, place)| place).collect();
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
            match read_rows(file, of_source, &columns, self.query.keys.as_deref()) {
                Ok(rows) => found.extend(rows),
                Err(error) => unreadable.push((source, error.to_string())),
            }
        }
        let rows = gather::all(&schema, &found)?;
        let order = match self.query.order {
            Order::NewestFirst => &[column::START_UNIX_NANO][..],
            Order::LongestFirst => &[column::DURATION_NANO, column::START_UNIX_NANO],
        };
        let options = SortOptions { descending: true, nulls_first: false };
        let by = order.iter().filter_map(|name| rows.column_by_name(name).cloned());
        let by: Vec<SortColumn> =
            by.map(|values| SortColumn { values, options: Some(options) }).collect();
        let order = lexsort_to_indices(&by, Some(self.query.limit))?;
        Ok(vec![take_record_batch(&rows, &order)?])
    }
}

/// The ranks of a batch's rows.
struct Ranks<'a> {
    starts: &'a Int64Array,
    durations: Option<&'a Int64Array>,
}

impl<'a> Ranks<'a> {
    fn of(batch: &'a RecordBatch, order: Order) -> Option<Self> {
        let durations = match order {
            Order::NewestFirst => None,
            Order::LongestFirst => {
                let durations = batch.column_by_name(column::DURATION_NANO)?;
                Some(durations.as_primitive_opt::<Int64Type>()?)
            }
        };
        Some(Self { starts: starts(batch)?, durations })
    }

    fn at(&self, row: usize) -> Rank {
        let start = self.starts.value(row);
        self.durations.map_or((start, 0), |durations| (durations.value(row), start))
    }
}

/// Iterates over the blocks of all files that may contain matching rows, in order of their ranks,
/// as runs of consecutive blocks. A row with a wrong clock affects only the position of its own
/// block.
struct Runs<'a> {
    /// All blocks with rows in the time range.
    blocks: Vec<Candidate<'a>>,
    predicate: &'a Predicate,
    /// The conditions on attributes.
    asked: Vec<Asked>,
    /// By source and row group, which blocks may have rows that fulfil the predicate.
    fitting: AHashMap<(u32, usize), u32>,
    /// Number of blocks that were returned, and number for which data was fetched.
    next: usize,
    prepared: usize,
    /// A block that was already taken and begins the next run.
    ahead: Option<Candidate<'a>>,
}

/// A block and the highest possible rank of its rows.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    source: u32,
    file: &'a Arc<SpanFile>,
    block: &'a Block,
    most: Rank,
}

impl Candidate<'_> {
    /// The block's entry in a run.
    const fn entry(&self) -> (Rank, Range<usize>) {
        (self.most, self.block.first_row..self.block.first_row + self.block.rows)
    }
}

impl<'a> Runs<'a> {
    fn new(
        first_file: u32,
        files: &'a [Arc<SpanFile>],
        query: &'a Query,
        unreadable: &mut Vec<(u32, String)>,
    ) -> Self {
        let mut blocks: Vec<Candidate<'_>> = Vec::new();
        for (source, file) in (first_file..).zip(files) {
            let in_time =
                file.index.blocks.iter().filter(|block| overlaps(block.starts, query.time));
            let most = (i64::MAX, i64::MAX);
            let candidate = |block| Candidate { source, file, block, most };
            blocks.extend(in_time.map(candidate));
        }
        let predicate = &query.predicate;
        match query.order {
            Order::NewestFirst => {
                for each in &mut blocks {
                    each.most = rank(query.order, each.block.starts.1, 0);
                }
                blocks.sort_by_key(|each| Reverse(each.most));
            }
            Order::LongestFirst => put_longest_first(&mut blocks, predicate, unreadable),
        }
        let asked = predicate.attributes.iter().map(Asked::new);
        let asked = asked.chain(predicate.anywhere.iter().map(Asked::anywhere)).collect();
        let fitting = AHashMap::new();
        Self { blocks, predicate, asked, fitting, next: 0, prepared: 0, ahead: None }
    }

    /// The next run. Adds files that cannot be read to `unreadable`.
    fn next(&mut self, unreadable: &mut Vec<(u32, String)>) -> Option<Run<'a>> {
        let first = self.ahead.take().or_else(|| self.next_block(unreadable))?;
        let (source, file) = (first.source, first.file);
        let mut run = Run { source, file, blocks: vec![first.entry()] };
        while run.blocks.len() < RUN_BLOCKS
            && let Some(next) = self.next_block(unreadable)
        {
            if next.source != source {
                self.ahead = Some(next);
                break;
            }
            run.blocks.push(next.entry());
        }
        Some(run)
    }

    /// The next block that may contain matching rows.
    fn next_block(&mut self, unreadable: &mut Vec<(u32, String)>) -> Option<Candidate<'a>> {
        loop {
            let candidate = *self.blocks.get(self.next)?;
            let source = candidate.source;
            match self.fitting(candidate) {
                Ok(blocks) => {
                    self.next += 1;
                    if blocks >> candidate.block.number & 1 == 1 {
                        return Some(candidate);
                    }
                }
                Err(error) => {
                    unreadable.push((source, error.to_string()));
                    // Skips the file's other blocks.
                    let rest = self.blocks.split_off(self.next);
                    self.blocks.extend(rest.into_iter().filter(|other| other.source != source));
                    self.prepared = self.next;
                }
            }
        }
    }

    fn fitting(&mut self, candidate: Candidate<'_>) -> Result<u32, ParquetError> {
        let Candidate { source, file, block, .. } = candidate;
        if let Some(blocks) = self.fitting.get(&(source, block.group)) {
            return Ok(*blocks);
        }
        self.prepare()?;
        let mut blocks = u32::MAX;
        for asked in &self.asked {
            if blocks != 0 {
                blocks &= asked.blocks(file, block.group)?;
            }
        }
        if blocks != 0 && sketch::is_of_use(self.predicate) {
            blocks &= sketch::blocks(file, block.group, self.predicate)?;
        }
        self.fitting.insert((source, block.group), blocks);
        Ok(blocks)
    }

    /// Fetches index data for the next blocks. The number of blocks grows as the search continues.
    fn prepare(&mut self) -> Result<(), ParquetError> {
        if self.next < self.prepared {
            return Ok(());
        }
        let count = self.next.max(RUN_BLOCKS);
        let some = &self.blocks[self.next..self.blocks.len().min(self.next + count)];
        let own = some.chunk_by(|one, other| one.source == other.source).next();
        let own = own.unwrap_or_default();
        self.prepared = self.next + own.len();
        let Some(Candidate { file, .. }) = own.first() else { return Ok(()) };
        let groups = own.chunk_by(|one, other| one.block.group == other.block.group);
        let groups = groups.map(|blocks| blocks[0].block.group);
        if sketch::is_of_use(self.predicate) {
            sketch::prepare(file, groups.clone())?;
        }
        if !self.asked.is_empty() {
            file.shapes.prepare(groups.clone(), &attribute_search::resource_places(file))?;
        }
        let hashes: Vec<u64> = self.asked.iter().flat_map(Asked::hashes).collect();
        Ok(file.prepare_groups(groups, &hashes)?)
    }
}

/// Number of blocks that are grouped by file before they are read. It grows as the search
/// continues.
const LEAST_TOGETHER: usize = 4;
const MOST_TOGETHER: usize = 128;

/// Sorts blocks by the longest matching row that they may contain, and removes blocks without any.
/// The order is approximate, because blocks of one file are grouped.
fn put_longest_first(
    blocks: &mut Vec<Candidate<'_>>,
    predicate: &Predicate,
    unreadable: &mut Vec<(u32, String)>,
) {
    let mut known: HashMap<(u32, usize), Vec<Option<i64>>> = HashMap::new();
    let mut broken: Vec<u32> = Vec::new();
    for each in blocks.iter_mut() {
        let Candidate { source, file, block, .. } = *each;
        if broken.contains(&source) {
            continue;
        }
        let longest = match known.entry((source, block.group)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => match sketch::longest_in_blocks(file, block.group, predicate) {
                Ok(longest) => place.insert(longest),
                Err(error) => {
                    unreadable.push((source, error.to_string()));
                    broken.push(source);
                    continue;
                }
            },
        };
        let longest = longest.get(block.number as usize).copied().flatten();
        let longest = longest.map(|most| predicate.max_duration_nano.unwrap_or(most).min(most));
        each.most = longest.map_or((i64::MIN, i64::MIN), |most| (most, i64::MAX));
    }
    blocks.retain(|each| each.most.0 != i64::MIN && !broken.contains(&each.source));
    blocks.sort_by_key(|each| Reverse(each.most));
    let (mut rest, mut together) = (blocks.as_mut_slice(), LEAST_TOGETHER);
    while !rest.is_empty() {
        let (now, later) = rest.split_at_mut(together.min(rest.len()));
        now.sort_by_key(|each| each.source);
        (rest, together) = (later, (together * 2).min(MOST_TOGETHER));
    }
}

/// Ranks and numbers of matching rows of a run. If there are more than the limit, later ones may be
/// missing. Starts with `count` blocks.
fn look_in_run(
    run: &Run<'_>,
    query: &Query,
    traces: Option<(&Traces<'_>, usize)>,
    mut count: usize,
) -> Result<Vec<(Rank, u32)>, String> {
    let mut first: First<u32> = First::new(query.limit);
    let mut rest = run.blocks.as_slice();
    while let Some((most, _)) = rest.first()
        && !first.is_decided_before(*most)
    {
        let (now, later) = rest.split_at(count.min(rest.len()));
        let mut rows: Vec<Range<usize>> = now.iter().map(|(_, rows)| rows.clone()).collect();
        rows.sort_unstable_by_key(|rows| rows.start);
        let hits = look_in_blocks(run.file, rows, query, traces);
        let hits = hits.map_err(|error| error.to_string())?;
        hits.into_iter().for_each(|(rank, row)| first.admit(rank, row));
        // Reading columns costs about the same for one block as for several.
        (rest, count) = (later, count.saturating_mul(4));
    }
    Ok(first.into_vec())
}

/// Ranks and numbers of the matching rows in these blocks. `traces` come with the number of the
/// file.
fn look_in_blocks(
    file: &SpanFile,
    mut rows: Vec<Range<usize>>,
    query: &Query,
    traces: Option<(&Traces<'_>, usize)>,
) -> Result<Vec<(Rank, u32)>, ParquetError> {
    let mut predicate = Predicate { above: None, ..query.predicate.clone() };
    rows = reader::left(file, &rows);
    if sketch::is_of_use(&predicate) && !rows.is_empty() {
        rows = sketch::narrow(file, &rows, &predicate)?;
        // The sketch has already evaluated these.
        (predicate.service, predicate.operation, predicate.status) = (None, None, None);
        (predicate.min_duration_nano, predicate.max_duration_nano) = (None, None);
    }
    for wanted in &predicate.attributes {
        rows = attribute_search::narrow(file, &rows, wanted)?;
    }
    for wanted in &predicate.anywhere {
        rows = attribute_search::narrow_anywhere(file, &rows, wanted)?;
    }
    if let Some((traces, number)) = traces {
        rows = traces.narrow(number, rows)?;
    }
    predicate.attributes.retain(|wanted| !attribute_search::is_exact(file, wanted));
    predicate.anywhere.retain(|wanted| !attribute_search::is_exact_anywhere(file, wanted));
    // Each stage reads the start again. So for few rows, all stages are evaluated at once.
    let is_few = rows.iter().map(ExactSizeIterator::len).sum::<usize>() <= FEW_ROWS;
    let mut hits = Vec::new();
    for stage in if is_few { vec![predicate] } else { stages(&predicate) } {
        hits = matching(file, &rows, &stage, query)?;
        rows = ranges(hits.iter().map(|(_, row)| *row));
    }
    Ok(hits)
}

/// Splits the predicate into stages. Each is evaluated on the rows that the previous ones left, and
/// the last one reads the most data.
fn stages(predicate: &Predicate) -> Vec<Predicate> {
    let Predicate { attributes, anywhere, assembled, root, .. } = predicate.clone();
    let attributes = Predicate { attributes, anywhere, ..Predicate::default() };
    let ids = Predicate { assembled, root, ..Predicate::default() };
    let rest = Predicate {
        attributes: Vec::new(),
        anywhere: Vec::new(),
        assembled: false,
        root: false,
        ..predicate.clone()
    };
    let mut stages = vec![rest, attributes, ids];
    stages.retain(|stage| *stage != Predicate::default());
    if stages.is_empty() {
        // The time range must be checked for every row.
        stages.push(Predicate::default());
    }
    stages
}

/// Ranks and numbers of the rows that match this stage and the query's time range.
fn matching(
    file: &SpanFile,
    rows: &[Range<usize>],
    predicate: &Predicate,
    query: &Query,
) -> Result<Vec<(Rank, u32)>, ParquetError> {
    let mut hits = Vec::new();
    if rows.is_empty() {
        return Ok(hits);
    }
    let mut columns = mask::columns(predicate);
    if query.order == Order::LongestFirst && !columns.contains(&column::DURATION_NANO) {
        columns.push(column::DURATION_NANO);
    }
    let of_scopes: Vec<String> =
        predicate.anywhere.iter().map(|wanted| condition::scope_key(&wanted.key)).collect();
    let wanted = predicate.attributes.iter().chain(&predicate.anywhere);
    let keys: Vec<&str> =
        wanted.map(|wanted| &wanted.key).chain(&of_scopes).map(String::as_str).collect();
    let wanted = Wanted { columns: Some(&columns), keys: Some(&keys), parent_ids: false };
    let mut numbers = rows.iter().cloned().flatten();
    for batch in reader::read(file, rows, &wanted)? {
        let mask = mask::of_rows(&batch, predicate, query.time)?;
        let Some(ranks) = Ranks::of(&batch, query.order) else { continue };
        for (row, number) in numbers.by_ref().take(batch.num_rows()).enumerate() {
            if mask.is_valid(row) && mask.value(row) {
                hits.push((ranks.at(row), number as u32));
            }
        }
    }
    Ok(hits)
}

/// Converts ascending row numbers to ranges.
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
    keys: Option<&[String]>,
) -> Result<Vec<RecordBatch>, ParquetError> {
    let ranges = ranges(rows.iter().map(|(_, row)| *row));
    let keys: Option<Vec<&str>> = keys.map(|keys| keys.iter().map(String::as_str).collect());
    reader::read(file, &ranges, &Wanted { keys: keys.as_deref(), ..Wanted::columns(columns) })
}

/// The columns of the answer and of its order, in the schema's order.
fn answered(query: &Query) -> Vec<&'static str> {
    let wanted = |name: &&str| {
        query.columns.is_empty()
            || query.columns.contains(name)
            || *name == column::START_UNIX_NANO
            || *name == column::DURATION_NANO && query.order == Order::LongestFirst
    };
    column::ALL.iter().copied().filter(wanted).collect()
}

#[cfg(test)]
mod tests;
