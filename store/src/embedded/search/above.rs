//! Which rows of files have certain rows above them in their traces.
//!
//! A structural query looks for spans below others. To put a trace together, a page of each of
//! many columns is read, and most traces turn out not to fit. Of a trace of which SDKs reported all
//! spans, the parents are those that the spans name. So whether a row has such a row above it is
//! decided here, from shapes, ids and parents' offsets, for all rows of a row group at once.
//!
//! A row is left out only if what is above it is certain. In particular, all rows of its trace are
//! known: the indexes of all files tell where they are, and none is in memory. All other rows stay.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use ahash::AHashSet;
use arrow::array::{Array, AsArray, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::Int32Type;
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use spanwise_model::SpanId;
use spanwise_model::schema::column;

use super::ranges;
use super::sketch::ShapeLinks;
use crate::contract::{Above, Query};
use crate::embedded::files::SpanFile;
use crate::embedded::files::cache::Cache;
use crate::embedded::files::index::{TraceRun, short};
use crate::embedded::files::layout::{file_column, shape_numbers};
use crate::embedded::files::reader;
use crate::embedded::keys::each_trace;
use crate::embedded::state::Snapshot;

/// Size of the cache of where traces are: 20 bytes for each run.
const CACHE_BYTES: usize = 16 << 20;
/// The most runs of traces of all files together. Beyond it, nothing is decided.
const MAX_RUNS: usize = 2 << 20;
/// The most rows of a trace for which something is decided.
const MAX_ROWS: usize = 1 << 18;
/// Rows between two traces that are read rather than skipped.
const GAP_ROWS: usize = 64;
/// After this many traces of which less than a quarter was decided, no more are tried.
const TRIED: usize = 1024;

/// Where the traces of a file are.
#[derive(Debug)]
struct FileTraces {
    /// By hash.
    runs: Vec<TraceRun>,
    /// First rows, and places in `runs`, by row.
    by_row: Vec<(u32, u32)>,
}

static CACHE: LazyLock<Mutex<Cache<u64, FileTraces>>> =
    LazyLock::new(|| Mutex::new(Cache::new(CACHE_BYTES)));

impl FileTraces {
    /// Those of a file; `None` if its index cannot tell.
    fn of(file: &SpanFile) -> Option<Arc<Self>> {
        let key = file.file.serial();
        if let Some(traces) = CACHE.lock().get(&key) {
            return Some(traces);
        }
        let runs = file.index.traces(&file.file).ok()??;
        let mut by_row: Vec<(u32, u32)> =
            (0..).zip(&runs).map(|(place, run)| (run.first_row, place)).collect();
        by_row.sort_unstable();
        let bytes = runs.len() * (size_of::<TraceRun>() + size_of::<(u32, u32)>());
        let traces = Arc::new(Self { runs, by_row });
        CACHE.lock().put(key, Arc::clone(&traces), bytes);
        Some(traces)
    }

    fn with(&self, hash: u32) -> &[TraceRun] {
        let rest = &self.runs[self.runs.partition_point(|run| run.hash < hash)..];
        &rest[..rest.partition_point(|run| run.hash == hash)]
    }

    fn in_order(&self, place: usize) -> Option<&TraceRun> {
        self.runs.get(self.by_row.get(place)?.1 as usize)
    }
}

/// The traces of all rows, and what is asked of them.
pub(super) struct Traces<'a> {
    above: &'a Above,
    files: &'a [Arc<SpanFile>],
    of_files: Vec<Arc<FileTraces>>,
    /// Hashes of traces with rows in memory.
    in_memory: AHashSet<u32>,
    tried: AtomicUsize,
    decided: AtomicUsize,
}

/// Consecutive rows of a trace in a file.
struct Piece {
    /// Index of the file.
    file: usize,
    rows: Range<usize>,
}

