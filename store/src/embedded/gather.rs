//! Rows of many batches as columns of one, in a given order.
//!
//! Arrow's `interleave` does this for any type. Here are the types that it
//! does at a cost per row and batch, or value by value: dictionaries, ids, and
//! the map of attributes.

use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, ListArray,
    MapArray, StringArray, StructArray, UInt8Array, new_empty_array, new_null_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, Int32Type, UInt8Type};
use arrow::error::ArrowError;

use super::order::Place;

/// One column of the rows at these places of the arrays, which are of the
/// field's type.
///
/// # Errors
/// Where they are not, or where texts are too large for one array.
pub(super) fn column(
    field: &Field,
    arrays: &[&ArrayRef],
    places: &[Place],
) -> Result<ArrayRef, ArrowError> {
    if field.is_nullable() && arrays.iter().all(|array| array.null_count() == array.len()) {
        return Ok(new_null_array(field.data_type(), places.len()));
    }
    match field.data_type() {
        DataType::Dictionary(key, _) if **key == DataType::Int32 => texts(arrays, places),
        DataType::FixedSizeBinary(width) => ids(*width, arrays, places),
        DataType::Map(entries, _) => maps(entries, arrays, places),
        DataType::List(item) if arrays.iter().all(|array| is_empty_list(array)) => {
            let offsets = OffsetBuffer::new_zeroed(places.len());
            let none = new_empty_array(item.data_type());
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, none, None)?))
        }
        _ => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
            interleave(&arrays, places)
        }
    }
}

fn mistyped(what: &str) -> ArrowError {
    ArrowError::SchemaError(format!("a column is no {what}"))
}

fn is_empty_list(array: &ArrayRef) -> bool {
    array.as_list_opt::<i32>().is_some_and(|lists| {
        let offsets = lists.value_offsets();
        offsets.first() == offsets.last()
    })
}

/// Dictionaries, as one whose values are distinct.
fn texts(arrays: &[&ArrayRef], places: &[Place]) -> Result<ArrayRef, ArrowError> {
    let mut distinct: AHashMap<&str, i32> = AHashMap::new();
    let mut values: Vec<&str> = Vec::new();
    // For each array its keys, and what each of them is in the new dictionary.
    let mut sources: Vec<(&Int32Array, Vec<i32>)> = Vec::with_capacity(arrays.len());
    for array in arrays {
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(|| mistyped("dictionary"))?;
        let words = array.values().as_string_opt::<i32>().ok_or_else(|| mistyped("text"))?;
        let renumbered = words.iter().map(|word| {
            // No row has a key of a null: those are nulls themselves.
            let Some(word) = word else { return -1 };
            *distinct.entry(word).or_insert_with(|| {
                values.push(word);
                values.len() as i32 - 1
            })
        });
        sources.push((array.keys(), renumbered.collect()));
    }
    let key = |&(batch, row): &Place| {
        let (keys, renumbered) = &sources[batch];
        let key = usize::try_from(keys.value(row)).ok().filter(|_| keys.is_valid(row))?;
        renumbered.get(key).copied().filter(|key| *key >= 0)
    };
    let keys: Int32Array = places.iter().map(key).collect();
    let values = Arc::new(StringArray::from_iter_values(values));
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}

fn ids(width: i32, arrays: &[&ArrayRef], places: &[Place]) -> Result<ArrayRef, ArrowError> {
    let sources: Option<Vec<&FixedSizeBinaryArray>> =
        arrays.iter().map(|array| array.as_fixed_size_binary_opt()).collect();
    let sources = sources.ok_or_else(|| mistyped("id"))?;
    let mut bytes = Vec::with_capacity(places.len() * usize::try_from(width).unwrap_or(0));
    for &(batch, row) in places {
        bytes.extend_from_slice(sources[batch].value(row));
    }
    let nulls = sources.iter().any(|ids| ids.null_count() > 0).then(|| {
        places.iter().map(|&(batch, row)| sources[batch].is_valid(row)).collect::<NullBuffer>()
    });
    Ok(Arc::new(FixedSizeBinaryArray::try_new(width, Buffer::from(bytes), nulls)?))
}

