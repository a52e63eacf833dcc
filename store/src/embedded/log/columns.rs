//! The encoding of a batch in a log record.
//!
//! It is written once and read at most once, by this program only. So columns are stored as they
//! are in memory, without the metadata of Arrow's own format, which took four times as long as the
//! columns. Only what compresses badly is written shorter: lengths instead of offsets, and indexes
//! instead of attribute keys.
//!
//! ```text
//! batch:  rows | column...                       numbers are LEB128 unless stated otherwise
//! column: length of its name u8 | name | array   columns without any value are omitted
//! array:  has nulls u8 | bitmap of the rows that have a value | values
//! values: numbers and ids   as in memory
//!         texts             length... | bytes
//!         dictionary        count | array of the texts | indexes, each of the fewest bytes for all
//!         lists             length... | array of the items
//!         maps              length... | keys as a dictionary | array of the values
//!         structs           array...
//! ```

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, DictionaryArray, FixedSizeBinaryArray, ListArray,
    MapArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray, StructArray,
    downcast_primitive, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, Int32Type};
use arrow::error::ArrowError;
use spanwise_model::key_slot;
use spanwise_model::schema::span_schema;

/// Appends a batch of the span schema.
pub(crate) fn write(rows: &RecordBatch, bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
    put_number(bytes, rows.num_rows());
    for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        if array.null_count() == array.len() {
            continue;
        }
        let name = field.name().as_bytes();
        bytes.push(u8::try_from(name.len()).map_err(|_| unknown(array.data_type()))?);
        bytes.extend_from_slice(name);
        write_array(array, bytes)?;
    }
    Ok(())
}

fn unknown(data_type: &DataType) -> ArrowError {
    ArrowError::NotYetImplemented(format!("{data_type} is in no span"))
}

pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Lengths that are checked together. Nearly all fit into one byte.
const LENGTHS_AT_ONCE: usize = 64;

fn put_lengths(bytes: &mut Vec<u8>, offsets: &[i32]) {
    let mut rest = offsets;
    while let [_, _, ..] = rest {
        let some = &rest[..rest.len().min(LENGTHS_AT_ONCE + 1)];
        // Offsets of an array are ascending.
        let lengths = some.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        if lengths.clone().fold(0, |all, length| all | length) < 0x80 {
            bytes.extend(lengths.map(|length| length as u8));
        } else {
            lengths.for_each(|length| put_number(bytes, length));
        }
        rest = &rest[some.len() - 1..];
    }
}

fn put_nulls(bytes: &mut Vec<u8>, nulls: Option<&NullBuffer>) {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    bytes.push(u8::from(nulls.is_some()));
    if let Some(nulls) = nulls {
        bytes.extend_from_slice(&nulls.inner().sliced());
    }
}

pub(crate) fn put_texts(bytes: &mut Vec<u8>, texts: &StringArray) {
    let offsets = texts.value_offsets();
    put_lengths(bytes, offsets);
    if let [first, .., last] = offsets {
        bytes.extend_from_slice(&texts.value_data()[*first as usize..*last as usize]);
    }
}

pub(crate) fn put_places(bytes: &mut Vec<u8>, places: impl Iterator<Item = i32>, count: usize) {
    match count {
        0..=0x100 => places.for_each(|place| bytes.push(place as u8)),
        0x101..=0x1_0000 => {
            places.for_each(|place| bytes.extend_from_slice(&(place as u16).to_le_bytes()));
        }
        _ => places.for_each(|place| bytes.extend_from_slice(&place.to_le_bytes())),
    }
}

fn write_array(array: &dyn Array, bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
    put_nulls(bytes, array.nulls());
    macro_rules! numbers {
        ($type:ty) => {
            bytes.extend_from_slice(array.as_primitive::<$type>().values().inner())
        };
    }
    downcast_primitive! {
        array.data_type() => (numbers),
        DataType::FixedSizeBinary(_) => {
            bytes.extend_from_slice(array.as_fixed_size_binary().value_data());
        }
        DataType::Utf8 => put_texts(bytes, array.as_string()),
        DataType::Dictionary(_, _) => {
            let array = array.as_dictionary_opt::<Int32Type>();
            let array = array.ok_or_else(|| unknown(&DataType::Utf8))?;
            let values = array.values();
            let texts = values.as_string_opt().ok_or_else(|| unknown(values.data_type()))?;
            put_number(bytes, texts.len());
            put_nulls(bytes, texts.nulls());
            put_texts(bytes, texts);
            // The index of a null may be anything.
            let most = texts.len().saturating_sub(1) as i32;
            let places = array.keys().values().iter().map(|place| (*place).clamp(0, most));
            put_places(bytes, places, texts.len());
        }
        DataType::List(_) => {
            let list: &ListArray = array.as_list();
            put_lengths(bytes, list.value_offsets());
            write_array(&items(list.values(), list.value_offsets()), bytes)?;
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            put_lengths(bytes, map.value_offsets());
            let keys = items(map.keys(), map.value_offsets());
            let keys = keys.as_string_opt().ok_or_else(|| unknown(keys.data_type()))?;
            put_keys(bytes, keys);
            write_array(&items(map.values(), map.value_offsets()), bytes)?;
        }
        DataType::Struct(_) => {
            for column in array.as_struct().columns() {
                write_array(column, bytes)?;
            }
        }
        other => return Err(unknown(other)),
    }
    Ok(())
}

