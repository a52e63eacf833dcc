//! Gathers rows of many batches into one batch, in a given order.
//!
//! Arrow's `interleave` does this for any type. This module covers types for which Arrow's cost is
//! per row and batch, or value by value: dictionaries and ids.

use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, RecordBatch,
    RecordBatchOptions, StringArray, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use spanwise_model::absent::{has_values, without_values};
use spanwise_model::schema::span_schema;

use super::order::RowPlace;

/// One column of the rows at these places. The arrays must have the field's type.
///
/// # Errors
/// If an array has another type, or texts are too large for one array.
pub(crate) fn column(
    field: &Field,
    arrays: &[&ArrayRef],
    places: &[RowPlace],
) -> Result<ArrayRef, ArrowError> {
    if field.is_nullable() && arrays.iter().all(|array| array.null_count() == array.len()) {
        return Ok(new_null_array(field.data_type(), places.len()));
    }
    match field.data_type() {
        DataType::Dictionary(key, _) if **key == DataType::Int32 => texts(arrays, places),
        DataType::FixedSizeBinary(width) => ids(*width, arrays, places),
        DataType::List(_) if !arrays.iter().any(|array| has_values(array)) => {
            without_values(field, places.len())
        }
        _ => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
            interleave(&arrays, places)
        }
    }
}

/// Columns of the rows at some places of span batches. Each column is gathered once.
pub(crate) struct Gathered<'a> {
    batches: &'a [RecordBatch],
    places: &'a [RowPlace],
    columns: AHashMap<usize, ArrayRef>,
}

impl<'a> Gathered<'a> {
    /// Nothing is gathered yet.
    pub(crate) fn new(batches: &'a [RecordBatch], places: &'a [RowPlace]) -> Self {
        Self { batches, places, columns: AHashMap::new() }
    }

    /// The column with this name.
    ///
    /// # Errors
    /// The errors of [`column`].
    pub(crate) fn column(&mut self, name: &str) -> Result<ArrayRef, ArrowError> {
        let schema = span_schema();
        let index = schema.index_of(name)?;
        if let Some(array) = self.columns.get(&index) {
            return Ok(Arc::clone(array));
        }
        let arrays: Vec<&ArrayRef> = self.batches.iter().map(|batch| batch.column(index)).collect();
        let array = column(schema.field(index), &arrays, self.places)?;
        self.columns.insert(index, Arc::clone(&array));
        Ok(array)
    }

    /// Sets the column with this name.
    ///
    /// # Errors
    /// If the schema has no column with this name.
    pub(crate) fn put(&mut self, name: &str, array: ArrayRef) -> Result<(), ArrowError> {
        self.columns.insert(span_schema().index_of(name)?, array);
        Ok(())
    }

    /// The columns with these names, in this order.
    ///
    /// # Errors
    /// The errors of [`column`].
    pub(crate) fn batch(&mut self, names: &[&str]) -> Result<RecordBatch, ArrowError> {
        let schema = span_schema();
        let fields = names.iter().map(|name| Ok(schema.field_with_name(name)?.clone()));
        let fields = fields.collect::<Result<Vec<_>, ArrowError>>()?;
        let columns = names.iter().map(|name| self.column(name)).collect::<Result<_, _>>()?;
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    }
}

