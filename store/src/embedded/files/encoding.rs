//! The encoding of each column, chosen by its contents.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use spanwise_model::schema::column;

use super::index::BLOCK_ROWS;
use super::layout::{Layout, Own, OwnType, file_column};

/// Most columns hold either similar or random values. Higher levels take longer and hardly compress
/// better.
const ZSTD_LEVEL: i32 = 1;
/// For texts that may be long, such as stack traces.
const TEXTS_ZSTD_LEVEL: i32 = 3;
/// To read one value, the whole dictionary must be read, so it is small. Columns with more distinct
/// values continue without one.
const DICTIONARY_BYTES: usize = 64 << 10;

fn zstd(level: i32) -> Compression {
    Compression::ZSTD(ZstdLevel::try_new(level).unwrap_or_default())
}

/// The properties of a file of shapes. It is always read completely.
pub(crate) fn of_shapes() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(zstd(ZSTD_LEVEL))
        .set_max_row_group_row_count(None)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_created_by("spanwise".to_owned())
        .set_column_dictionary_enabled(path(file_column::SHAPE), false)
        .set_column_encoding(path(file_column::SHAPE), Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled(path(file_column::LONGEST_IN_BLOCKS), false)
        .build()
}

fn path(name: &str) -> ColumnPath {
    ColumnPath::new(vec![name.to_owned()])
}

/// The properties of a file of spans. `distinct` are attributes with mostly distinct values.
pub(crate) fn of_spans(layout: &Layout, distinct: &[Own]) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_compression(zstd(ZSTD_LEVEL))
        .set_max_row_group_row_count(None)
        // One look-up reads a page of each column.
        .set_data_page_row_count_limit(BLOCK_ROWS)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_created_by("spanwise".to_owned());
    // Our index has its own bounds for each block. These are for other readers.
    for name in [column::START_UNIX_NANO, column::DURATION_NANO] {
        builder = builder.set_column_statistics_enabled(path(name), EnabledStatistics::Page);
    }
    // The high bytes are nearly all equal, the low ones random.
    for name in [column::DURATION_NANO, file_column::SHAPE] {
        builder = builder
            .set_column_dictionary_enabled(path(name), false)
            .set_column_encoding(path(name), Encoding::BYTE_STREAM_SPLIT);
    }
    // The parents' offsets of siblings differ little.
    for name in [file_column::PARENT_ROW_OFFSET, file_column::ASSEMBLED_PARENT_ROW_OFFSET] {
        builder = builder
            .set_column_dictionary_enabled(path(name), false)
            .set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    // Random.
    builder = builder.set_column_compression(path(column::SPAN_ID), Compression::UNCOMPRESSED);
    // Nearly all values are distinct or equal to their neighbours, so a dictionary would be larger
    // than the values. Starts share their high bytes with others of the page, which zstd uses
    // better than delta encoding does.
    for name in [
        column::START_UNIX_NANO,
        column::TRACE_ID,
        column::ASSEMBLED_TRACE_ID,
        column::SPAN_ID,
        column::PARENT_SPAN_ID,
        column::ASSEMBLED_PARENT,
        column::FRAGMENT_ID,
        column::REQUEST_TCP_SEQ,
        column::RESPONSE_TCP_SEQ,
        column::X_REQUEST_ID,
        column::LOGICAL_KEY,
    ] {
        builder = builder.set_column_dictionary_enabled(path(name), false);
    }
    let common = layout.schema.fields().len() - layout.own.len();
    for (own, field) in layout.own.iter().zip(layout.schema.fields().iter().skip(common)) {
        if distinct.contains(own) {
            builder = builder.set_column_dictionary_enabled(path(field.name()), false);
        }
        if own.own_type == OwnType::Int {
            // For values that do not fit into the dictionary.
            builder =
                builder.set_column_encoding(path(field.name()), Encoding::DELTA_BINARY_PACKED);
        }
    }
    let attributes = ["attributes", "key_value", "value", "value"];
    let of_rows = ColumnPath::new(attributes.map(str::to_owned).to_vec());
    let of_events = [column::EVENTS, "list", "item"].into_iter().chain(attributes);
    let of_events = ColumnPath::new(of_events.map(str::to_owned).collect());
    for texts in [of_rows.clone(), of_events] {
        builder = builder.set_column_compression(texts, zstd(TEXTS_ZSTD_LEVEL));
    }
    builder.set_column_dictionary_enabled(of_rows, false).build()
}
