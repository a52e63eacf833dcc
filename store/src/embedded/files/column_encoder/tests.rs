//! The Parquet library reads back what the encoder writes.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float32Array, Int32Array,
    Int64Array, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;
use proptest::prelude::*;

use super::PAGE_BYTES;
use crate::embedded::files::index::BLOCK_ROWS;
use crate::embedded::files::parquet_writer::ParquetWriter;

const DICTIONARY_BYTES: usize = 2_000;

/// Writes a file with one row group and reads it.
fn through_a_file(
    columns: Vec<(Field, ArrayRef)>,
    encodings: &[(&str, Encoding)],
    plain: &[&str],
) -> (RecordBatch, Arc<ParquetMetaData>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file.parquet");
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("a level")))
        .set_max_row_group_row_count(None)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::None);
    let path_of = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    for (name, encoding) in encodings {
        properties = properties.set_column_encoding(path_of(name), *encoding);
    }
    for name in plain {
        properties = properties.set_column_dictionary_enabled(path_of(name), false);
    }
    let properties = properties
        .set_column_statistics_enabled(path_of("bounded"), EnabledStatistics::Page)
        .set_column_compression(path_of("unpacked"), Compression::UNCOMPRESSED)
        .build();
    let mut writer = ParquetWriter::create(&path, &schema, properties).expect("a writer");
    writer.add(Vec::new(), |place, _| Ok(Arc::clone(&arrays[place]))).expect("written");
    writer.writer.into_inner().expect("closed");
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let file = File::open(&path).expect("a file");
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options);
    let reader = reader.expect("a file").with_batch_size(1_000);
    let metadata = Arc::clone(reader.metadata());
    assert_eq!(reader.schema().fields(), schema.fields());
    let batches: Vec<RecordBatch> =
        reader.build().expect("a reader").map(|batch| batch.expect("rows")).collect();
    (concat_batches(&schema, &batches).expect("one batch"), metadata)
}

