//! The tables in ClickHouse's SQL: the span schema's columns and two additional ones.
//!
//! `partition_day` is the row's partition: the UTC day of the row's start, unless the start is
//! implausible. A row from 1970 or 2262 gets the day of its file, so that no sender's clock can
//! create partitions. `insert_id` says which file of which server's spool contained the row.

use arrow::datatypes::{DataType, Field};
use spanwise_model::schema::{column, span_schema};

use super::address::Address;
use super::literal;

/// Column with the id of the insert that brought the row.
pub(super) const INSERT_ID: &str = "insert_id";
/// Column with the row's partition.
pub(super) const DAY: &str = "partition_day";
/// The table for queries.
pub(super) const SPANS: &str = "spans";
/// On a cluster, the table of one server. `spans` is distributed over these.
pub(super) const LOCAL: &str = "spans_local";
/// Table of the schema versions that were applied.
pub(super) const VERSIONS: &str = "spanwise_schema";

/// Counts of each part's rows by service and operation, so that lists of services and operations
/// read only as many rows as they return. ClickHouse uses this projection if a query reads only
/// these columns. It keeps the counts correct when parts are merged, dropped or replicated, and
/// when rows are deleted.
const LISTS: &str = "PROJECTION lists (SELECT service, capture, operation, kind, status, \
                     count(), max(start_unix_nano) \
                     GROUP BY service, capture, operation, kind, status)";
/// A deletion recomputes the counts of the affected parts.
const COUNTS_AFTER_DELETION: &str = "lightweight_mutation_projection_mode = 'rebuild'";

/// Each attribute as one text, for the index over all attributes.
pub(super) const ATTRIBUTE_PAIRS: &str =
    "arrayMap((k, v) -> concat(k, '=', v.2), mapKeys(attributes), mapValues(attributes))";

/// Rows are sorted by the minute of their start first.
pub(super) const MINUTE_NANO: i64 = 60_000_000_000;

/// SQL expression for the minute of a time.
pub(super) fn minute(unix_nano: &str) -> String {
    format!("intDiv({unix_nano}, {MINUTE_NANO})")
}

/// Number of inserts that ClickHouse remembers, to recognise one that is sent twice.
const REMEMBERED_INSERTS: u32 = 10_000;
const REMEMBERED_SECONDS: u32 = 7 * 86_400;

/// The table that holds the rows of one server.
pub(super) const fn stored(address: &Address) -> &'static str {
    if address.cluster.is_some() { LOCAL } else { SPANS }
}

/// ` ON CLUSTER '…'`, or nothing without a cluster.
pub(super) fn on_cluster(address: &Address) -> String {
    let cluster = address.cluster.as_deref();
    cluster.map(|name| format!(" ON CLUSTER {}", literal::text(name))).unwrap_or_default()
}

/// The table of versions. On a cluster, every server has a full copy.
pub(super) fn create_versions(address: &Address) -> String {
    let engine = match address.cluster {
        Some(_) => format!(
            "ReplicatedMergeTree('/clickhouse/tables/{}/{VERSIONS}', '{{shard}}-{{replica}}')",
            address.database
        ),
        None => "MergeTree".to_owned(),
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {VERSIONS}{} (version UInt32, brought_about DateTime('UTC') \
         DEFAULT now()) ENGINE = {engine} ORDER BY version",
        on_cluster(address)
    )
}

/// The tables of spans in the current version.
pub(super) fn create_spans(address: &Address, retain_seconds: Option<u64>) -> Vec<String> {
    let on_cluster = on_cluster(address);
    let columns: Vec<String> = span_schema()
        .fields()
        .iter()
        .map(|field| format!("    {} {}{}", field.name(), kind(field), codec(field)))
        .chain([
            format!("    {DAY} Date CODEC(ZSTD(1))"),
            format!("    {INSERT_ID} UInt64 CODEC(Delta(8), ZSTD(1))"),
        ])
        .chain(indexes())
        .chain([format!("    {LISTS}")])
        .collect();
    let (engine, window) = match address.cluster {
        Some(_) => (
            format!(
                "ReplicatedMergeTree('/clickhouse/tables/{{shard}}/{}/{LOCAL}', '{{replica}}')",
                address.database
            ),
            format!(
                "replicated_deduplication_window = {REMEMBERED_INSERTS}, \
                 replicated_deduplication_window_seconds = {REMEMBERED_SECONDS}"
            ),
        ),
        None => (
            "MergeTree".to_owned(),
            format!("non_replicated_deduplication_window = {REMEMBERED_INSERTS}"),
        ),
    };
    let ttl = ttl(retain_seconds).map(|ttl| format!("TTL {ttl}\n")).unwrap_or_default();
    let mut statements = vec![format!(
        "CREATE TABLE IF NOT EXISTS {}{on_cluster} (\n{}\n)\nENGINE = {engine}\n\
         PARTITION BY {DAY}\n\
         ORDER BY ({minute}, {trace}, {start})\n{ttl}\
         SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, {COUNTS_AFTER_DELETION}, {window}",
        stored(address),
        columns.join(",\n"),
        minute = minute(column::START_UNIX_NANO),
        start = column::START_UNIX_NANO,
        trace = column::ASSEMBLED_TRACE_ID,
    )];
    if let Some(cluster) = &address.cluster {
        // All spans of a trace are on one server.
        statements.push(format!(
            "CREATE TABLE IF NOT EXISTS {SPANS}{on_cluster} AS {LOCAL}\n\
             ENGINE = Distributed({}, {}, {LOCAL}, \
             cityHash64(ifNull(hex({}), hex({}))))",
            literal::text(cluster),
            literal::text(&address.database),
            column::ASSEMBLED_TRACE_ID,
            column::SPAN_ID,
        ));
    }
    statements
}

