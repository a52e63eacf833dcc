//! Encodes one column of a row group directly into pages of the Parquet format.
//!
//! The Parquet library writes columns of any schema, through Arrow arrays and levels of all rows.
//! Columns without lists and structs, which are nearly all, need neither: values are appended where
//! their page is made, and the data of a page stays in the processor's cache. The library writes
//! the other columns and assembles the file.

mod delta;
mod dictionary;
mod hybrid;
mod pages;
#[cfg(test)]
mod tests;

use std::io::Write;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, StringArray};
use arrow::datatypes::{
    DataType, Field, Float32Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow::error::ArrowError;
use bytes::Bytes;
use parquet::basic::{Encoding, EncodingMask, Type};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, PageEncodingStats};
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;

use dictionary::Dictionary;
use pages::Pages;

use super::index::BLOCK_ROWS;
use crate::embedded::keys::{fold, hash_bytes, hash_value};

/// A page is closed before a row when its values have this many bytes.
const PAGE_BYTES: usize = 1 << 20;
/// Hash multiplier for numbers: odd, with many bits set.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The values of a page.
enum Values {
    Numbers(Vec<i64>),
    Texts {
        /// Each value follows its length.
        bytes: Vec<u8>,
        ends: Vec<usize>,
        hashes: Vec<u64>,
    },
    Fixed(Vec<u8>),
    Flags(Vec<bool>),
}

/// Minimum and maximum values, for other readers.
struct Bounds {
    index: ColumnIndexBuilder,
    all: Option<(i64, i64)>,
    nulls: u64,
}

/// An encoder for one column. See the module's description.
pub(crate) struct ColumnEncoder {
    column: ColumnDescPtr,
    /// The encoding of values outside the dictionary.
    encoding: Encoding,
    /// Bytes of a number.
    width: usize,
    is_nullable: bool,
    dictionary: Option<Dictionary>,
    /// Whether values may still be added to the dictionary.
    is_open: bool,
    dictionary_bytes: usize,
    /// Number of the block's rows that are in finished pages.
    first: usize,
    /// The row after the last value, relative to the page's first row.
    end: usize,
    /// One bit for each row of the page: whether it has a value.
    present: Vec<u8>,
    count: usize,
    values: Values,
    bounds: Option<Bounds>,
    /// Whether the file contains the offsets of pages.
    has_offsets: bool,
    /// Scratch space for the current page.
    page: Vec<u8>,
    numbers: Vec<u32>,
    pages: Pages,
}

/// An encoded column.
pub(crate) struct EncodedColumn {
    bytes: Bytes,
    close: ColumnCloseResult,
}

impl ColumnEncoder {
    /// Whether this encoder handles columns of the field's type.
    pub(crate) fn is_for(field: &Field) -> bool {
        use DataType::{
            Binary, Boolean, Dictionary, FixedSizeBinary, Float32, Int32, Int64, UInt8, UInt16,
            UInt32, UInt64, Utf8,
        };
        match field.data_type() {
            Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32 | Boolean | Utf8
            | Binary | FixedSizeBinary(_) => true,
            Dictionary(key, value) => **key == Int32 && **value == Utf8,
            _ => false,
        }
    }

    /// An empty column with these properties. Ids and booleans have no dictionary, and only 64-bit
    /// numbers have bounds.
    pub(crate) fn new(column: ColumnDescPtr, properties: &WriterProperties) -> Self {
        let path = column.path();
        let (width, values) = match column.physical_type() {
            Type::INT64 => (8, Values::Numbers(Vec::new())),
            Type::INT32 | Type::FLOAT => (4, Values::Numbers(Vec::new())),
            Type::BOOLEAN => (0, Values::Flags(Vec::new())),
            Type::FIXED_LEN_BYTE_ARRAY => (0, Values::Fixed(Vec::new())),
            _ => {
                let (bytes, ends, hashes) = (Vec::new(), Vec::new(), Vec::new());
                (0, Values::Texts { bytes, ends, hashes })
            }
        };
        let may_have = matches!(values, Values::Numbers(_) | Values::Texts { .. });
        let is_open = may_have && properties.dictionary_enabled(path);
        let has_bounds = properties.statistics_enabled(path) != EnabledStatistics::None
            && column.physical_type() == Type::INT64;
        Self {
            encoding: properties.encoding(path).unwrap_or(Encoding::PLAIN),
            width,
            is_nullable: column.max_def_level() > 0,
            dictionary: is_open.then(Dictionary::default),
            is_open,
            dictionary_bytes: properties.column_dictionary_page_size_limit(path),
            first: 0,
            end: 0,
            present: Vec::new(),
            count: 0,
            values,
            bounds: has_bounds.then(|| Bounds {
                index: ColumnIndexBuilder::new(Type::INT64),
                all: None,
                nulls: 0,
            }),
            has_offsets: !properties.offset_index_disabled(),
            page: Vec::new(),
            numbers: Vec::new(),
            pages: Pages::new(properties.compression(path)),
            column,
        }
    }