impl<'a> Traces<'a> {
    /// `None` if nothing is asked, or nothing can be decided.
    pub(super) fn of(snapshot: &'a Snapshot, query: &'a Query) -> Option<Self> {
        let above = query.predicate.above.as_ref()?;
        let files = snapshot.files.as_slice();
        if files.iter().map(|file| file.index.trace_count()).sum::<usize>() > MAX_RUNS {
            return None;
        }
        let of_files = files.iter().map(|file| FileTraces::of(file));
        let of_files = of_files.collect::<Option<Vec<_>>>()?;
        let mut in_memory = AHashSet::new();
        for view in &snapshot.recent {
            each_trace(view.rows.columns(), true, |_, hash| _ = in_memory.insert(short(hash)));
        }
        let (tried, decided) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Some(Self { above, files, of_files, in_memory, tried, decided })
    }

    /// Of ascending rows of a file, those that may have such a row above them.
    ///
    /// # Errors
    /// If a file is damaged.
    pub(super) fn narrow(
        &self,
        file: usize,
        rows: Vec<Range<usize>>,
    ) -> Result<Vec<Range<usize>>, ParquetError> {
        let (tried, decided) =
            (self.tried.load(Ordering::Relaxed), self.decided.load(Ordering::Relaxed));
        if rows.is_empty() || tried > TRIED && decided * 4 < tried {
            return Ok(rows);
        }
        let (mut left, asked) = self.asked(file, &rows);
        let traces: Vec<(Vec<u32>, Vec<Piece>)> =
            asked.chunk_by(|one, other| one.0 == other.0).map(|rows| self.pieces(rows)).collect();
        let loaded = self.load(traces.iter().flat_map(|(_, pieces)| pieces))?;
        let known = self.complete(&loaded, &traces)?;
        let mut decided = 0;
        for (rows, pieces) in &traces {
            match self.have_above(file, rows, pieces, &loaded, &known) {
                Some(have) => {
                    decided += 1;
                    left.extend(rows.iter().zip(have).filter(|(_, has)| *has).map(|(row, _)| row));
                }
                None => left.extend(rows),
            }
        }
        self.tried.fetch_add(traces.len(), Ordering::Relaxed);
        self.decided.fetch_add(decided, Ordering::Relaxed);
        left.sort_unstable();
        Ok(ranges(left.into_iter()))
    }

    /// The rows of which nothing can be decided, and the others with the hashes of their traces,
    /// by hash.
    fn asked(&self, file: usize, rows: &[Range<usize>]) -> (Vec<u32>, Vec<(u32, u32)>) {
        let traces = &self.of_files[file];
        let first = rows.first().map_or(0, |rows| rows.start);
        let mut next = traces.by_row.partition_point(|(row, _)| *row as usize <= first);
        let (mut left, mut asked) = (Vec::new(), Vec::new());
        for row in rows.iter().cloned().flatten().map(|row| row as u32) {
            while traces.by_row.get(next).is_some_and(|(first, _)| *first <= row) {
                next += 1;
            }
            let run = next.checked_sub(1).and_then(|last| traces.in_order(last));
            let run = run.filter(|run| row - run.first_row < run.rows);
            match run.filter(|run| !self.in_memory.contains(&run.hash)) {
                Some(run) => asked.push((run.hash, row)),
                None => left.push(row),
            }
        }
        asked.sort_unstable();
        (left, asked)
    }

    /// Rows of one trace, and where all rows of it are; nowhere if something speaks against
    /// deciding.
    fn pieces(&self, rows: &[(u32, u32)]) -> (Vec<u32>, Vec<Piece>) {
        let mut pieces = Vec::new();
        for (file, traces) in self.of_files.iter().enumerate() {
            pieces.extend(traces.with(rows[0].0).iter().map(|run| {
                let first = run.first_row as usize;
                Piece { file, rows: first..first + run.rows as usize }
            }));
        }
        let is_deleted = |piece: &Piece| {
            let gone = self.files[piece.file].gone();
            gone.is_some_and(|gone| {
                gone.rows.slice(piece.rows.start, piece.rows.len()).count_set_bits() > 0
            })
        };
        let count: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
        if count > MAX_ROWS || pieces.iter().any(is_deleted) {
            pieces.clear();
        }
        (rows.iter().map(|(_, row)| *row).collect(), pieces)
    }

