//! Memory that a builder keeps from batch to batch.
//!
//! Columns are collected in lists that stay, and copied once, to memory of just
//! their size, when the batch is finished. Lists that grow anew for every batch
//! are copied about as often, but to memory that the system must clear first,
//! and leave batches on twice the memory that they need.

use std::ops::Range;

use arrow::array::ArrowNativeTypeOp;
use arrow::array::StringArray;
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::error::ArrowError;

use crate::ModelError;

/// The longest list that is kept: batches of usual size are built without
/// asking for memory, and an unusual one leaves nothing behind.
const KEPT_BYTES: usize = 1 << 20;

/// The values on memory of their own size; the list is empty afterwards.
pub(super) fn taken<T: ArrowNativeTypeOp>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    // As a list, for which no such alignment is asked as costs a search.
    let taken = Buffer::from_vec(values.to_vec());
    if values.capacity() * size_of::<T>() > KEPT_BYTES {
        *values = Vec::new();
    } else {
        values.clear();
    }
    taken.into()
}

/// Where lists begin and the last one ends; none is left afterwards.
pub(super) fn taken_offsets(offsets: &mut Vec<i32>) -> OffsetBuffer<i32> {
    let taken = taken(offsets);
    offsets.push(0);
    OffsetBuffer::new(taken)
}

/// Forgets where lists begin, all of which are empty.
pub(super) fn forget_offsets(offsets: &mut Vec<i32>) {
    offsets.clear();
    offsets.shrink_to(KEPT_BYTES / size_of::<i32>());
    offsets.push(0);
}

/// Texts one after the other.
pub(super) struct TextList {
    bytes: Vec<u8>,
    /// Where each text begins, and after the last where it ends.
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

    /// Adds the texts at these places, which it has, once more.
    pub(super) fn repeat(&mut self, places: Range<usize>) {
        // As in `end`, whether all fit is looked at once: below 4 GiB these are where they were.
        let at = |place: usize| self.offsets[place] as u32 as usize;
        let bytes = at(places.start)..at(places.end);
        let shift = (self.bytes.len() - bytes.start) as i32;
        self.bytes.extend_from_within(bytes);
        self.offsets.reserve(places.len());
        for place in places {
            self.offsets.push(self.offsets[place + 1].wrapping_add(shift));
        }
    }

    /// Adds empty texts, as stand where there is none.
    pub(super) fn push_empty(&mut self, count: usize) {
        let end = self.bytes.len() as i32;
        self.offsets.resize(self.offsets.len() + count, end);
    }

    /// As [`Self::push`], of characters of one byte each.
    #[inline]
    pub(super) fn push_ascii(&mut self, text: &[u8]) {
        debug_assert!(text.is_ascii(), "only whole texts are pushed");
        self.bytes.extend_from_slice(text);
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        // Whether all fit is looked at once, at the end.
        self.offsets.push(self.bytes.len() as i32);
    }

    /// Number of texts.
    pub(super) const fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The text at a place, which must be below [`Self::len`].
    pub(super) fn bytes_at(&self, place: usize) -> &[u8] {
        &self.bytes[self.offsets[place] as usize..self.offsets[place + 1] as usize]
    }

    /// The text at a place, where there is one.
    pub(super) fn get(&self, place: usize) -> Option<&[u8]> {
        let [start, end] = *self.offsets.get(place..)?.first_chunk()?;
        Some(&self.bytes[start as usize..end as usize])
    }

    /// The text at a place, which must be below [`Self::len`].
    pub(super) fn text_at(&self, place: usize) -> &str {
        // Only whole texts were pushed.
        std::str::from_utf8(self.bytes_at(place)).unwrap_or_default()
    }

    /// Forgets all texts but the first so many.
    pub(super) fn truncate(&mut self, texts: usize) {
        if texts < self.len() {
            self.bytes.truncate(self.offsets[texts] as usize);
            self.offsets.truncate(texts + 1);
        }
    }

    /// The texts as a column; none is left afterwards.
    pub(super) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<StringArray, ModelError> {
        if i32::try_from(self.bytes.len()).is_err() {
            *self = Self::default();
            return Err(ArrowError::OffsetOverflowError(i32::MAX as usize).into());
        }
        let offsets = taken_offsets(&mut self.offsets);
        let bytes = taken(&mut self.bytes).into_inner();
        // To look at all of it again was half of the instructions that finishing a batch took.
        debug_assert!(
            StringArray::try_new(offsets.clone(), bytes.clone(), nulls.clone()).is_ok(),
            "texts are whole, and as many as there is room for"
        );
        // SAFETY: Only whole texts and ASCII are pushed, and they are repeated and left as a whole,
        // each between two offsets, which counted right as there are no more bytes than that.
        Ok(unsafe { StringArray::new_unchecked(offsets, bytes, nulls) })
    }
}
