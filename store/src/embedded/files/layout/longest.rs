//! The blocks of a row group that contain spans of a shape, and approximately how long the longest
//! of these took.

use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray};
use arrow::datatypes::Int32Type;
use arrow::error::ArrowError;
use spanwise_model::schema::column;

use super::fixed::SHAPED;
use crate::embedded::files::index::block_sets::MOST_BLOCKS;
use crate::embedded::files::lengths::length;

/// The columns of shapes, besides attributes, that searches use. Shapes with equal values in them
/// share one entry.
pub(crate) const ASKED: [&str; 3] = [column::SERVICE, column::OPERATION, column::STATUS];

/// The [length](length) of the longest span of a shape in each block of a row group; 0 if a block
/// has none.
#[derive(Clone, Copy, Default)]
pub(super) struct Longest([u8; MOST_BLOCKS]);

impl Longest {
    /// Adds a span of this block.
    pub(super) fn add(&mut self, block: usize, duration_nano: i64) {
        self.0[block] = length(duration_nano).max(self.0[block]);
    }

    fn unite(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own = other.max(*own));
    }
}

/// The column for the file. Of all shapes with equal [`ASKED`] columns, the first has the value for
/// all, and the others are null. `columns` are the [`SHAPED`] columns.
///
/// # Errors
/// If a column is not a dictionary of distinct texts.
pub(super) fn column(columns: &[ArrayRef], each: &[Longest]) -> Result<ArrayRef, ArrowError> {
    let texts_of = |name: &str| {
        let place = SHAPED.iter().position(|shaped| *shaped == name);
        let column = place.and_then(|place| columns.get(place)?.as_dictionary_opt::<Int32Type>());
        let column = column.filter(|texts| texts.null_count() == 0);
        let missing = || ArrowError::SchemaError(format!("a shape without a {name}"));
        column.map(|texts| texts.keys().values()).ok_or_else(missing)
    };
    let [one, two, three] = ASKED.map(texts_of);
    let asked = [one?, two?, three?];
    let mut firsts: AHashMap<[i32; ASKED.len()], usize> = AHashMap::new();
    let mut said: Vec<Option<Longest>> = Vec::with_capacity(each.len());
    for (shape, own) in each.iter().enumerate() {
        let first = *firsts.entry(asked.map(|texts| texts[shape])).or_insert(shape);
        said.push((first == shape).then_some(*own));
        if let Some(all) = &mut said[first] {
            all.unite(own);
        }
    }
    let said = said.iter().map(|longest| longest.as_ref().map(|longest| longest.0));
    let column = FixedSizeBinaryArray::try_from_sparse_iter_with_size(said, MOST_BLOCKS as i32)?;
    Ok(Arc::new(column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::DictionaryArray;

    #[test]
    fn the_first_of_those_that_agree_says_it_of_all() {
        let texts = |texts: [&str; 4]| -> ArrayRef {
            Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>())
        };
        let same = texts(["x"; 4]);
        let columns: Vec<ArrayRef> = (SHAPED.iter())
            .map(|name| match *name {
                column::SERVICE => texts(["a", "a", "a", "b"]),
                column::STATUS => texts(["ok", "error", "ok", "ok"]),
                // Not used.
                column::KIND => texts(["1", "2", "3", "4"]),
                _ => Arc::clone(&same),
            })
            .collect();
        let mut each = [Longest::default(); 4];
        let second = 1_000_000_000;
        for (shape, block, nano) in
            [(0, 3, 5), (1, 0, second), (2, 3, second), (2, 31, -1), (3, 7, 8 * second)]
        {
            each[shape].add(block, nano);
        }
        let column = column(&columns, &each).expect("a column");
        let column = column.as_fixed_size_binary();
        let said = |shape: usize| -> Vec<(usize, u8)> {
            let bytes = column.value(shape).iter().copied().enumerate();
            bytes.filter(|(_, length)| *length > 0).collect()
        };
        let long = length(second);
        assert_eq!(said(0), [(3, long), (31, 1)]);
        assert_eq!(said(1), [(0, long)]);
        assert!(column.is_null(2));
        assert_eq!(said(3), [(7, long + 24)]);
    }
}