    /// Reads what decides, of all pieces and of rows between them.
    fn load<'p>(
        &self,
        pieces: impl Iterator<Item = &'p Piece>,
    ) -> Result<Vec<Loaded>, ParquetError> {
        let mut of_files: Vec<Vec<Range<usize>>> = vec![Vec::new(); self.files.len()];
        for piece in pieces {
            of_files[piece.file].push(piece.rows.clone());
        }
        let mut loaded = Vec::with_capacity(of_files.len());
        for (file, rows) in self.files.iter().zip(of_files) {
            let rows = reader::united(rows, usize::try_from(file.rows).unwrap_or(0));
            let rows = without_gaps(rows);
            let mut own = Loaded::default();
            for (group, rows) in reader::by_group(file, &rows) {
                own.read(file, group, &rows, self.above)?;
            }
            loaded.push(own);
        }
        Ok(loaded)
    }

    /// Reads the trace ids that decide, by file: of rows that may lack the parent that they name,
    /// and of traces in several pieces.
    fn complete(
        &self,
        loaded: &[Loaded],
        traces: &[(Vec<u32>, Vec<Piece>)],
    ) -> Result<Vec<Completed>, ParquetError> {
        let mut of_files: Vec<Vec<Range<usize>>> = vec![Vec::new(); self.files.len()];
        for (_, pieces) in traces {
            for piece in pieces {
                let rows = piece.rows.clone();
                if pieces.len() > 1 {
                    of_files[piece.file].push(rows);
                    continue;
                }
                let links = loaded[piece.file].of(&piece.rows).unwrap_or_default();
                let alone = rows.zip(links).filter(|(_, link)| link.joined == Joined::Perhaps);
                of_files[piece.file].extend(alone.map(|(row, _)| row..row + 1));
            }
        }
        let mut all = Vec::with_capacity(of_files.len());
        for (file, rows) in self.files.iter().zip(of_files) {
            let rows = reader::united(rows, usize::try_from(file.rows).unwrap_or(0));
            let mut own = Completed::default();
            for (group, rows) in reader::by_group(file, &rows) {
                own.read(file, group, &rows)?;
            }
            all.push(own);
        }
        Ok(all)
    }

    /// Which of these rows of a file have such a row above them; `None` if that is not certain.
    fn have_above(
        &self,
        file: usize,
        rows: &[u32],
        pieces: &[Piece],
        loaded: &[Loaded],
        completed: &[Completed],
    ) -> Option<Vec<bool>> {
        let mut links: Vec<&Link> = Vec::new();
        let mut trace = None;
        for piece in pieces {
            for (row, link) in piece.rows.clone().zip(loaded[piece.file].of(&piece.rows)?) {
                if link.joined == Joined::No {
                    return None;
                }
                if link.joined == Joined::Perhaps || pieces.len() > 1 {
                    let (id, has_own) = completed[piece.file].find(row)?;
                    // One hash may be that of two traces.
                    if id? != *trace.get_or_insert(id?)
                        || link.joined == Joined::Perhaps && !has_own
                    {
                        return None;
                    }
                }
                links.push(link);
            }
        }
        let mut ids: Vec<(SpanId, usize)> =
            links.iter().enumerate().map(|(place, link)| (link.id, place)).collect();
        ids.sort_unstable();
        if ids.is_empty() || ids.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        let mut parents: Vec<Option<usize>> = Vec::with_capacity(links.len());
        let (mut first, mut lacks_parent) = (0, false);
        // Those of the rows' own file, each with the place of its first row.
        let mut own: Vec<(usize, &Range<usize>)> = Vec::new();
        for piece in pieces {
            own.extend((piece.file == file).then_some((first, &piece.rows)));
            for link in &links[first..first + piece.rows.len()] {
                let parent = match link.parent {
                    Parent::None => None,
                    Parent::Row(row) => {
                        has(&piece.rows, row).then_some(())?;
                        let parent = first + row as usize - piece.rows.start;
                        Some((links[parent].id, Some(parent)))
                    }
                    Parent::Id(id) => {
                        // In its own piece, it would have been found when the file was written.
                        let found = ids.binary_search_by_key(&id, |(id, _)| *id).ok();
                        let found = found.filter(|_| pieces.len() > 1).map(|at| ids[at].1);
                        lacks_parent |= found.is_none();
                        Some((id, found))
                    }
                };
                // The halves of a span that two sides reported have rules of their own.
                if parent.is_some_and(|(id, _)| id.receiving_half() == link.id) {
                    return None;
                }
                parents.push(parent.and_then(|(_, place)| place));
            }
            first += piece.rows.len();
        }
        if lacks_parent
            && pieces.iter().any(|piece| may_be_found_otherwise(&self.files[piece.file]))
        {
            return None;
        }
        let has_above = |row: &u32| {
            let (first, piece) = own.iter().find(|(_, piece)| has(piece, *row))?;
            let mut place = parents[first + *row as usize - piece.start];
            for _ in 0..links.len() {
                let Some(above) = place else { return Some(false) };
                if links[above].fulfils || self.above.only_parent {
                    return Some(links[above].fulfils);
                }
                place = parents[above];
            }
            // They are above each other.
            place.is_none().then_some(false)
        };
        rows.iter().map(has_above).collect()
    }
}