/// An array of attribute maps, taken apart.
struct Maps<'a> {
    offsets: &'a [i32],
    keys: &'a StringArray,
    types: &'a UInt8Array,
    values: &'a StringArray,
}

impl<'a> Maps<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        let maps = array.as_map_opt()?;
        let values = maps.values().as_struct_opt()?;
        Some(Self {
            offsets: maps.value_offsets(),
            keys: maps.keys().as_string_opt()?,
            types: values.columns().first()?.as_primitive_opt::<UInt8Type>()?,
            values: values.columns().get(1)?.as_string_opt()?,
        })
    }
}

/// Texts that are appended range by range.
struct TextRanges {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl TextRanges {
    fn append(&mut self, from: &StringArray, first: usize, end: usize) -> Result<(), ArrowError> {
        let offsets = &from.value_offsets()[first..=end];
        let (begin, stop) = (offsets[0], offsets[offsets.len() - 1]);
        let at = i32::try_from(self.bytes.len() + (stop - begin) as usize)
            .map_err(|_| ArrowError::OffsetOverflowError(self.bytes.len()))?
            - (stop - begin);
        self.bytes.extend_from_slice(&from.value_data()[begin as usize..stop as usize]);
        self.offsets.extend(offsets[1..].iter().map(|offset| offset - begin + at));
        Ok(())
    }

    fn finish(self) -> Result<StringArray, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        StringArray::try_new(offsets, Buffer::from(self.bytes), None)
    }
}

fn maps(
    entries: &Arc<Field>,
    arrays: &[&ArrayRef],
    places: &[Place],
) -> Result<ArrayRef, ArrowError> {
    let sources: Option<Vec<Maps<'_>>> = arrays.iter().map(|array| Maps::of(array)).collect();
    let sources = sources.ok_or_else(|| mistyped("map of attributes"))?;
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(mistyped("map of attributes"));
    };
    let [_, value_field] = fields.as_ref() else { return Err(mistyped("map of attributes")) };
    let DataType::Struct(value_fields) = value_field.data_type() else {
        return Err(mistyped("map of attributes"));
    };
    let ranges = || {
        places.iter().map(|&(batch, row)| {
            let offsets = sources[batch].offsets;
            (&sources[batch], offsets[row] as usize, offsets[row + 1] as usize)
        })
    };
    let count: usize = ranges().map(|(_, first, end)| end - first).sum();
    let texts = || {
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0);
        TextRanges { offsets, bytes: Vec::new() }
    };
    let (mut keys, mut values) = (texts(), texts());
    let mut types: Vec<u8> = Vec::with_capacity(count);
    let mut ends: Vec<i32> = Vec::with_capacity(places.len() + 1);
    ends.push(0);
    for (from, first, end) in ranges() {
        if first < end {
            keys.append(from.keys, first, end)?;
            values.append(from.values, first, end)?;
            types.extend_from_slice(&from.types.values()[first..end]);
        }
        ends.push(types.len() as i32);
    }
    let values: Vec<ArrayRef> = vec![Arc::new(UInt8Array::from(types)), Arc::new(values.finish()?)];
    let values = StructArray::try_new(value_fields.clone(), values, None)?;
    let pairs: Vec<ArrayRef> = vec![Arc::new(keys.finish()?), Arc::new(values)];
    let pairs = StructArray::try_new(fields.clone(), pairs, None)?;
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), ends, pairs, None, false)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::RecordBatch;
    use proptest::prelude::*;
    use spanwise_model::schema::span_schema;
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

    fn gathered(batches: &[RecordBatch], places: &[Place]) -> Vec<Span> {
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
                // Arrays that begin in the midst of their buffers.
                let first = skip.min(spans.len());
                batches.push(batch.slice(first, spans.len() - first));
                let rows = spans.into_iter().skip(first).enumerate();
                all.extend(rows.map(|(row, span)| ((number, row), span)));
            }
            prop_assume!(!all.is_empty());
            let picked: Vec<_> = picks.iter().map(|pick| pick.get(&all).clone()).collect();
            let places: Vec<Place> = picked.iter().map(|(place, _)| *place).collect();
            let spans: Vec<Span> = picked.into_iter().map(|(_, span)| span).collect();
            prop_assert_eq!(gathered(&batches, &places), spans);
        }
    }
}