    /// Whether this row of the block or a later one has a value.
    pub(crate) const fn has(&self, row: usize) -> bool {
        row < self.first + self.end
    }

    /// Marks a row of the block as having a value. The caller appends the value next.
    #[inline]
    fn mark(&mut self, row: usize) -> Result<(), ParquetError> {
        if let Values::Texts { bytes, .. } = &self.values
            && bytes.len() >= PAGE_BYTES
        {
            self.end_page(row)?;
        }
        let row = row - self.first;
        self.end = row + 1;
        self.count += 1;
        if self.is_nullable {
            let byte = row / 8;
            if self.present.len() <= byte {
                self.more_present(byte);
            }
            self.present[byte] |= 1 << (row % 8);
        }
        Ok(())
    }

    #[cold]
    fn more_present(&mut self, byte: usize) {
        self.present.resize((byte + 1).next_multiple_of(BLOCK_ROWS / 8), 0);
    }

    /// Marks all rows of an empty block as having a value. Not for texts.
    const fn mark_all(&mut self, rows: usize) {
        (self.end, self.count) = (rows, rows);
    }

    /// Adds a row's text and its hash. Rows must be added in order, and all hashes must use the
    /// same function.
    pub(crate) fn put_text(
        &mut self,
        row: usize,
        text: &str,
        hash: u64,
    ) -> Result<(), ParquetError> {
        self.put_bytes(row, text.as_bytes(), hash)
    }

    /// Adds a row's bytes.
    pub(crate) fn put_bytes(
        &mut self,
        row: usize,
        value: &[u8],
        hash: u64,
    ) -> Result<(), ParquetError> {
        self.mark(row)?;
        let length = u32::try_from(value.len())?.to_le_bytes();
        if let Values::Texts { bytes, ends, hashes } = &mut self.values {
            bytes.extend_from_slice(&length);
            bytes.extend_from_slice(value);
            if self.is_open {
                ends.push(bytes.len());
                hashes.push(hash);
            }
        }
        Ok(())
    }

    /// Adds a row's value to a column of fixed-size values.
    pub(crate) fn put_fixed(&mut self, row: usize, value: &[u8]) -> Result<(), ParquetError> {
        self.mark(row)?;
        if let Values::Fixed(bytes) = &mut self.values {
            bytes.extend_from_slice(value);
        }
        Ok(())
    }

    /// Adds a row's number.
    pub(crate) fn put_number(&mut self, row: usize, number: i64) -> Result<(), ParquetError> {
        self.mark(row)?;
        if let Values::Numbers(numbers) = &mut self.values {
            numbers.push(number);
        }
        Ok(())
    }

    /// Adds a row's boolean.
    pub(crate) fn put_flag(&mut self, row: usize, flag: bool) -> Result<(), ParquetError> {
        self.mark(row)?;
        if let Values::Flags(flags) = &mut self.values {
            flags.push(flag);
        }
        Ok(())
    }

    /// Adds all rows of an array of the column's type.
    ///
    /// # Errors
    /// If the array has another type, or a value is too large for a file.
    pub(crate) fn put_array(&mut self, array: &ArrayRef) -> Result<(), ArrowError> {
        for first in (0..array.len()).step_by(BLOCK_ROWS) {
            let rows = BLOCK_ROWS.min(array.len() - first);
            self.put_block(&array.slice(first, rows))?;
            self.end_block(rows)?;
        }
        Ok(())
    }

