//! Columns that are mostly null. Nulls cost nothing until the batch is finished.

use arrow::array::{
    ArrowPrimitiveType, BooleanBufferBuilder, FixedSizeBinaryArray, PrimitiveArray,
};
use arrow::buffer::NullBuffer;

use super::reuse::taken;
use crate::ModelError;

/// Rows without a value. Rows with a value cost nothing here.
#[derive(Default)]
pub(super) struct Gaps(Vec<Gap>);

/// Consecutive rows.
struct Gap {
    start: usize,
    end: usize,
}

impl Gaps {
    /// Adds rows without a value, which must follow all earlier ones.
    pub(super) fn push(&mut self, start: usize, end: usize) {
        self.0.push(Gap { start, end });
    }

    /// Takes the nulls of a column with this many rows.
    pub(super) fn finish(&mut self, rows: usize) -> Option<NullBuffer> {
        if self.0.is_empty() {
            return None;
        }
        let mut valid = BooleanBufferBuilder::new(rows);
        for Gap { start, end } in self.0.drain(..) {
            valid.append_n(start - valid.len(), true);
            valid.append_n(end - start, false);
        }
        valid.append_n(rows - valid.len(), true);
        self.0.shrink_to(KEPT_GAPS);
        Some(NullBuffer::new(valid.finish()))
    }
}

/// Every second row of a batch of normal size.
const KEPT_GAPS: usize = 1 << 12;

/// Numbers; null if not set.
pub(super) struct Numbers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    gaps: Gaps,
}

impl<T: ArrowPrimitiveType> Default for Numbers<T> {
    fn default() -> Self {
        Self { values: Vec::new(), gaps: Gaps::default() }
    }
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    /// Sets the value of a row. Rows must be set in order.
    #[inline]
    pub(super) fn set(&mut self, row: usize, value: Option<T::Native>) {
        if let Some(value) = value {
            if self.values.len() < row {
                self.pad(row);
            }
            self.values.push(value);
        }
    }

    #[cold]
    fn pad(&mut self, rows: usize) {
        self.gaps.push(self.values.len(), rows);
        self.values.resize(rows, T::default_value());
    }

    /// Whether no row has a value.
    pub(super) const fn end_unset(&mut self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn finish(&mut self, rows: usize) -> PrimitiveArray<T> {
        if self.values.len() < rows {
            self.pad(rows);
        }
        PrimitiveArray::new(taken(&mut self.values), self.gaps.finish(rows))
    }
}

/// Identifiers of `N` bytes; null if not set.
#[derive(Default)]
pub(super) struct Ids<const N: usize> {
    bytes: Vec<u8>,
    rows: usize,
    gaps: Gaps,
}

impl<const N: usize> Ids<N> {
    /// Sets the value of a row. Rows must be set in order.
    pub(super) fn set(&mut self, row: usize, value: Option<[u8; N]>) {
        if let Some(value) = value {
            self.pad(row);
            self.bytes.extend_from_slice(&value);
            self.rows += 1;
        }
    }

    fn pad(&mut self, rows: usize) {
        if self.rows < rows {
            self.gaps.push(self.rows, rows);
            self.bytes.resize(rows * N, 0);
            self.rows = rows;
        }
    }

    /// Whether no row has a value.
    pub(super) const fn end_unset(&mut self) -> bool {
        self.rows == 0
    }

    pub(super) fn finish(&mut self, rows: usize) -> Result<FixedSizeBinaryArray, ModelError> {
        self.pad(rows);
        self.rows = 0;
        let bytes = taken(&mut self.bytes).into_inner();
        // The width is 8 or 16.
        Ok(FixedSizeBinaryArray::try_new(N as i32, bytes, self.gaps.finish(rows))?)
    }
}
