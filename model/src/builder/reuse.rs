//! Memory that a builder keeps between batches.
//!
//! Columns are collected in vectors that stay allocated. When the batch is finished, they are
//! copied to memory of the exact size. Vectors that grow anew for each batch would be copied about
//! as often. But the kernel would have to clear their memory first, and batches would keep twice
//! the memory that they need.

use std::ops::Range;

use arrow::array::ArrowNativeTypeOp;
use arrow::array::StringArray;
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::error::ArrowError;

use crate::ModelError;

/// Maximum size of a vector that is kept. Batches of normal size are then built without
/// allocations, and an unusually large one leaves nothing behind.
const KEPT_BYTES: usize = 1 << 20;

/// Copies the values to memory of their exact size and empties the vector.
pub(super) fn taken<T: ArrowNativeTypeOp>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    // Through a vector, whose alignment is cheaper to allocate than Arrow's.
    let taken = Buffer::from_vec(values.to_vec());
    if values.capacity() * size_of::<T>() > KEPT_BYTES {
        *values = Vec::new();
    } else {
        values.clear();
    }
    taken.into()
}

/// Takes the offsets of lists.
pub(super) fn taken_offsets(offsets: &mut Vec<i32>) -> OffsetBuffer<i32> {
    let taken = taken(offsets);
    offsets.push(0);
    OffsetBuffer::new(taken)
}

/// Resets the offsets of lists, all of which must be empty.
pub(super) fn forget_offsets(offsets: &mut Vec<i32>) {
    offsets.clear();
    offsets.shrink_to(KEPT_BYTES / size_of::<i32>());
    offsets.push(0);
}

/// A list of texts in one buffer.
pub(super) struct TextList {
    bytes: Vec<u8>,
    /// The offset of each text, and the end.
    offsets: Vec<i32>,
}

impl Default for TextList {
    fn default() -> Self {
        Self { bytes: Vec::new(), offsets: vec![0] }
    }
}

impl TextList {
    #[inline]
    pub(super) fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// Appends copies of the texts with these indexes.
    pub(super) fn repeat(&mut self, places: Range<usize>) {
        // As in `end`, the total size is checked later. Below 4 GiB, truncated offsets are still
        // correct.
        let at = |place: usize| self.offsets[place] as u32 as usize;
        let bytes = at(places.start)..at(places.end);
        let shift = (self.bytes.len() - bytes.start) as i32;
        self.bytes.extend_from_within(bytes);
        self.offsets.reserve(places.len());
        for place in places {
            self.offsets.push(self.offsets[place + 1].wrapping_add(shift));
        }
    }

    /// Appends empty texts, for nulls.
    pub(super) fn push_empty(&mut self, count: usize) {
        let end = self.bytes.len() as i32;
        self.offsets.resize(self.offsets.len() + count, end);
    }

    /// Like [`Self::push`], for ASCII text.
    #[inline]
    pub(super) fn push_ascii(&mut self, text: &[u8]) {
        debug_assert!(text.is_ascii(), "only whole texts are pushed");
        self.bytes.extend_from_slice(text);
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        // The total size is checked once, at the end.
        self.offsets.push(self.bytes.len() as i32);
    }

    /// Number of texts.
    pub(super) const fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The text with this index, which must be below [`Self::len`].
    pub(super) fn bytes_at(&self, place: usize) -> &[u8] {
        &self.bytes[self.offsets[place] as usize..self.offsets[place + 1] as usize]
    }

    /// The text with this index, if there is one.
    pub(super) fn get(&self, place: usize) -> Option<&[u8]> {
        let [start, end] = *self.offsets.get(place..)?.first_chunk()?;
        Some(&self.bytes[start as usize..end as usize])
    }

    /// The text with this index, which must be below [`Self::len`].
    pub(super) fn text_at(&self, place: usize) -> &str {
        // Only complete texts were pushed.
        std::str::from_utf8(self.bytes_at(place)).unwrap_or_default()
    }

    /// Keeps only this many texts.
    pub(super) fn truncate(&mut self, texts: usize) {
        if texts < self.len() {
            self.bytes.truncate(self.offsets[texts] as usize);
            self.offsets.truncate(texts + 1);
        }
    }

    /// Takes the texts as a column.
    pub(super) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<StringArray, ModelError> {
        if i32::try_from(self.bytes.len()).is_err() {
            *self = Self::default();
            return Err(ArrowError::OffsetOverflowError(i32::MAX as usize).into());
        }
        let offsets = taken_offsets(&mut self.offsets);
        let bytes = taken(&mut self.bytes).into_inner();
        // Validating UTF-8 again was half of the instructions of finishing a batch.
        debug_assert!(
            StringArray::try_new(offsets.clone(), bytes.clone(), nulls.clone()).is_ok(),
            "texts are whole, and as many as there is room for"
        );
        // SAFETY: Only complete texts and ASCII are pushed, and copied or removed as a whole. The
        // offsets are correct, because the total size was checked.
        Ok(unsafe { StringArray::new_unchecked(offsets, bytes, nulls) })
    }
}
