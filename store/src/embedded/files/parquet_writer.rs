//! Writes a Parquet file: row groups of new rows, and row groups copied from other files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::SchemaDescriptor;
use spanwise_model::absent::without_values;

use super::column_encoder::{ColumnEncoder, EncodedColumn};
use super::handle::Handle;
use crate::embedded::private;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Buffer size. Most columns of a row group are smaller.
const BUFFER_BYTES: usize = 256 << 10;

/// A buffered file. The Parquet library's own buffer is small, and most writes bypass it.
pub(crate) struct Buffered(BufWriter<File>);

impl Buffered {
    /// Writes and syncs everything.
    pub(crate) fn sync_all(self) -> io::Result<()> {
        self.0.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    /// The file is read only when it is complete, so the library's flushes are ignored.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A Parquet writer. See the module's description.
pub(crate) struct ParquetWriter {
    schema: SchemaRef,
    pub(crate) writer: SerializedFileWriter<Buffered>,
    /// Writers for columns that have several leaves.
    columns: ArrowRowGroupWriterFactory,
    leaves: Leaves,
    groups: usize,
}

/// An encoded column.
enum Chunk {
    Own(EncodedColumn),
    /// Encoded by the Parquet library.
    Arrow(ArrowColumnChunk),
}

impl Chunk {
    fn append_to(self, group: &mut SerializedRowGroupWriter<'_, Buffered>) -> Result<(), Failure> {
        match self {
            Self::Own(written) => written.append_to(group)?,
            Self::Arrow(chunk) => chunk.append_to_row_group(group)?,
        }
        Ok(())
    }
}

/// A row group of an existing file.
pub(crate) struct Part<'a> {
    pub(crate) file: &'a Handle,
    pub(crate) metadata: &'a ArrowReaderMetadata,
    pub(crate) group: usize,
}

impl ParquetWriter {
    pub(crate) fn create(
        path: &Path,
        schema: &SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self, Failure> {
        let file = Buffered(BufWriter::with_capacity(BUFFER_BYTES, private::create(path)?));
        let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties.clone()))?;
        let (writer, _) = writer.into_serialized_writer()?;
        // The Parquet library would otherwise allocate a compressor and a decompressor for every
        // column of the schema.
        let others = schema.fields().iter().filter(|field| !ColumnEncoder::is_for(field)).cloned();
        let others = Schema::new(others.collect::<Vec<_>>()).into();
        let others = ArrowWriter::try_new(std::io::sink(), others, Some(properties))?;
        let (_, columns) = others.into_serialized_writer()?;
        let leaves = Leaves::of(writer.schema_descr());
        Ok(Self { schema: Arc::clone(schema), writer, columns, leaves, groups: 0 })
    }

    /// An empty encoder for the column with this index, or `None` if the column has several leaves
    /// and must be written as an array.
    pub(crate) fn encoder(&self, place: usize) -> Option<ColumnEncoder> {
        let field = self.schema.fields().get(place).filter(|field| ColumnEncoder::is_for(field))?;
        debug_assert_eq!(self.leaves.of_root(place).len(), 1, "{field} has one leaf");
        let column = self.writer.schema_descr().column(self.leaves.of_root(place).start);
        Some(ColumnEncoder::new(column, self.writer.properties()))
    }

    /// Empty encoders for the last `count` columns of the schema.
    pub(crate) fn last_encoders(&self, count: usize) -> Vec<ColumnEncoder> {
        let all = self.schema.fields().len();
        (all - count..all).filter_map(|place| self.encoder(place)).collect()
    }

