//! The tables as ClickHouse's SQL has them: the span schema's columns, and two
//! of ClickHouse's side.
//!
//! `partition_day` places a row in a partition. It is the UTC day of the row's start,
//! unless that start makes no sense: a row from 1970 or 2262 lies with the rows
//! that it came with, so that no clock of a sender can make partitions.
//! `insert_id` says which file of which server's spool brought the row.

use arrow::datatypes::{DataType, Field};
use spanwise_model::schema::{column, span_schema};

use super::address::Address;
use super::literal;

/// Which insert brought a row.
pub(super) const INSERT_ID: &str = "insert_id";
/// Its partition.
pub(super) const DAY: &str = "partition_day";
/// The table that is asked.
pub(super) const SPANS: &str = "spans";
/// On a cluster, the table of one server, of which `spans` is the sum.
pub(super) const LOCAL: &str = "spans_local";
/// Which versions of the schema were brought about.
pub(super) const VERSIONS: &str = "spanwise_schema";

/// What each part counts of its rows, so that a list of services or operations
/// is answered from as many rows as there are of these. ClickHouse itself uses it
/// where a question is of these columns only, and keeps it true as parts are
/// merged, dropped, replicated, and rows deleted.
const LISTS: &str = "PROJECTION lists (SELECT service, capture, operation, kind, status, \
                     count(), max(start_unix_nano) \
                     GROUP BY service, capture, operation, kind, status)";
/// A deletion makes the counts of the parts that it touches anew.
const COUNTS_AFTER_DELETION: &str = "lightweight_mutation_projection_mode = 'rebuild'";

/// An attribute as one text, for the index over all of them.
pub(super) const ATTRIBUTE_PAIRS: &str =
    "arrayMap((k, v) -> concat(k, '=', v.2), mapKeys(attributes), mapValues(attributes))";

/// Rows lie by the minute of their start first.
pub(super) const MINUTE_NANO: i64 = 60_000_000_000;

/// The minute of a time, as an expression.
pub(super) fn minute(unix_nano: &str) -> String {
    format!("intDiv({unix_nano}, {MINUTE_NANO})")
}

/// Inserts that are remembered, to recognise one that is sent twice.
const REMEMBERED_INSERTS: u32 = 10_000;
const REMEMBERED_SECONDS: u32 = 7 * 86_400;

/// The table that holds the rows of one server.
pub(super) const fn stored(address: &Address) -> &'static str {
    if address.cluster.is_some() { LOCAL } else { SPANS }
}

/// ` ON CLUSTER '…'`, where there is one.
pub(super) fn on_cluster(address: &Address) -> String {
    let cluster = address.cluster.as_deref();
    cluster.map(|name| format!(" ON CLUSTER {}", literal::text(name))).unwrap_or_default()
}

/// The table of versions. On a cluster, every server has all of it.
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

/// The tables of spans, in this version.
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
        // A trace's spans are on one server.
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

/// What version 1 lacked. Parts that are there get their counts in the background.
pub(super) fn add_lists(address: &Address) -> [String; 3] {
    let table = format!("ALTER TABLE {}{}", stored(address), on_cluster(address));
    [
        format!("{table} MODIFY SETTING {COUNTS_AFTER_DELETION}"),
        format!("{table} ADD {}", LISTS.replacen("PROJECTION", "PROJECTION IF NOT EXISTS", 1)),
        format!("{table} MATERIALIZE PROJECTION lists"),
    ]
}

/// When a partition goes: once the last moment of its day is older than what
/// is to be kept.
pub(super) fn ttl(retain_seconds: Option<u64>) -> Option<String> {
    let seconds = retain_seconds?.saturating_add(86_400);
    // A DateTime ends in 2106.
    (seconds < 60 * 365 * 86_400)
        .then(|| format!("toDateTime({DAY}, 'UTC') + toIntervalSecond({seconds})"))
}

/// Sets what [`ttl`] says of a table that is there.
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
            // Keys of attributes are few.
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
        // The span schema's other types are texts.
        _ => "String".to_owned(),
    }
}

fn codec(field: &Field) -> &'static str {
    match field.name().as_str() {
        // Nearly all random: packing them costs time and saves nothing.
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
        // One of each row: every bit of a filter counts.
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

    /// What was released must stay: a change here is a new version, with a step
    /// that brings older tables to it.
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