/// Ascending ranges, without short gaps between them.
fn without_gaps(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut wider: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match wider.last_mut() {
            Some(last) if range.start <= last.end + GAP_ROWS => last.end = range.end,
            _ => wider.push(range),
        }
    }
    wider
}

fn has(rows: &Range<usize>, row: u32) -> bool {
    rows.contains(&(row as usize))
}

/// Whether a trace that lacks a parent may be joined with others by what rows of the file have
/// besides ids.
fn may_be_found_otherwise(file: &SpanFile) -> bool {
    let others = [column::FRAGMENT_ID, column::REQUEST_TCP_SEQ, column::RESPONSE_TCP_SEQ];
    others.iter().any(|name| file.layout.schema.index_of(name).is_ok())
}

/// How a row names its parent.
#[derive(Debug, Clone, Copy)]
enum Parent {
    None,
    /// A row of the file.
    Row(u32),
    /// No row of the row group.
    Id(SpanId),
}

/// Whether a row is joined by what it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joined {
    Yes,
    /// If it has no other trace and no other parent.
    Perhaps,
    No,
}

/// What decides of a row.
#[derive(Debug)]
struct Link {
    id: SpanId,
    parent: Parent,
    joined: Joined,
    /// Whether it is a row that is asked for above others.
    fulfils: bool,
}

/// Rows of a file that were read.
#[derive(Debug, Default)]
struct Loaded {
    /// Ascending, each with the place of its first row in `links`.
    rows: Vec<(Range<usize>, usize)>,
    links: Vec<Link>,
}

impl Loaded {
    /// These rows, if they were read together.
    fn of(&self, rows: &Range<usize>) -> Option<&[Link]> {
        let after = self.rows.partition_point(|(own, _)| own.start <= rows.start);
        let (own, first) = self.rows.get(after.checked_sub(1)?)?;
        let first = first + (rows.start - own.start);
        if rows.end > own.end { None } else { self.links.get(first..first + rows.len()) }
    }