    /// Adds a row group. Its last columns are given. The others are requested one by one, so that
    /// few are in memory twice.
    pub(crate) fn add(
        &mut self,
        last: Vec<ColumnEncoder>,
        mut column: impl FnMut(usize, &Field) -> Result<ArrayRef, Failure>,
    ) -> Result<(), Failure> {
        let mut writers = self.writers()?;
        let mut chunks = Vec::new();
        let asked = self.schema.fields().len() - last.len();
        for (place, field) in self.schema.fields().iter().take(asked).enumerate() {
            let array = column(place, field)?;
            match self.encoder(place) {
                Some(mut encoder) => {
                    encoder.put_array(&array)?;
                    chunks.push(Chunk::Own(encoder.finish()?));
                }
                None => self.write_array(place, &array, &mut writers, &mut chunks)?,
            }
        }
        for encoder in last {
            chunks.push(Chunk::Own(encoder.finish()?));
        }
        let mut group = self.writer.next_row_group()?;
        chunks.into_iter().try_for_each(|chunk| chunk.append_to(&mut group))?;
        group.close()?;
        self.groups += 1;
        Ok(())
    }

    /// The Parquet library's writers, each with its leaf number.
    fn writers(&self) -> Result<impl Iterator<Item = (usize, ArrowColumnWriter)> + use<>, Failure> {
        let places = self.schema.fields().iter().enumerate();
        let places = places.filter(|(_, field)| !ColumnEncoder::is_for(field));
        let leaves: Vec<usize> = places.flat_map(|(place, _)| self.leaves.of_root(place)).collect();
        Ok(leaves.into_iter().zip(self.columns.create_column_writers(self.groups)?))
    }

    /// Lets the Parquet library write a column with lists or structs.
    fn write_array(
        &self,
        place: usize,
        array: &ArrayRef,
        writers: &mut impl Iterator<Item = (usize, ArrowColumnWriter)>,
        to: &mut Vec<Chunk>,
    ) -> Result<(), Failure> {
        let field = &self.schema.fields()[place];
        let first = self.leaves.of_root(place).start;
        let writers = writers.skip_while(|(leaf, _)| *leaf < first);
        for (leaf, (_, mut writer)) in compute_leaves(field, array)?.iter().zip(writers) {
            writer.write(leaf)?;
            to.push(Chunk::Arrow(writer.close()?));
        }
        Ok(())
    }

    /// Copies a row group. Some of its columns may be missing.
    pub(crate) fn copy(&mut self, part: &Part<'_>) -> Result<(), Failure> {
        let metadata = part.metadata.metadata();
        let group = metadata.row_group(part.group);
        let rows = usize::try_from(group.num_rows())?;
        let ends = group.columns().iter().map(|chunk| chunk.byte_range());
        part.file
            .prepare(&ends.map(|(start, length)| start..start + length).collect::<Vec<_>>())?;
        let leaves = Leaves::of(part.metadata.parquet_schema());
        let mut absent = self.absent(part, rows)?;
        let mut writer = self.writer.next_row_group()?;
        for (place, field) in self.schema.fields().iter().enumerate() {
            let Ok(there) = part.metadata.schema().index_of(field.name()) else {
                for chunk in std::mem::take(&mut absent[place]) {
                    chunk.append_to(&mut writer)?;
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

    /// For each column that the part lacks, this many rows without a value.
    fn absent(&self, part: &Part<'_>, rows: usize) -> Result<Vec<Vec<Chunk>>, Failure> {
        let is_there = |field: &Field| part.metadata.schema().index_of(field.name()).is_ok();
        let mut writers = self.writers()?;
        let of_column = |(place, field): (usize, &Arc<Field>)| {
            let mut chunks = Vec::new();
            if is_there(field) {
                return Ok(chunks);
            }
            match self.encoder(place) {
                Some(mut encoder) => {
                    encoder.put_absent(rows)?;
                    chunks.push(Chunk::Own(encoder.finish()?));
                }
                None => {
                    let array = without_values(field, rows)?;
                    self.write_array(place, &array, &mut writers, &mut chunks)?;
                }
            }
            Ok(chunks)
        };
        self.schema.fields().iter().enumerate().map(of_column).collect()
    }
}

/// The leaves of each column of a file.
struct Leaves(Vec<std::ops::Range<usize>>);

impl Leaves {
    fn of(schema: &SchemaDescriptor) -> Self {
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
