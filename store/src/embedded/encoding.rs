//! How each column is encoded, by what it holds.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use spanwise_model::schema::column;

use super::index::BLOCK_ROWS;

const ZSTD_LEVEL: i32 = 3;

/// The properties of all files.
pub(super) fn properties() -> WriterProperties {
    let path = |name: &str| ColumnPath::from(name);
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).unwrap_or_default()))
        .set_max_row_group_row_count(None)
        // One look-up reads a page of each column.
        .set_data_page_row_count_limit(BLOCK_ROWS)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_created_by("spanwise".to_owned());
    // Blocks have their own least and greatest; these are for other readers.
    for name in [column::START_UNIX_NANO, column::DURATION_NANO] {
        builder = builder
            .set_column_statistics_enabled(path(name), EnabledStatistics::Page)
            // Times grow by little within a trace.
            .set_column_dictionary_enabled(path(name), false)
            .set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    // Nearly all are distinct, or equal to their neighbours: a dictionary of
    // them is larger than they are.
    for name in [
        column::TRACE_ID,
        column::ASSEMBLED_TRACE_ID,
        column::SPAN_ID,
        column::PARENT_SPAN_ID,
        column::ASSEMBLED_PARENT,
        column::FRAGMENT_ID,
        column::REQUEST_TCP_SEQ,
        column::RESPONSE_TCP_SEQ,
        column::X_REQUEST_ID,
    ] {
        builder = builder.set_column_dictionary_enabled(path(name), false);
    }
    let values = ["attributes", "key_value", "value", "value"].map(str::to_owned).to_vec();
    builder.set_column_dictionary_enabled(ColumnPath::new(values), false).build()
}
