//! Parents as row offsets instead of span ids, which are random and do not compress.

use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder, Int32Array,
    RecordBatch, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Int32Type};
use arrow::error::ArrowError;
use spanwise_model::schema::column;
use spanwise_model::{SpanId, TraceId};

use super::file_column;

/// The span ids of a row group, grouped by trace.
pub(super) struct Runs<'a> {
    ids: &'a [[u8; SpanId::LEN]],
    /// The end of each trace's rows.
    ends: Vec<usize>,
}

/// From this many rows of a trace on, a hash table is faster than scanning.
const LARGE_ROWS: usize = 128;

impl<'a> Runs<'a> {
    /// Rows in the order of the file. Rows of one trace are adjacent.
    pub(super) fn of(traces: &FixedSizeBinaryArray, spans: &'a FixedSizeBinaryArray) -> Self {
        let ids = spans.values().as_chunks().0;
        let of_traces = traces.value_data().as_chunks::<{ TraceId::LEN }>().0;
        let goes_on = |row: &usize| {
            of_traces[*row] == of_traces[row - 1]
                && traces.is_valid(*row)
                && traces.is_valid(row - 1)
        };
        let mut ends: Vec<usize> = (1..ids.len()).filter(|row| !goes_on(row)).collect();
        ends.extend((!ids.is_empty()).then_some(ids.len()));
        Self { ids, ends }
    }

    /// The parent ids without a row in their trace, and the offsets of the others.
    pub(super) fn offsets(
        &self,
        parents: &FixedSizeBinaryArray,
    ) -> Result<(ArrayRef, ArrayRef), ArrowError> {
        let rows = parents.len();
        if parents.null_count() == rows {
            let none = |data_type| new_null_array(&data_type, rows);
            return Ok((none(parents.data_type().clone()), none(DataType::Int32)));
        }
        let all = parents.value_data().as_chunks::<{ SpanId::LEN }>().0;
        let mut offsets = vec![0; rows];
        let mut has_offset = vec![false; rows];
        let mut start = 0;
        for end in self.ends.iter().copied() {
            let of_trace = &self.ids[start..end];
            let table: Option<AHashMap<_, usize>> = (of_trace.len() > LARGE_ROWS)
                .then(|| of_trace.iter().enumerate().map(|(row, id)| (id, row)).collect());
            let find = |parent: &[u8; SpanId::LEN]| match &table {
                Some(table) => table.get(parent).copied(),
                None => of_trace.iter().position(|id| id == parent),
            };
            // Siblings are adjacent and share the parent.
            let mut before = None;
            for row in (start..end).filter(|row| parents.is_valid(*row)) {
                let parent = &all[row];
                let found = match before {
                    Some((same, found)) if same == parent => found,
                    _ => find(parent),
                };
                before = Some((parent, found));
                if let Some(found) = found {
                    // A row group has far fewer rows than an i32 can count.
                    offsets[row] = (start + found) as i32 - row as i32;
                    has_offset[row] = true;
                }
            }
            start = end;
        }
        let has_offset = BooleanBuffer::from(has_offset);
        let has_id =
            parents.nulls().map_or_else(|| !&has_offset, |nulls| nulls.inner() & &!&has_offset);
        let ids = parents.values().slice_with_length(0, rows * SpanId::LEN);
        let ids = FixedSizeBinaryArray::try_new(SpanId::LEN as i32, ids, Some(has_id.into()))?;
        let offsets = Int32Array::try_new(offsets.into(), Some(has_offset.into()))?;
        Ok((Arc::new(ids), Arc::new(offsets)))
    }
}

/// Span ids of rows of a file, by row number.
pub(crate) struct SpanIds {
    /// Ascending.
    rows: Vec<u32>,
    ids: Vec<[u8; SpanId::LEN]>,
}

fn mistyped() -> ArrowError {
    ArrowError::SchemaError("a column of parents has another type".to_owned())
}

fn ids<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a FixedSizeBinaryArray, ArrowError> {
    let column = batch.column_by_name(name).and_then(|array| array.as_fixed_size_binary_opt());
    column.ok_or_else(mistyped)
}

impl SpanIds {
    /// The ids of rows that were read, with their numbers.
    ///
    /// # Errors
    /// If the ids were not read.
    pub(crate) fn of(batches: &[RecordBatch], rows: Vec<u32>) -> Result<Self, ArrowError> {
        let mut known = Vec::with_capacity(rows.len());
        for batch in batches {
            known.extend_from_slice(ids(batch, column::SPAN_ID)?.values().as_chunks().0);
        }
        Ok(Self { rows, ids: known })
    }

    fn find(&self, row: u32) -> Option<&[u8; SpanId::LEN]> {
        self.rows.binary_search(&row).ok().and_then(|at| self.ids.get(at))
    }

    /// The parents of these rows whose ids are not known here, ascending.
    pub(crate) fn missing(&self, batches: &[RecordBatch]) -> Vec<u32> {
        let mut missing = Vec::new();
        for name in [file_column::PARENT_ROW_OFFSET, file_column::ASSEMBLED_PARENT_ROW_OFFSET] {
            let mut own = self.rows.iter();
            for batch in batches {
                let offsets = batch.column_by_name(name);
                let offsets = offsets.and_then(|array| array.as_primitive_opt::<Int32Type>());
                let Some(offsets) = offsets else { continue };
                for (offset, row) in offsets.iter().zip(own.by_ref()) {
                    let target = offset.map(|offset| row.wrapping_add_signed(offset));
                    missing.extend(target.filter(|target| self.find(*target).is_none()));
                }
            }
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}

/// How parents are restored.
pub(crate) enum Parents {
    /// As ids: of the rows that are read, and of other rows that are their parents.
    Ids(SpanIds, SpanIds),
    /// Only whether there is a parent. An id of zeros stands for any parent.
    Presence,
}

impl Parents {
    fn id(&self, row: usize, offset: i32) -> Option<&[u8; SpanId::LEN]> {
        match self {
            Self::Ids(own, others) => {
                let target = own.rows.get(row)?.wrapping_add_signed(offset);
                own.find(target).or_else(|| others.find(target))
            }
            Self::Presence => Some(&[0; SpanId::LEN]),
        }
    }

    /// Restores a column of parents. `first` is the index of its first row among all rows that are
    /// read.
    pub(super) fn restore(
        &self,
        own: &ArrayRef,
        offsets: Option<&ArrayRef>,
        first: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let Some(offsets) = offsets.filter(|offsets| offsets.null_count() < offsets.len()) else {
            return Ok(Arc::clone(own));
        };
        let own = own.as_fixed_size_binary_opt().ok_or_else(mistyped)?;
        let offsets = offsets.as_primitive_opt::<Int32Type>().ok_or_else(mistyped)?;
        let mut all = FixedSizeBinaryBuilder::with_capacity(own.len(), SpanId::LEN as i32);
        for row in 0..own.len() {
            if own.is_valid(row) {
                all.append_value(own.value(row))?;
            } else if offsets.is_valid(row) {
                let id = self.id(first + row, offsets.value(row)).ok_or_else(|| {
                    ArrowError::ParquetError("a row's parent is no row of its file".to_owned())
                })?;
                all.append_value(id)?;
            } else {
                all.append_null();
            }
        }
        Ok(Arc::new(all.finish()))
    }
}