/// All rows of batches with this schema, as one batch. Each dictionary contains a text once.
///
/// # Errors
/// The errors of [`column`].
pub(crate) fn all(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch, ArrowError> {
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let places: Vec<RowPlace> = (batches.iter().enumerate())
        .flat_map(|(number, batch)| (0..batch.num_rows()).map(move |row| (number, row)))
        .collect();
    let columns = schema.fields().iter().enumerate().map(|(place, field)| {
        let arrays: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(place)).collect();
        column(field, &arrays, &places)
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

fn mistyped(what: &str) -> ArrowError {
    ArrowError::SchemaError(format!("a column is no {what}"))
}

/// A source dictionary, and the new numbers of its texts.
struct Source<'a> {
    keys: &'a Int32Array,
    words: &'a StringArray,
    /// The new number of each text that some row has used so far.
    renumbered: Vec<i32>,
}

impl<'a> Source<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(|| mistyped("dictionary"))?;
        let words = array.values().as_string_opt::<i32>().ok_or_else(|| mistyped("text"))?;
        Ok(Self { keys: array.keys(), words, renumbered: vec![UNASKED; words.len()] })
    }

    /// The new number of a row's text. `add` adds the text to the new dictionary.
    fn key(&mut self, row: usize, mut add: impl FnMut(&'a str) -> i32) -> i32 {
        let place = usize::try_from(self.keys.value(row)).unwrap_or(usize::MAX);
        // A valid row never refers to a null text.
        let (true, Some(key)) = (self.keys.is_valid(row), self.renumbered.get_mut(place)) else {
            return NULL;
        };
        if *key == UNASKED {
            *key = if self.words.is_valid(place) { add(self.words.value(place)) } else { NULL };
        }
        *key
    }
}

/// Marks a text that no row has used yet.
const UNASKED: i32 = i32::MIN;
/// Marks a null text.
const NULL: i32 = -1;

/// Gathers dictionaries into one with distinct values that are all in use.
fn texts(arrays: &[&ArrayRef], places: &[RowPlace]) -> Result<ArrayRef, ArrowError> {
    let mut distinct: AHashMap<&str, i32> = AHashMap::new();
    let mut values: Vec<&str> = Vec::new();
    let mut sources: Vec<Source<'_>> =
        arrays.iter().map(|array| Source::of(array)).collect::<Result<_, _>>()?;
    let mut add = |word| {
        *distinct.entry(word).or_insert_with(|| {
            values.push(word);
            values.len() as i32 - 1
        })
    };
    let mut keys: Vec<i32> =
        places.iter().map(|&(batch, row)| sources[batch].key(row, &mut add)).collect();
    let nulls = keys.contains(&NULL).then(|| keys.iter().map(|key| *key != NULL).collect());
    if nulls.is_some() {
        // Nulls need a valid key, too, if there is any text.
        keys.iter_mut().for_each(|key| *key = (*key).max(0));
    }
    let keys = Int32Array::try_new(keys.into(), nulls)?;
    let values = Arc::new(StringArray::from_iter_values(values));
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}

fn ids(width: i32, arrays: &[&ArrayRef], places: &[RowPlace]) -> Result<ArrayRef, ArrowError> {
    let sources: Option<Vec<&FixedSizeBinaryArray>> =
        arrays.iter().map(|array| array.as_fixed_size_binary_opt()).collect();
    let sources = sources.ok_or_else(|| mistyped("id"))?;
    let bytes = match width {
        8 => id_bytes::<8>(&sources, places),
        16 => id_bytes::<16>(&sources, places),
        _ => return Err(mistyped("id")),
    };
    let nulls = sources.iter().any(|ids| ids.null_count() > 0).then(|| {
        let is_valid = |at: usize| sources[places[at].0].is_valid(places[at].1);
        NullBuffer::from(BooleanBuffer::collect_bool(places.len(), is_valid))
    });
    Ok(Arc::new(FixedSizeBinaryArray::try_new(width, bytes, nulls)?))
}

/// Ids of `WIDTH` bytes, which is a constant for the compiler.
fn id_bytes<const WIDTH: usize>(sources: &[&FixedSizeBinaryArray], places: &[RowPlace]) -> Buffer {
    let sources: Vec<&[[u8; WIDTH]]> =
        sources.iter().map(|ids| ids.value_data().as_chunks().0).collect();
    let ids: Vec<[u8; WIDTH]> = places.iter().map(|&(batch, row)| sources[batch][row]).collect();
    Buffer::from_vec(ids.into_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spanwise_model::{
        Capture, Event, Kind, Span, SpanBatch, SpanBatchBuilder, SpanId, TraceId,
    };

    fn span(n: u64) -> Span {
        let id = SpanId::from_u64(n + 1).expect("not zero");
        let service = format!("service-{}", n % 3);
        let mut span = Span::new(id, Capture::App, Kind::Internal, service, "o", n as i64, 2);
        span.trace_id = n.is_multiple_of(2).then_some(TraceId([n as u8 + 1; 16]));
        span.host = n.is_multiple_of(3).then(|| format!("host-{}", n % 5));
        span.attributes = (0..n % 4).map(|k| (format!("k{k}"), k.to_string().into())).collect();
        if n.is_multiple_of(11) {
            let attributes = vec![("e".to_owned(), true.into())];
            let event = Event { time_unix_nano: n as i64, name: "event".into(), attributes };
            span.events = vec![event];
        }
        span
    }

    fn gathered(batches: &[RecordBatch], places: &[RowPlace]) -> Vec<Span> {
        let schema = span_schema();
        let columns = schema.fields().iter().enumerate().map(|(index, field)| {
            let arrays: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(index)).collect();
            column(field, &arrays, places).expect("a column")
        });
        let batch = RecordBatch::try_new(span_schema(), columns.collect()).expect("a batch");
        SpanBatch::try_from(batch).expect("spans").spans().map(|s| s.expect("a span")).collect()
    }

    proptest! {
        #[test]
        fn rows_are_those_at_the_places(
            sizes in proptest::collection::vec(0u64..20, 1..6),
            picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..60),
            skip in 0usize..4,
        ) {
            let mut next = 0;
            let mut all = Vec::new();
            let mut batches = Vec::new();
            for (number, size) in sizes.into_iter().enumerate() {
                let spans: Vec<Span> = (next..next + size).map(span).collect();
                next += size;
                let batch = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
                // Arrays that begin in the middle of their buffers.
                let first = skip.min(spans.len());
                batches.push(batch.slice(first, spans.len() - first));
                let rows = spans.into_iter().skip(first).enumerate();
                all.extend(rows.map(|(row, span)| ((number, row), span)));
            }
            prop_assume!(!all.is_empty());
            let picked: Vec<_> = picks.iter().map(|pick| pick.get(&all).clone()).collect();
            let places: Vec<RowPlace> = picked.iter().map(|(place, _)| *place).collect();
            let spans: Vec<Span> = picked.into_iter().map(|(_, span)| span).collect();
            prop_assert_eq!(gathered(&batches, &places), spans);
        }
    }
}