/// The items that the lists refer to. The array may contain more at both ends.
fn items(items: &ArrayRef, offsets: &[i32]) -> ArrayRef {
    // Without lists there is one offset, which may be any number.
    let end = |offset: Option<&i32>| offset.map_or(0, |offset| *offset as usize);
    let (first, last) = (end(offsets.first()), end(offsets.last()));
    if first == 0 && last == items.len() {
        return Arc::clone(items);
    }
    items.slice(first, last - first)
}

/// More than the number of distinct keys in a batch. Each key is looked up in one slot only. After
/// a collision, a key is listed again.
const KEY_SLOTS: usize = 256;

/// Writes texts with few distinct values as a dictionary.
fn put_keys(bytes: &mut Vec<u8>, keys: &StringArray) {
    let (data, offsets) = (keys.value_data(), keys.value_offsets());
    let mut slots: [(&[u8], i32); KEY_SLOTS] = [(&[], -1); KEY_SLOTS];
    let mut listed: Vec<&[u8]> = Vec::new();
    let mut places: Vec<i32> = Vec::with_capacity(keys.len());
    for pair in offsets.windows(2) {
        let key = &data[pair[0] as usize..pair[1] as usize];
        let slot = &mut slots[key_slot::<KEY_SLOTS>(key)];
        if slot.1 < 0 || slot.0 != key {
            // Arrow's offsets have 32 bits.
            *slot = (key, listed.len() as i32);
            listed.push(key);
        }
        places.push(slot.1);
    }
    put_number(bytes, listed.len());
    put_nulls(bytes, None);
    listed.iter().for_each(|key| put_number(bytes, key.len()));
    listed.iter().for_each(|key| bytes.extend_from_slice(key));
    put_places(bytes, places.into_iter(), listed.len());
}

/// The decoded batch, with all columns of the span schema.
pub(crate) fn read(bytes: &[u8]) -> Result<RecordBatch, ArrowError> {
    let schema = span_schema();
    let mut reader = Reader { rest: bytes };
    let rows = reader.number()?;
    let mut columns: Vec<Option<ArrayRef>> = vec![None; schema.fields().len()];
    while !reader.rest.is_empty() {
        let length = usize::from(reader.byte()?);
        let name = reader.take(length)?;
        let known = schema.fields().iter().position(|field| field.name().as_bytes() == name);
        let at = known.ok_or_else(malformed)?;
        columns[at] = Some(reader.array(schema.field(at).data_type(), rows)?);
    }
    let fields = || schema.fields().iter();
    // A column with bytes for every row must confirm the number of rows.
    if rows > 0 && fields().zip(&columns).any(|(field, c)| c.is_none() && !field.is_nullable()) {
        return Err(malformed());
    }
    let column = |(field, column): (&FieldRef, Option<ArrayRef>)| {
        column.unwrap_or_else(|| new_null_array(field.data_type(), rows))
    };
    let columns = fields().zip(columns).map(column).collect();
    let count = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &count)
}

pub(crate) fn malformed() -> ArrowError {
    ArrowError::ParseError("these are not the bytes of a batch".to_owned())
}