/// Columns of all types with this many rows. Their contents depend on `seed`.
fn columns(rows: usize, seed: u64, nulls: u64, distinct: u64) -> Vec<(Field, ArrayRef)> {
    let random = move |row: usize, column: u64| {
        let mut state = (row as u64) << 8 ^ column ^ seed << 40;
        for _ in 0..2 {
            state = (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        state ^ state >> 32
    };
    // Neighbours are mostly equal, so that there are runs.
    let is_null = move |row: usize, column: u64| {
        (random(row, column) ^ random(row / 100, column)) % 100 < nulls
    };
    let number = move |row: usize, column: u64| match distinct {
        0 => random(row, column).cast_signed(),
        some => (random(row / (1 + row / 500 % 40), column) % some).cast_signed(),
    };
    let at = move |row: usize, column: u64| (!is_null(row, column)).then(|| number(row, column));
    let all = 0..rows;
    let text = |row: usize, column: u64| at(row, column).map(|number| format!("text {number:x}"));
    let id = |row: usize, column: u64| at(row, column).map(i64::to_be_bytes);
    let texts: StringArray = all.clone().map(|row| text(row, 1)).collect();
    let bytes: BinaryArray =
        all.clone().map(|row| Some(at(row, 17)?.to_le_bytes()[..row % 8].to_vec())).collect();
    let words: ArrayRef = Arc::new(all.clone().map(|row| text(row, 2)).collect::<StringArray>());
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let ids =
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(all.clone().map(|row| id(row, 3)), 8);
    let of_all = all.clone().map(|row| number(row, 4).to_be_bytes());
    let of_all: ArrayRef = match rows {
        0 => arrow::array::new_empty_array(&DataType::FixedSizeBinary(8)),
        _ => Arc::new(FixedSizeBinaryArray::try_from_iter(of_all).expect("ids")),
    };
    let optional =
        |name: &str, array: ArrayRef| (Field::new(name, array.data_type().clone(), true), array);
    let required =
        |name: &str, array: ArrayRef| (Field::new(name, array.data_type().clone(), false), array);
    let of = |column: u64| all.clone().map(move |row| at(row, column));
    vec![
        required("unpacked", of_all),
        optional("ids", Arc::new(ids.expect("ids"))),
        optional("texts", Arc::new(texts.clone())),
        optional("plain texts", Arc::new(texts)),
        optional("bytes", Arc::new(bytes.clone())),
        optional("plain bytes", Arc::new(bytes)),
        optional("words", cast(&words, &dictionary).expect("words")),
        required(
            "bounded",
            Arc::new(all.clone().map(|row| number(row, 5)).collect::<Int64Array>()),
        ),
        required("split", Arc::new(all.clone().map(|row| number(row, 6)).collect::<Int64Array>())),
        optional("delta", Arc::new(of(7).collect::<Int64Array>())),
        optional("delta after words", Arc::new(of(8).collect::<Int64Array>())),
        optional("short delta", Arc::new(of(9).map(|n| Some(n? as i32)).collect::<Int32Array>())),
        optional("i32", Arc::new(of(10).map(|n| Some(n? as i32)).collect::<Int32Array>())),
        optional("u8", Arc::new(of(11).map(|n| Some(n? as u8)).collect::<UInt8Array>())),
        optional("u16", Arc::new(of(12).map(|n| Some(n? as u16)).collect::<UInt16Array>())),
        optional("u32", Arc::new(of(13).map(|n| Some(n? as u32)).collect::<UInt32Array>())),
        optional("u64", Arc::new(of(14).map(|n| Some(n? as u64)).collect::<UInt64Array>())),
        optional("f32", Arc::new(of(15).map(|n| Some(n? as f32)).collect::<Float32Array>())),
        optional("flags", Arc::new(of(16).map(|n| Some(n? & 1 == 1)).collect::<BooleanArray>())),
    ]
}

const ENCODINGS: [(&str, Encoding); 4] = [
    ("split", Encoding::BYTE_STREAM_SPLIT),
    ("delta", Encoding::DELTA_BINARY_PACKED),
    ("delta after words", Encoding::DELTA_BINARY_PACKED),
    ("short delta", Encoding::DELTA_BINARY_PACKED),
];
const PLAIN: [&str; 6] =
    ["unpacked", "plain texts", "plain bytes", "split", "delta", "short delta"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_is_written_is_read(
        rows in prop_oneof![0usize..40, 0..3 * BLOCK_ROWS],
        seed in any::<u64>(),
        nulls in prop_oneof![Just(0u64), Just(3), Just(50), Just(98), Just(100)],
        distinct in prop_oneof![Just(0u64), Just(1), Just(2), Just(5), Just(60), Just(700)],
    ) {
        let columns = columns(rows, seed, nulls, distinct);
        let (read, metadata) = through_a_file(columns.clone(), &ENCODINGS, &PLAIN);
        prop_assert_eq!(read.num_rows(), rows);
        for ((field, written), read) in columns.iter().zip(read.columns()) {
            let (written, read) = match written.data_type() {
                // The order of dictionary values may differ.
                DataType::Dictionary(..) => {
                    let texts = |array| cast(array, &DataType::Utf8).expect("texts");
                    (texts(written), texts(read))
                }
                _ => (Arc::clone(written), Arc::clone(read)),
            };
            prop_assert_eq!(&written, &read, "{}", field.name());
        }
        let offsets = &metadata.offset_index().expect("offsets")[0];
        for column in offsets {
            let firsts: Vec<i64> =
                column.page_locations.iter().map(|page| page.first_row_index).collect();
            let blocks: Vec<i64> = (0..rows as i64).step_by(BLOCK_ROWS).collect();
            prop_assert_eq!(firsts, blocks, "a page a block");
        }
    }
}

fn texts(name: &str, texts: impl Iterator<Item = String>) -> (Field, ArrayRef) {
    let array: StringArray = texts.map(Some).collect();
    (Field::new(name, DataType::Utf8, true), Arc::new(array))
}

#[test]
fn a_dictionary_that_is_full_stays_and_what_comes_after_is_plain() {
    let rows = 4 * BLOCK_ROWS;
    // Two blocks with few distinct words, and two in which each row has its own word.
    let word = |row: usize| match row / BLOCK_ROWS {
        0 | 1 => format!("word {}", row % 50),
        _ => format!("word of row {row}"),
    };
    let column = texts("words", (0..rows).map(word));
    let (read, metadata) = through_a_file(vec![column.clone()], &[], &[]);
    assert_eq!(read.column(0), &column.1);
    let chunk = metadata.row_group(0).column(0);
    let encodings: Vec<Encoding> = chunk.encodings().collect();
    assert!(encodings.contains(&Encoding::RLE_DICTIONARY), "{encodings:?}");
    assert!(encodings.contains(&Encoding::PLAIN), "{encodings:?}");
    let location = &metadata.offset_index().expect("offsets")[0][0].page_locations;
    let dictionary = chunk.dictionary_page_offset().expect("a dictionary");
    let length = location[0].offset - dictionary;
    assert!(length < 400, "{length} bytes: of the words of the first blocks only");
}

#[test]
fn large_texts_make_more_pages() {
    let large = PAGE_BYTES / 4;
    let row = |row: usize| if row < 10 { "x".repeat(large) + &row.to_string() } else { "y".into() };
    let columns = vec![
        texts("large", (0..BLOCK_ROWS + 100).map(row)),
        (
            Field::new("small", DataType::Int64, true),
            Arc::new((0..BLOCK_ROWS as i64 + 100).collect::<Int64Array>()) as ArrayRef,
        ),
    ];
    let (read, metadata) = through_a_file(columns.clone(), &[], &["large"]);
    assert_eq!(read.column(0), &columns[0].1);
    assert_eq!(read.column(1), &columns[1].1);
    let pages = &metadata.offset_index().expect("offsets")[0][0].page_locations;
    let firsts: Vec<i64> = pages.iter().map(|page| page.first_row_index).collect();
    assert_eq!(firsts, [0, 4, 8, BLOCK_ROWS as i64]);
}

#[test]
fn bounds_are_told_of_pages_and_of_all() {
    let rows = 2 * BLOCK_ROWS as i64;
    let bounded: Int64Array = (0..rows).map(|row| row * 3 - 5).collect();
    let columns = vec![(Field::new("bounded", DataType::Int64, false), Arc::new(bounded) as _)];
    let (_, metadata) = through_a_file(columns, &[], &[]);
    let Some(Statistics::Int64(all)) = metadata.row_group(0).column(0).statistics() else {
        panic!("no statistics");
    };
    assert_eq!((all.min_opt(), all.max_opt()), (Some(&-5), Some(&(rows * 3 - 8))));
    let index = &metadata.column_index().expect("an index")[0][0];
    let parquet::file::page_index::column_index::ColumnIndexMetaData::INT64(index) = index else {
        panic!("no index");
    };
    let least: Vec<i64> = index.min_values_iter().flatten().copied().collect();
    assert_eq!(least, [-5, BLOCK_ROWS as i64 * 3 - 5]);
}