    /// Adds rows without a value.
    ///
    /// # Errors
    /// The errors of [`Self::end_block`].
    pub(crate) fn put_absent(&mut self, rows: usize) -> Result<(), ParquetError> {
        for first in (0..rows).step_by(BLOCK_ROWS) {
            self.end_block(BLOCK_ROWS.min(rows - first))?;
        }
        Ok(())
    }

    fn put_block(&mut self, array: &ArrayRef) -> Result<(), ArrowError> {
        match array.data_type() {
            DataType::Int64 => self.put_primitive::<Int64Type>(array, |number| number),
            DataType::Int32 => self.put_primitive::<Int32Type>(array, i64::from),
            DataType::UInt8 => self.put_primitive::<UInt8Type>(array, i64::from),
            DataType::UInt16 => self.put_primitive::<UInt16Type>(array, i64::from),
            DataType::UInt32 => {
                self.put_primitive::<UInt32Type>(array, |number| number.cast_signed().into())
            }
            DataType::UInt64 => self.put_primitive::<UInt64Type>(array, u64::cast_signed),
            DataType::Float32 => {
                self.put_primitive::<Float32Type>(array, |number| number.to_bits().into())
            }
            DataType::Boolean => {
                let flags = array.as_boolean().iter().enumerate();
                Ok(flags
                    .filter_map(|(row, flag)| Some((row, flag?)))
                    .try_for_each(|(row, flag)| self.put_flag(row, flag))?)
            }
            DataType::Utf8 => {
                let texts = array.as_string::<i32>().iter().enumerate();
                Ok(texts
                    .filter_map(|(row, text)| Some((row, text?)))
                    .try_for_each(|(row, text)| self.put_text(row, text, hash_value(0, text)))?)
            }
            DataType::Dictionary(..) => {
                let texts = array.as_dictionary_opt::<Int32Type>();
                let texts = texts.and_then(|texts| texts.downcast_dict::<StringArray>());
                Ok(texts
                    .ok_or_else(mistyped)?
                    .into_iter()
                    .enumerate()
                    .filter_map(|(row, text)| Some((row, text?)))
                    .try_for_each(|(row, text)| self.put_text(row, text, hash_value(0, text)))?)
            }
            DataType::FixedSizeBinary(_) => {
                let ids = array.as_fixed_size_binary();
                if let (0, Values::Fixed(bytes)) = (ids.null_count(), &mut self.values) {
                    bytes.extend_from_slice(ids.value_data());
                    self.mark_all(ids.len());
                    return Ok(());
                }
                let rows = &mut (0..ids.len()).filter(|row| ids.is_valid(*row));
                Ok(rows.try_for_each(|row| self.put_fixed(row, ids.value(row)))?)
            }
            DataType::Binary => {
                let values = array.as_binary::<i32>().iter().enumerate();
                Ok(values.filter_map(|(row, value)| Some((row, value?))).try_for_each(
                    |(row, value)| self.put_bytes(row, value, hash_bytes(0, value)),
                )?)
            }
            _ => Err(mistyped()),
        }
    }

    fn put_primitive<T: ArrowPrimitiveType>(
        &mut self,
        array: &ArrayRef,
        number: impl Fn(T::Native) -> i64,
    ) -> Result<(), ArrowError> {
        let array = array.as_primitive_opt::<T>().ok_or_else(mistyped)?;
        if let (0, Values::Numbers(numbers)) = (array.null_count(), &mut self.values) {
            numbers.extend(array.values().iter().map(|value| number(*value)));
            self.mark_all(array.len());
            return Ok(());
        }
        for (row, value) in array.values().iter().enumerate() {
            if array.is_valid(row) {
                self.put_number(row, number(*value))?;
            }
        }
        Ok(())
    }

    /// Ends a block with this many rows.
    ///
    /// # Errors
    /// If the block is too large for a page, or cannot be compressed.
    pub(crate) fn end_block(&mut self, rows: usize) -> Result<(), ParquetError> {
        self.end_page(rows)?;
        self.first = 0;
        Ok(())
    }

