//! Keys and values of attributes, to complete what is typed into a search. Only the newest
//! spans are counted, so that the answer is fast.

use std::cmp::Reverse;

use ahash::AHashMap;
use arrow::array::{Array, ArrayRef, AsArray, MapArray, RecordBatch};
use arrow::datatypes::Int32Type;
use serde_json::Value;
use spanwise_model::schema::column;
use spanwise_store::{AttributeCondition, AttributeTest, Order, Predicate, Query, TimeRange};

use crate::search::Covered;
use crate::{Queries, QueryError, on_blocking_thread};

/// The most spans that are counted.
const MAX_ROWS: usize = 10_000;
/// Longer values do not help to complete one.
const MAX_VALUE_BYTES: usize = 256;
/// The most keys of a span that a further key is compared with.
const MOST_COMPARED: usize = 64;
/// The work, in error messages.
const COUNTING: &str = "counting attributes";
/// How keys of resource attributes begin by convention; other keys of a resource are labels
/// of the process.
const OF_RESOURCES: [&str; 12] = [
    "service.",
    "telemetry.",
    "host.",
    "os.",
    "process.",
    "container.",
    "k8s.",
    "cloud.",
    "faas.",
    "deployment.",
    "device.",
    "systemd.",
];

/// What has an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttributePlace {
    /// The span itself.
    Span,
    /// Its resource.
    Resource,
    /// Its process, as a label that the agent reports.
    Label,
}

impl AttributePlace {
    /// The agent writes labels beside the conventional attributes of a resource.
    fn of_resource(key: &str) -> Self {
        let is_conventional = OF_RESOURCES.iter().any(|begin| key.starts_with(begin));
        if is_conventional { Self::Resource } else { Self::Label }
    }
}

/// A question for attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeQuery {
    /// Only of spans of this service.
    pub service: Option<String>,
    /// Only of spans that started in this time.
    pub time: TimeRange,
    /// How the key or value begins, in upper or lower case.
    pub prefix: String,
    /// The most entries.
    pub limit: usize,
}

/// Keys or values, the most frequent first, and what was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeTotals<T> {
    /// The entries.
    pub entries: Vec<T>,
    /// What was counted: the newest spans, back to a time.
    pub covered: Covered,
}

/// A key of attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTotal {
    /// The key.
    pub key: String,
    /// What has the attribute.
    pub place: AttributePlace,
    /// Spans that have it.
    pub spans: u64,
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueTotal {
    /// The value as text.
    pub value: String,
    /// Spans that have it.
    pub spans: u64,
}

impl Queries {
    /// The keys of attributes.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn attribute_keys(
        &self,
        query: &AttributeQuery,
    ) -> Result<AttributeTotals<KeyTotal>, QueryError> {
        let (batches, covered) = self.newest_attributes(query, Vec::new()).await?;
        let (prefix, limit) = (query.prefix.to_lowercase(), query.limit);
        let entries = on_blocking_thread(COUNTING, move || {
            let mut counts: AHashMap<(String, AttributePlace), u64> = AHashMap::new();
            each(&batches, |key, _, place| {
                if has_prefix(key, &prefix) {
                    match counts.get_mut(&(key.to_owned(), place)) {
                        Some(count) => *count += 1,
                        None => _ = counts.insert((key.to_owned(), place), 1),
                    }
                }
            });
            let entry = |((key, place), spans)| KeyTotal { key, place, spans };
            most(counts, limit).into_iter().map(entry).collect()
        })
        .await?;
        Ok(AttributeTotals { entries, covered })
    }

    /// The values of the attribute with this key.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn attribute_values(
        &self,
        key: &str,
        query: &AttributeQuery,
    ) -> Result<AttributeTotals<ValueTotal>, QueryError> {
        let key = key.to_owned();
        let exists = AttributeCondition { key: key.clone(), test: AttributeTest::Exists };
        let (batches, covered) = self.newest_attributes(query, vec![exists]).await?;
        let (prefix, limit) = (query.prefix.to_lowercase(), query.limit);
        let entries = on_blocking_thread(COUNTING, move || {
            let mut counts: AHashMap<String, u64> = AHashMap::new();
            each(&batches, |name, value, _| {
                if name == key && value.len() <= MAX_VALUE_BYTES && has_prefix(value, &prefix) {
                    match counts.get_mut(value) {
                        Some(count) => *count += 1,
                        None => _ = counts.insert(value.to_owned(), 1),
                    }
                }
            });
            let entry = |(value, spans)| ValueTotal { value, spans };
            most(counts, limit).into_iter().map(entry).collect()
        })
        .await?;
        Ok(AttributeTotals { entries, covered })
    }

    /// The newest spans, and the start of the time of which they are all.
    async fn newest_attributes(
        &self,
        query: &AttributeQuery,
        attributes: Vec<AttributeCondition>,
    ) -> Result<(Vec<RecordBatch>, Covered), QueryError> {
        let keys = attributes.iter().map(|asked| asked.key.clone());
        let keys = (!attributes.is_empty()).then(|| keys.collect());
        let service = query.service.clone();
        let rows = Query {
            predicate: Predicate { service, attributes, ..Predicate::default() },
            time: query.time,
            columns: vec![column::START_UNIX_NANO, column::RESOURCE, column::ATTRIBUTES],
            keys,
            limit: MAX_ROWS,
            order: Order::NewestFirst,
        };
        let batches = self.store.find(&rows).await?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let starts = batches.iter().filter_map(|batch| {
            let starts = batch.column_by_name(column::START_UNIX_NANO)?;
            let starts = starts.as_primitive_opt::<arrow::datatypes::Int64Type>()?;
            starts.values().iter().copied().min()
        });
        let complete = rows < MAX_ROWS;
        let oldest = starts.min().filter(|_| !complete);
        let from_unix_nano = oldest.unwrap_or(query.time.from_unix_nano);
        Ok((batches, Covered { from_unix_nano, complete }))
    }
}

