//! Reads a snapshot of rows in memory and in files, some rows at a time.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use spanwise_model::schema::column;

use super::table::{Batches, Scan, Source};
use super::words;
use crate::contract::{SqlFunctions, StoreError, TimeRange};
use crate::embedded::files::SpanFile;
use crate::embedded::files::index::BLOCK_ROWS;
use crate::embedded::files::layout::Wanted;
use crate::embedded::files::reader;
use crate::embedded::keys::overlaps;
use crate::embedded::recent::chunk::View;
use crate::embedded::state::Snapshot;

/// Target memory of the rows that are read at once.
const PART_BYTES: usize = 8 << 20;
/// Maximum rows that are read at once.
const PART_ROWS: usize = 128 * 1024;
/// Rows of a batch from memory.
const BATCH_ROWS: usize = 8192;

/// The snapshot of this process's rows.
#[derive(Debug, Clone)]
pub(super) struct Local {
    recent: Arc<Vec<Arc<View>>>,
    files: Arc<Vec<Arc<SpanFile>>>,
    functions: Option<Functions>,
}

/// The server's table functions.
#[derive(Clone)]
struct Functions(Arc<dyn SqlFunctions>);

impl fmt::Debug for Functions {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_list().entries(self.0.names()).finish()
    }
}

impl Local {
    pub(super) fn new(snapshot: Snapshot, functions: Option<Arc<dyn SqlFunctions>>) -> Self {
        Self {
            recent: Arc::new(snapshot.recent),
            files: Arc::new(snapshot.files),
            functions: functions.map(Functions),
        }
    }

    /// The names of table functions.
    pub(super) fn function_names(&self) -> Vec<String> {
        let names = self.functions.iter().flat_map(|functions| functions.0.names());
        names.map(|name| (*name).to_owned()).collect()
    }

    /// The rows of a table function.
    ///
    /// # Errors
    /// What the function says of its arguments.
    pub(super) fn call(&self, name: &str, arguments: &[String]) -> Result<RecordBatch, StoreError> {
        let functions = self.functions.as_ref();
        let functions = functions
            .ok_or_else(|| StoreError::Invalid(format!("there is no table function {name}")))?;
        functions.0.call(name, arguments)
    }

    /// Starts a scan.
    ///
    /// # Errors
    /// If it names columns that do not exist.
    pub(super) fn cursor(&self, scan: &Scan) -> Result<Cursor, DataFusionError> {
        let schema = scan.schema()?;
        let wanted = |name: &&str| schema.index_of(name).is_ok();
        Ok(Cursor {
            rows: self.clone(),
            places: scan.places.clone(),
            columns: column::ALL.iter().copied().filter(wanted).collect(),
            keys: scan.keys.clone(),
            schema,
            time: scan.time(),
            view: 0,
            file: 0,
            block: 0,
            part_rows: BLOCK_ROWS,
            ready: VecDeque::new(),
        })
    }
}

impl Source for Local {
    fn scan(&self, scan: &Scan) -> Batches {
        match self.cursor(scan) {
            Ok(cursor) => Box::new(cursor),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn functions(&self) -> Vec<String> {
        self.function_names()
    }

    fn call(&self, name: &str, arguments: &[String]) -> Result<RecordBatch, DataFusionError> {
        Self::call(self, name, arguments).map_err(words::of_function)
    }
}

/// A scan in progress.
#[derive(Debug)]
pub(super) struct Cursor {
    rows: Local,
    places: Vec<usize>,
    columns: Vec<&'static str>,
    keys: Option<Vec<String>>,
    schema: SchemaRef,
    time: TimeRange,
    /// The next view and the next file.
    view: usize,
    file: usize,
    block: usize,
    /// Number of rows to read next, from the size of the previous ones.
    part_rows: usize,
    ready: VecDeque<RecordBatch>,
}

/// Consecutive blocks of one row group, without deleted rows.
struct Part {
    file: Arc<SpanFile>,
    rows: Vec<Range<usize>>,
}

impl Cursor {
    /// Reads more rows. Returns whether there were any.
    fn read_on(&mut self) -> Result<bool, DataFusionError> {
        if let Some(view) = self.rows.recent.get(self.view) {
            self.view += 1;
            let rows = view.rows.project(&self.places).map_err(ArrowError::from)?;
            let count = rows.num_rows();
            let firsts = (0..count).step_by(BATCH_ROWS);
            let parts = firsts.map(|first| rows.slice(first, BATCH_ROWS.min(count - first)));
            self.ready.extend(parts);
            return Ok(true);
        }
        let Some(part) = self.next_part() else { return Ok(false) };
        let batches = self.read(&part)?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        if let Some(bytes_a_row) = bytes.checked_div(rows) {
            self.part_rows = (PART_BYTES / bytes_a_row.max(1)).clamp(BLOCK_ROWS, PART_ROWS);
        }
        self.ready.extend(batches);
        Ok(true)
    }

    fn next_part(&mut self) -> Option<Part> {
        loop {
            let file = self.rows.files.get(self.file)?;
            let blocks = &file.index.blocks;
            let (mut rows, mut count, mut group) = (Vec::new(), 0, None);
            while let Some(block) = blocks.get(self.block) {
                if count >= self.part_rows || group.is_some_and(|group| group != block.group) {
                    break;
                }
                self.block += 1;
                if overlaps(block.starts, self.time) {
                    group = Some(block.group);
                    count += block.rows;
                    rows.push(block.first_row..block.first_row + block.rows);
                }
            }
            let rows = reader::left(file, &rows);
            if !rows.is_empty() {
                return Some(Part { file: Arc::clone(file), rows });
            }
            if self.block >= blocks.len() {
                (self.file, self.block) = (self.file + 1, 0);
            }
        }
    }

    fn read(&self, part: &Part) -> Result<Vec<RecordBatch>, DataFusionError> {
        if self.schema.fields().is_empty() {
            let count = part.rows.iter().map(ExactSizeIterator::len).sum();
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let schema = Arc::clone(&self.schema);
            return Ok(vec![RecordBatch::try_new_with_options(schema, vec![], &options)?]);
        }
        let keys: Option<Vec<&str>> =
            self.keys.as_ref().map(|keys| keys.iter().map(String::as_str).collect());
        let wanted = Wanted { keys: keys.as_deref(), ..Wanted::columns(&self.columns) };
        let read = reader::read(&part.file, &part.rows, &wanted).map_err(ArrowError::from)?;
        let Some(first) = read.first() else { return Ok(read) };
        // In the requested order.
        let fields = self.schema.fields().iter();
        let order: Vec<usize> = fields
            .map(|field| first.schema_ref().index_of(field.name()))
            .collect::<Result<_, _>>()?;
        read.iter().map(|batch| Ok(batch.project(&order)?)).collect()
    }
}

impl Iterator for Cursor {
    type Item = Result<RecordBatch, DataFusionError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Some(Ok(batch));
            }
            match self.read_on() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