/// Reads encoded data sequentially.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The remaining bytes.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ArrowError> {
        let (number, rest) = self.rest.split_first_chunk().ok_or_else(malformed)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, ArrowError> {
        let length = self.number()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| malformed())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ArrowError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads `count` values of `width` bytes each.
    fn values(&mut self, count: usize, width: usize) -> Result<Buffer, ArrowError> {
        let length = count.checked_mul(width).ok_or_else(malformed)?;
        Ok(Buffer::from_slice_ref(self.take(length)?))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, ArrowError> {
        let (byte, rest) = self.rest.split_first().ok_or_else(malformed)?;
        self.rest = rest;
        Ok(*byte)
    }

    pub(crate) fn number(&mut self) -> Result<usize, ArrowError> {
        let mut number = 0;
        // No count has more than 32 bits.
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(malformed())
    }

    fn offsets(&mut self, count: usize) -> Result<OffsetBuffer<i32>, ArrowError> {
        // Each length takes at least one byte.
        if count > self.rest.len() {
            return Err(malformed());
        }
        let (mut offsets, mut end) = (Vec::with_capacity(count + 1), 0_i32);
        offsets.push(end);
        for _ in 0..count {
            let length = i32::try_from(self.number()?).map_err(|_| malformed())?;
            end = end.checked_add(length).ok_or_else(malformed)?;
            offsets.push(end);
        }
        Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
    }

    fn nulls(&mut self, count: usize) -> Result<Option<NullBuffer>, ArrowError> {
        Ok(match self.byte()? {
            0 => None,
            _ => {
                let bits = self.values(count.div_ceil(8), 1)?;
                Some(NullBuffer::new(BooleanBuffer::new(bits, 0, count)))
            }
        })
    }

    pub(crate) fn texts(
        &mut self,
        count: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<StringArray, ArrowError> {
        let offsets = self.offsets(count)?;
        let bytes = self.values(last(&offsets), 1)?;
        StringArray::try_new(offsets, bytes, nulls)
    }

    /// Reads texts, and indexes into them.
    fn dictionary(
        &mut self,
        count: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<DictionaryArray<Int32Type>, ArrowError> {
        let listed = self.number()?;
        let listed_nulls = self.nulls(listed)?;
        let texts = self.texts(listed, listed_nulls)?;
        let places = self.places(count, listed)?;
        let places = PrimitiveArray::try_new(places.into(), nulls)?;
        DictionaryArray::try_new(places, Arc::new(texts))
    }

    /// Reads indexes into a list.
    pub(crate) fn places(&mut self, count: usize, listed: usize) -> Result<Vec<i32>, ArrowError> {
        Ok(match listed {
            0..=0x100 => self.take(count)?.iter().map(|place| i32::from(*place)).collect(),
            0x101..=0x1_0000 => {
                let bytes = self.values(count, 2)?;
                bytes.as_chunks().0.iter().map(|place| u16::from_le_bytes(*place).into()).collect()
            }
            _ => {
                let bytes = self.values(count, 4)?;
                bytes.as_chunks().0.iter().map(|place| i32::from_le_bytes(*place)).collect()
            }
        })
    }

    fn array(&mut self, data_type: &DataType, count: usize) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls(count)?;
        macro_rules! numbers {
            ($type:ty) => {{
                let width = size_of::<<$type as ArrowPrimitiveType>::Native>();
                let values = ScalarBuffer::from(self.values(count, width)?);
                Arc::new(PrimitiveArray::<$type>::try_new(values, nulls)?)
            }};
        }
        Ok(downcast_primitive! {
            data_type => (numbers),
            DataType::FixedSizeBinary(width) => {
                let values = self.values(count, usize::try_from(*width).map_err(|_| malformed())?)?;
                Arc::new(FixedSizeBinaryArray::try_new(*width, values, nulls)?)
            }
            DataType::Utf8 => Arc::new(self.texts(count, nulls)?),
            DataType::Dictionary(_, _) => Arc::new(self.dictionary(count, nulls)?),
            DataType::List(item) => {
                let offsets = self.offsets(count)?;
                let items = self.array(item.data_type(), last(&offsets))?;
                Arc::new(ListArray::try_new(Arc::clone(item), offsets, items, nulls)?)
            }
            DataType::Map(entry, sorted) => {
                let DataType::Struct(fields) = entry.data_type() else { return Err(malformed()) };
                let [_, value] = fields.as_ref() else { return Err(malformed()) };
                let offsets = self.offsets(count)?;
                let entries = last(&offsets);
                let keys = self.dictionary(entries, None)?;
                let keys = arrow::compute::cast(&keys, &DataType::Utf8)?;
                let values = self.array(value.data_type(), entries)?;
                let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
                Arc::new(MapArray::try_new(Arc::clone(entry), offsets, entries, nulls, *sorted)?)
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().map(|field| self.array(field.data_type(), count));
                let columns = columns.collect::<Result<_, _>>()?;
                Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?)
            }
            other => return Err(unknown(other)),
        })
    }
}

fn last(offsets: &OffsetBuffer<i32>) -> usize {
    // Offsets start at 0 and are ascending.
    offsets.last().map_or(0, |end| *end as usize)
}

#[cfg(test)]
mod tests;