/// Whether a text begins with a prefix in lower case, whatever its own case.
fn has_prefix(text: &str, prefix: &str) -> bool {
    let mut wanted = prefix.chars();
    let mut has = text.chars().flat_map(char::to_lowercase);
    wanted.all(|one| has.next() == Some(one))
}

/// Calls `give` with each attribute of each span, and its value as text.
fn each(batches: &[RecordBatch], mut give: impl FnMut(&str, &str, AttributePlace)) {
    for batch in batches {
        if let Some(maps) = batch.column_by_name(column::ATTRIBUTES).and_then(|it| it.as_map_opt())
        {
            of_maps(maps, &mut give);
        }
        if let Some(resources) = batch.column_by_name(column::RESOURCE) {
            for (resource, spans) in counted(resources) {
                let Ok(Value::Object(members)) = serde_json::from_str(resource) else { continue };
                for (key, value) in &members {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    (0..spans).for_each(|_| give(key, &text, AttributePlace::of_resource(key)));
                }
            }
        }
    }
}

/// Calls `give` with the attributes of a column. If a span has a key twice, the first counts.
fn of_maps(maps: &MapArray, give: &mut impl FnMut(&str, &str, AttributePlace)) {
    let values = maps.values().as_struct_opt().and_then(|it| it.column_by_name("value"));
    let Some(values) = values.and_then(|values| values.as_string_opt::<i32>()) else { return };
    let Some(keys) = maps.keys().as_string_opt::<i32>() else { return };
    for row in maps.value_offsets().windows(2) {
        let entries = row[0] as usize..row[1] as usize;
        for entry in entries.clone() {
            // A span with very many keys must not delay everybody else.
            let before = entries.start..entry.min(entries.start + MOST_COMPARED);
            let key = keys.value(entry);
            if !before.into_iter().any(|other| keys.value(other) == key) {
                give(key, values.value(entry), AttributePlace::Span);
            }
        }
    }
}

/// The texts of a dictionary, and the number of rows that have each.
fn counted(column: &ArrayRef) -> Vec<(&str, usize)> {
    let Some(dictionary) = column.as_dictionary_opt::<Int32Type>() else { return Vec::new() };
    let Some(texts) = dictionary.values().as_string_opt::<i32>() else { return Vec::new() };
    let mut counts = vec![0; texts.len()];
    for key in dictionary.keys().iter().flatten() {
        if let Some(count) = usize::try_from(key).ok().and_then(|key| counts.get_mut(key)) {
            *count += 1;
        }
    }
    let texts = texts.iter().map(Option::unwrap_or_default);
    texts.zip(counts).filter(|(_, count)| *count > 0).collect()
}

/// The entries with the highest counts.
fn most<T: Ord + Clone>(counts: AHashMap<T, u64>, limit: usize) -> Vec<(T, u64)> {
    let mut all: Vec<(T, u64)> = counts.into_iter().collect();
    all.sort_unstable_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
    all.truncate(limit);
    all
}