/// What version 1 lacked. ClickHouse adds the counts of existing parts in the background.
pub(super) fn add_lists(address: &Address) -> [String; 3] {
    let table = format!("ALTER TABLE {}{}", stored(address), on_cluster(address));
    [
        format!("{table} MODIFY SETTING {COUNTS_AFTER_DELETION}"),
        format!("{table} ADD {}", LISTS.replacen("PROJECTION", "PROJECTION IF NOT EXISTS", 1)),
        format!("{table} MATERIALIZE PROJECTION lists"),
    ]
}

/// The TTL expression: a partition expires when the last moment of its day is older than the
/// retention time.
pub(super) fn ttl(retain_seconds: Option<u64>) -> Option<String> {
    let seconds = retain_seconds?.saturating_add(86_400);
    // A DateTime ends in 2106.
    (seconds < 60 * 365 * 86_400)
        .then(|| format!("toDateTime({DAY}, 'UTC') + toIntervalSecond({seconds})"))
}

/// Sets the TTL of an existing table.
pub(super) fn modify_ttl(address: &Address, retain_seconds: Option<u64>) -> String {
    let table = format!("ALTER TABLE {}{}", stored(address), on_cluster(address));
    match ttl(retain_seconds) {
        Some(ttl) => format!("{table} MODIFY TTL {ttl}"),
        None => format!("{table} REMOVE TTL"),
    }
}

fn kind(field: &Field) -> String {
    let plain = plain_kind(field.data_type());
    match (field.data_type(), field.is_nullable()) {
        (DataType::Dictionary(..), true) => format!("LowCardinality(Nullable({plain}))"),
        (DataType::Dictionary(..), false) => format!("LowCardinality({plain})"),
        (_, true) => format!("Nullable({plain})"),
        (_, false) => plain,
    }
}

fn plain_kind(data_type: &DataType) -> String {
    match data_type {
        DataType::FixedSizeBinary(bytes) => format!("FixedString({bytes})"),
        DataType::UInt8 => "UInt8".to_owned(),
        DataType::UInt16 => "UInt16".to_owned(),
        DataType::UInt32 => "UInt32".to_owned(),
        DataType::UInt64 => "UInt64".to_owned(),
        DataType::Int32 => "Int32".to_owned(),
        DataType::Int64 => "Int64".to_owned(),
        DataType::Float32 => "Float32".to_owned(),
        DataType::List(item) => format!("Array({})", kind(item)),
        DataType::Map(entries, _) => match entries.data_type() {
            // There are few distinct attribute keys.
            DataType::Struct(entry) if entry.len() == 2 => {
                format!("Map(LowCardinality({}), {})", kind(&entry[0]), kind(&entry[1]))
            }
            _ => "Map(String, String)".to_owned(),
        },
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{} {}", field.name(), kind(field))).collect();
            format!("Tuple({})", fields.join(", "))
        }
        // All other types of the span schema are texts.
        _ => "String".to_owned(),
    }
}

fn codec(field: &Field) -> &'static str {
    match field.name().as_str() {
        // Nearly random. Compression would cost time and save nothing.
        column::SPAN_ID => " CODEC(NONE)",
        column::START_UNIX_NANO => " CODEC(Delta(8), ZSTD(1))",
        column::DURATION_NANO => " CODEC(T64, ZSTD(1))",
        _ => " CODEC(ZSTD(1))",
    }
}

fn indexes() -> Vec<String> {
    let bloom = |name: &str, expression: &str, wrong: &str| {
        format!("    INDEX {name} {expression} TYPE bloom_filter({wrong}) GRANULARITY 1")
    };
    vec![
        format!("    INDEX start {} TYPE minmax GRANULARITY 1", column::START_UNIX_NANO),
        bloom("assembled_trace", column::ASSEMBLED_TRACE_ID, "0.01"),
        bloom("header_trace", column::TRACE_ID, "0.01"),
        // Distinct in each row, so every bit of the filter counts.
        bloom("span", column::SPAN_ID, "0.025"),
        bloom("fragment", column::FRAGMENT_ID, "0.025"),
        bloom("hop", column::REQUEST_TCP_SEQ, "0.025"),
        bloom("request", column::X_REQUEST_ID, "0.025"),
        bloom("of_service", column::SERVICE, "0.01"),
        bloom("of_operation", column::OPERATION, "0.01"),
        bloom("attribute_pairs", ATTRIBUTE_PAIRS, "0.025"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().expect("an address")
    }

    /// Released versions must not change. A change needs a new version, and a migration of older
    /// tables.
    #[test]
    fn the_second_version_is_what_it_was() {
        let statements = create_spans(&address("clickhouse://h/d"), Some(7 * 86_400));
        assert_eq!(statements.len(), 1);
        insta::assert_snapshot!(statements[0]);
    }

    #[test]
    fn a_cluster_has_replicas_and_one_table_over_all() {
        let address = address("clickhouse://h/d?cluster=c");
        let statements = create_spans(&address, None);
        let [local, all] = statements.as_slice() else { panic!("{statements:?}") };
        assert!(local.starts_with("CREATE TABLE IF NOT EXISTS spans_local ON CLUSTER 'c' ("));
        assert!(local.contains("ReplicatedMergeTree('/clickhouse/tables/{shard}/d/spans_local'"));
        assert!(!local.contains("TTL"), "{local}");
        insta::assert_snapshot!(local);
        insta::assert_snapshot!(all);
        insta::assert_snapshot!(create_versions(&address));
        assert_eq!(modify_ttl(&address, None), "ALTER TABLE spans_local ON CLUSTER 'c' REMOVE TTL");
    }
}
