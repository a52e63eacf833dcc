//! A Parquet file that is being written: row groups of new rows, and those of
//! other files as they are.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use spanwise_model::absent::without_values;

use super::handle::Handle;

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// See the module.
pub(super) struct Sheet {
    schema: SchemaRef,
    pub(super) writer: SerializedFileWriter<File>,
    columns: ArrowRowGroupWriterFactory,
    groups: usize,
}

/// A row group of a file that is there.
pub(super) struct Part<'a> {
    pub(super) file: &'a Handle,
    pub(super) metadata: &'a ArrowReaderMetadata,
    pub(super) group: usize,
}

impl Sheet {
    pub(super) fn create(
        path: &Path,
        schema: &SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self, Failure> {
        let file = File::create(path)?;
        let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties))?;
        let (writer, columns) = writer.into_serialized_writer()?;
        Ok(Self { schema: Arc::clone(schema), writer, columns, groups: 0 })
    }

    /// Adds a row group of these columns, which are asked for one by one, so
    /// that few are there twice.
    pub(super) fn add(
        &mut self,
        mut column: impl FnMut(usize, &Field) -> Result<ArrayRef, Failure>,
    ) -> Result<(), Failure> {
        let mut writers = self.columns.create_column_writers(self.groups)?.into_iter();
        let mut chunks = Vec::with_capacity(writers.len());
        for (place, field) in self.schema.fields().iter().enumerate() {
            let column = column(place, field)?;
            for (leaf, mut writer) in compute_leaves(field, &column)?.iter().zip(&mut writers) {
                writer.write(leaf)?;
                chunks.push(writer.close()?);
            }
        }
        let mut group = self.writer.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        self.groups += 1;
        Ok(())
    }

    /// Adds a row group as it is, some of whose columns may be missing.
    pub(super) fn copy(&mut self, part: &Part<'_>) -> Result<(), Failure> {
        let metadata = part.metadata.metadata();
        let group = metadata.row_group(part.group);
        let rows = usize::try_from(group.num_rows())?;
        let ends = group.columns().iter().map(|chunk| chunk.byte_range());
        part.file
            .prepare(&ends.map(|(start, length)| start..start + length).collect::<Vec<_>>())?;
        let leaves = Leaves::of(part.metadata);
        let mut absent = self.absent(part, rows)?;
        let mut writer = self.writer.next_row_group()?;
        for (place, field) in self.schema.fields().iter().enumerate() {
            let Ok(there) = part.metadata.schema().index_of(field.name()) else {
                for chunk in std::mem::take(&mut absent[place]) {
                    chunk.append_to_row_group(&mut writer)?;
                }
                continue;
            };
            for leaf in leaves.of_root(there) {
                let chunk = group.column(leaf);
                let of_pages =
                    metadata.column_index().and_then(|all| all.get(part.group)?.get(leaf));
                let offsets =
                    metadata.offset_index().and_then(|all| all.get(part.group)?.get(leaf));
                let close = ColumnCloseResult {
                    bytes_written: u64::try_from(chunk.compressed_size()).unwrap_or(0),
                    rows_written: rows as u64,
                    metadata: chunk.clone(),
                    bloom_filter: None,
                    column_index: of_pages
                        .filter(|index| !matches!(index, ColumnIndexMetaData::NONE))
                        .cloned(),
                    offset_index: offsets.cloned(),
                };
                writer.append_column(part.file, close)?;
            }
        }
        writer.close()?;
        self.groups += 1;
        Ok(())
    }

    /// For each column that the part does not have, so many rows without a value.
    fn absent(&self, part: &Part<'_>, rows: usize) -> Result<Vec<Vec<ArrowColumnChunk>>, Failure> {
        let is_there = |field: &Field| part.metadata.schema().index_of(field.name()).is_ok();
        let mut chunks = Vec::new();
        if self.schema.fields().iter().all(|field| is_there(field)) {
            return Ok(chunks);
        }
        let mut writers = self.columns.create_column_writers(self.groups)?.into_iter();
        for field in self.schema.fields() {
            // Without rows where it is there: then only the writers are passed by.
            let column = without_values(field, if is_there(field) { 0 } else { rows })?;
            let mut of_column = Vec::new();
            for (leaf, mut writer) in compute_leaves(field, &column)?.iter().zip(&mut writers) {
                if !is_there(field) {
                    writer.write(leaf)?;
                    of_column.push(writer.close()?);
                }
            }
            chunks.push(of_column);
        }
        Ok(chunks)
    }
}

/// Which leaves the columns of a file have.
struct Leaves(Vec<std::ops::Range<usize>>);

impl Leaves {
    fn of(metadata: &ArrowReaderMetadata) -> Self {
        let schema = metadata.parquet_schema();
        let mut roots: Vec<std::ops::Range<usize>> = Vec::new();
        for leaf in 0..schema.num_columns() {
            match roots.get_mut(schema.get_column_root_idx(leaf)) {
                Some(leaves) => leaves.end = leaf + 1,
                None => roots.push(leaf..leaf + 1),
            }
        }
        Self(roots)
    }

    fn of_root(&self, place: usize) -> std::ops::Range<usize> {
        self.0.get(place).cloned().unwrap_or_default()
    }
}