    /// Reads rows of the next row group.
    fn read(
        &mut self,
        file: &SpanFile,
        group: usize,
        rows: &[Range<usize>],
        above: &Above,
    ) -> Result<(), ParquetError> {
        let of_shapes = ShapeLinks::of(file, group, &above.any)?;
        let names = [
            file_column::SHAPE,
            column::SPAN_ID,
            column::PARENT_SPAN_ID,
            file_column::PARENT_ROW_OFFSET,
        ];
        let mut first = self.links.len();
        for rows in rows {
            self.rows.push((rows.clone(), first));
            first += rows.len();
        }
        let mut numbers = rows.iter().cloned().flatten().map(|row| row as u32);
        for batch in reader::read_places(file, group, rows, places(file, &names))? {
            let shapes = shape_numbers(&batch)?.values();
            let (own, parents) =
                (ids(&batch, column::SPAN_ID), ids(&batch, column::PARENT_SPAN_ID));
            let own = own.ok_or_else(|| ParquetError::General("there are no ids".to_owned()))?;
            let offsets = batch.column_by_name(file_column::PARENT_ROW_OFFSET);
            let offsets = offsets.and_then(|offsets| offsets.as_primitive_opt::<Int32Type>());
            for (row, number) in numbers.by_ref().take(batch.num_rows()).enumerate() {
                let shape = shapes[row];
                let offset = offsets.filter(|offsets| offsets.is_valid(row));
                let parent = match (offset, id_at(parents, row)) {
                    (Some(offsets), _) => {
                        Parent::Row(number.wrapping_add_signed(offsets.value(row)))
                    }
                    (None, Some(id)) => Parent::Id(SpanId(id)),
                    (None, None) => Parent::None,
                };
                let joined = if of_shapes.are_as_sent(shape) {
                    Joined::Yes
                } else if of_shapes.may_lack_parent(shape) {
                    Joined::Perhaps
                } else {
                    Joined::No
                };
                let id = SpanId(id_at(Some(own), row).unwrap_or_default());
                let fulfils = of_shapes.fulfils(shape);
                self.links.push(Link { id, parent, joined, fulfils });
            }
        }
        Ok(())
    }
}

/// The trace ids of some rows, and whether assembly found the same trace and no parent.
#[derive(Debug, Default)]
struct Completed {
    /// By row.
    rows: Vec<(u32, Option<[u8; 16]>, bool)>,
}

impl Completed {
    fn find(&self, row: usize) -> Option<(Option<[u8; 16]>, bool)> {
        let place = self.rows.binary_search_by_key(&row, |(own, ..)| *own as usize).ok()?;
        let (_, id, has_own) = self.rows[place];
        Some((id, has_own))
    }

    fn read(
        &mut self,
        file: &SpanFile,
        group: usize,
        rows: &[Range<usize>],
    ) -> Result<(), ParquetError> {
        let names = [
            column::TRACE_ID,
            column::ASSEMBLED_TRACE_ID,
            column::ASSEMBLED_PARENT,
            file_column::ASSEMBLED_PARENT_ROW_OFFSET,
        ];
        let mut numbers = rows.iter().cloned().flatten().map(|row| row as u32);
        for batch in reader::read_places(file, group, rows, places(file, &names))? {
            let [traces, assembled, parents] =
                [names[0], names[1], names[2]].map(|name| ids(&batch, name));
            let offsets = batch.column_by_name(file_column::ASSEMBLED_PARENT_ROW_OFFSET);
            for (row, number) in numbers.by_ref().take(batch.num_rows()).enumerate() {
                let id: Option<[u8; 16]> = id_at(traces, row);
                let has_parent = parents.is_some_and(|ids| ids.is_valid(row))
                    || offsets.is_some_and(|offsets| offsets.is_valid(row));
                let is_same = id.is_some() && id_at(assembled, row) == id;
                self.rows.push((number, id, is_same && !has_parent));
            }
        }
        Ok(())
    }
}

/// The indexes of those of these columns that a file has.
fn places(file: &SpanFile, names: &[&str]) -> Vec<usize> {
    names.iter().filter_map(|name| file.layout.schema.index_of(name).ok()).collect()
}

fn ids<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a FixedSizeBinaryArray> {
    batch.column_by_name(name)?.as_fixed_size_binary_opt()
}

fn id_at<const BYTES: usize>(
    ids: Option<&FixedSizeBinaryArray>,
    row: usize,
) -> Option<[u8; BYTES]> {
    let ids = ids.filter(|ids| ids.is_valid(row))?;
    ids.value(row).try_into().ok()
}