    /// Makes a page of the block's rows before this one that are not in a page yet.
    fn end_page(&mut self, row: usize) -> Result<(), ParquetError> {
        let rows = row - self.first;
        if rows == 0 {
            return Ok(());
        }
        self.page.clear();
        if self.is_nullable {
            self.put_levels(rows);
        }
        self.put_bounds(rows);
        let encoding = self.put_values();
        self.pages.add(rows, encoding, &self.page)?;
        self.first = row;
        (self.end, self.count) = (0, 0);
        self.present.clear();
        match &mut self.values {
            Values::Numbers(numbers) => numbers.clear(),
            Values::Texts { bytes, ends, hashes } => {
                bytes.clear();
                ends.clear();
                hashes.clear();
            }
            Values::Fixed(bytes) => bytes.clear(),
            Values::Flags(flags) => flags.clear(),
        }
        Ok(())
    }

    /// Appends the definition levels, preceded by their length in bytes.
    fn put_levels(&mut self, rows: usize) {
        self.page.extend_from_slice(&[0; 4]);
        if self.count == 0 || self.count == rows {
            hybrid::put_equal_bits(self.count > 0, rows, &mut self.page);
        } else {
            self.present.resize(rows.div_ceil(8), 0);
            hybrid::put_bits(&self.present, rows, &mut self.page);
        }
        // A page has only a few thousand rows.
        let length = (self.page.len() - 4) as u32;
        self.page[..4].copy_from_slice(&length.to_le_bytes());
    }

    fn put_bounds(&mut self, rows: usize) {
        let (Some(bounds), Values::Numbers(numbers)) = (&mut self.bounds, &self.values) else {
            return;
        };
        let nulls = (rows - self.count) as u64;
        bounds.nulls += nulls;
        let least = numbers.iter().copied().min();
        let greatest = numbers.iter().copied().max();
        let bytes = |number: Option<i64>| number.unwrap_or(0).to_le_bytes().to_vec();
        let is_empty = least.is_none();
        bounds.index.append(is_empty, bytes(least), bytes(greatest), nulls.cast_signed());
        if let (Some(least), Some(greatest)) = (least, greatest) {
            let all = bounds.all.get_or_insert((least, greatest));
            *all = (all.0.min(least), all.1.max(greatest));
        }
    }

    /// Appends the values to the page. Returns their encoding.
    fn put_values(&mut self) -> Encoding {
        if self.is_open && self.count > 0 && self.put_numbers_of_words() {
            return Encoding::RLE_DICTIONARY;
        }
        let page = &mut self.page;
        match &self.values {
            Values::Numbers(numbers) => match self.encoding {
                Encoding::DELTA_BINARY_PACKED if !numbers.is_empty() => {
                    delta::put(numbers, self.width, page);
                    return Encoding::DELTA_BINARY_PACKED;
                }
                Encoding::BYTE_STREAM_SPLIT => {
                    for shift in (0..self.width).map(|byte| 8 * byte) {
                        let bytes = room(page, numbers.len());
                        for (byte, number) in bytes.iter_mut().zip(numbers) {
                            *byte = (number >> shift) as u8;
                        }
                    }
                    return Encoding::BYTE_STREAM_SPLIT;
                }
                _ if self.width == 8 => put_plain(numbers, page, |number| number.to_le_bytes()),
                _ => put_plain(numbers, page, |number| (number as i32).to_le_bytes()),
            },
            Values::Texts { bytes, .. } | Values::Fixed(bytes) => page.extend_from_slice(bytes),
            Values::Flags(flags) => {
                let bits = flags.iter().map(|flag| u64::from(*flag));
                hybrid::put_packed(bits, 1, page);
            }
        }
        Encoding::PLAIN
    }

