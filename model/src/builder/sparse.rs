//! Columns of which many rows, or all, are null: what is not set costs nothing
//! until the batch is finished.

use arrow::array::{ArrowPrimitiveType, FixedSizeBinaryArray, NullBufferBuilder, PrimitiveArray};

use super::reuse::taken;
use crate::ModelError;

/// Numbers, null where none was set.
pub(super) struct Numbers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Default for Numbers<T> {
    fn default() -> Self {
        Self { values: Vec::new(), nulls: NullBufferBuilder::new(0) }
    }
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    /// Sets the value of this row, after those of all rows before.
    #[inline]
    pub(super) fn set(&mut self, row: usize, value: Option<T::Native>) {
        if let Some(value) = value {
            if self.values.len() < row {
                self.pad(row);
            }
            self.values.push(value);
            self.nulls.append_non_null();
        }
    }

    #[cold]
    fn pad(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.values.len());
        self.values.resize(rows, T::default_value());
        self.nulls.append_n_nulls(missing);
    }

    /// Whether no row has a value.
    pub(super) const fn end_unset(&mut self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn finish(&mut self, rows: usize) -> PrimitiveArray<T> {
        if self.values.len() < rows {
            self.pad(rows);
        }
        PrimitiveArray::new(taken(&mut self.values), self.nulls.finish())
    }
}

/// Identifiers of `N` bytes, null where none was set.
pub(super) struct Ids<const N: usize> {
    bytes: Vec<u8>,
    rows: usize,
    nulls: NullBufferBuilder,
}

impl<const N: usize> Default for Ids<N> {
    fn default() -> Self {
        Self { bytes: Vec::new(), rows: 0, nulls: NullBufferBuilder::new(0) }
    }
}

impl<const N: usize> Ids<N> {
    /// Sets the value of this row, after those of all rows before.
    pub(super) fn set(&mut self, row: usize, value: Option<[u8; N]>) {
        if let Some(value) = value {
            self.pad(row);
            self.bytes.extend_from_slice(&value);
            self.nulls.append_non_null();
            self.rows += 1;
        }
    }

    fn pad(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.rows);
        if missing > 0 {
            self.bytes.resize(rows * N, 0);
            self.nulls.append_n_nulls(missing);
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
        // Widths are 8 and 16.
        Ok(FixedSizeBinaryArray::try_new(N as i32, bytes, self.nulls.finish())?)
    }
}