    /// Appends the values as dictionary indexes. If the dictionary is full, it is closed before
    /// this page and the function returns false.
    fn put_numbers_of_words(&mut self) -> bool {
        let Some(dictionary) = &mut self.dictionary else { return false };
        let before = dictionary.len();
        self.numbers.clear();
        match &self.values {
            Values::Numbers(numbers) => self.numbers.extend(numbers.iter().map(|number| {
                let hash = fold(number.cast_unsigned() ^ STEP, STEP);
                dictionary.number(hash, &number.to_le_bytes()[..self.width])
            })),
            Values::Texts { bytes, ends, hashes } => {
                let mut start = 0;
                self.numbers.extend(ends.iter().zip(hashes).map(|(end, hash)| {
                    let word = &bytes[start..*end];
                    start = *end;
                    dictionary.number(*hash, word)
                }));
            }
            Values::Fixed(_) | Values::Flags(_) => return false,
        }
        if dictionary.bytes.len() > self.dictionary_bytes {
            dictionary.truncate(before);
            self.is_open = false;
            return false;
        }
        let width = dictionary.width();
        self.page.push(width as u8);
        hybrid::put_numbers(&self.numbers, width, &mut self.page);
        true
    }

    /// Finishes the column.
    ///
    /// # Errors
    /// If the column is too large for a file.
    pub(crate) fn finish(self) -> Result<EncodedColumn, ParquetError> {
        let Self { column, mut pages, .. } = self;
        let rows = pages.rows;
        let of_data = pages.bytes.len();
        let dictionary = self.dictionary.filter(|dictionary| dictionary.len() > 0);
        if let Some(dictionary) = &dictionary {
            pages.add_dictionary(dictionary.len(), &dictionary.bytes)?;
        }
        // The dictionary page precedes all others.
        let of_dictionary = pages.bytes.len() - of_data;
        pages.bytes.rotate_right(of_dictionary);
        let data_offset = i64::try_from(of_dictionary)?;
        for location in &mut pages.locations {
            location.offset += data_offset;
        }
        let encodings = pages.counts.iter().map(|(_, encoding, _)| encoding);
        let mut encodings = EncodingMask::new_from_encodings(encodings);
        encodings.insert(Encoding::RLE);
        let counts = pages.counts.iter().map(|(page_type, encoding, count)| PageEncodingStats {
            page_type: *page_type,
            encoding: *encoding,
            count: *count,
        });
        let mut metadata = ColumnChunkMetaData::builder(column)
            .set_compression(pages.compression)
            .set_encodings_mask(encodings)
            .set_page_encoding_stats(counts.collect())
            .set_total_compressed_size(i64::try_from(pages.bytes.len())?)
            .set_total_uncompressed_size(i64::try_from(pages.unpacked_bytes)?)
            .set_num_values(i64::try_from(rows)?)
            .set_data_page_offset(data_offset)
            .set_dictionary_page_offset(dictionary.is_some().then_some(0));
        let mut column_index = None;
        if let Some(Bounds { index, all, nulls }) = self.bounds {
            let (least, greatest) = all.unzip();
            metadata = metadata.set_statistics(Statistics::int64(
                least,
                greatest,
                None,
                Some(nulls),
                false,
            ));
            column_index = Some(index.build()?);
        }
        let close = ColumnCloseResult {
            bytes_written: pages.bytes.len() as u64,
            rows_written: rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index,
            offset_index: self.has_offsets.then_some(OffsetIndexMetaData {
                page_locations: pages.locations,
                unencoded_byte_array_data_bytes: None,
            }),
        };
        Ok(EncodedColumn { bytes: pages.bytes.into(), close })
    }
}

impl EncodedColumn {
    /// Writes the column as the next one of a row group.
    pub(crate) fn append_to<W: Write + Send>(
        self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        group.append_column(&self.bytes, self.close)
    }
}

/// Extends the page by this many bytes.
fn room(page: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    let start = page.len();
    page.resize(start + bytes, 0);
    &mut page[start..]
}

/// Appends numbers with a fixed number of bytes.
fn put_plain<const WIDTH: usize>(
    numbers: &[i64],
    page: &mut Vec<u8>,
    bytes_of: impl Fn(i64) -> [u8; WIDTH],
) {
    let bytes = room(page, numbers.len() * WIDTH);
    for (bytes, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
        *bytes = bytes_of(*number);
    }
}

fn mistyped() -> ArrowError {
    ArrowError::SchemaError("a column has another type than its values".to_owned())
}
