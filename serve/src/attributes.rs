//! `GET /api/v1/attributes` and `/attributes/values`: what there is to ask for, for those
//! who write a search. Of the newest spans only, so that it is known at once.

use std::cmp::Reverse;

use ahash::AHashMap;
use arrow::array::{Array, ArrayRef, AsArray, MapArray, RecordBatch};
use arrow::datatypes::Int32Type;
use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use serde_json::{Value, json};
use spanwise_model::schema::column;
use spanwise_store::{AttributeCondition, AttributeTest, Order, Predicate, Query, TimeRange};

use crate::ApiState;
use crate::parameters::Parameters;
use crate::problem::Problem;

/// Spans that are looked at.
const MAX_ROWS: usize = 10_000;
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
/// Longer values are no help to who completes one.
const MAX_VALUE_BYTES: usize = 256;
/// Keys of a span with which another one is compared.
const MOST_COMPARED: usize = 64;
/// Keys of resources that stand for a label of a process, and not for who reports.
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

/// Where an attribute stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum On {
    Span,
    Resource,
    Label,
}

impl On {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Span => "span",
            Self::Resource => "resource",
            Self::Label => "label",
        }
    }

    /// The agent puts labels beside what resources have by convention.
    fn of_resource(key: &str) -> Self {
        let is_conventional = OF_RESOURCES.iter().any(|begin| key.starts_with(begin));
        if is_conventional { Self::Resource } else { Self::Label }
    }
}

pub(crate) async fn keys(
    State(state): State<ApiState>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let asked = Asked::of(&Parameters::new(pairs), &[])?;
    let (batches, covered) = asked.spans(&state, Vec::new()).await?;
    let found = aside(move || {
        let mut counts: AHashMap<(String, On), u64> = AHashMap::new();
        each(&batches, |key, _, on| {
            if asked.has_prefix(key) {
                match counts.get_mut(&(key.to_owned(), on)) {
                    Some(count) => *count += 1,
                    None => _ = counts.insert((key.to_owned(), on), 1),
                }
            }
        });
        most(counts, asked.limit)
    })
    .await?;
    let keys = found
        .into_iter()
        .map(|((key, on), spans)| json!({ "key": key, "on": on.as_str(), "spans": spans }));
    Ok(Json(json!({ "keys": keys.collect::<Vec<_>>(), "covered": covered })))
}

pub(crate) async fn values(
    State(state): State<ApiState>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let parameters = Parameters::new(pairs);
    let asked = Asked::of(&parameters, &["key"])?;
    let key = parameters
        .text("key")
        .ok_or_else(|| {
            Problem::invalid("there is no `key`; write for example key=http.request.method")
        })?
        .to_owned();
    let exists = AttributeCondition { key: key.clone(), test: AttributeTest::Exists };
    let (batches, covered) = asked.spans(&state, vec![exists]).await?;
    let found = aside(move || {
        let mut counts: AHashMap<String, u64> = AHashMap::new();
        each(&batches, |name, value, _| {
            if name == key && value.len() <= MAX_VALUE_BYTES && asked.has_prefix(value) {
                match counts.get_mut(value) {
                    Some(count) => *count += 1,
                    None => _ = counts.insert(value.to_owned(), 1),
                }
            }
        });
        most(counts, asked.limit)
    })
    .await?;
    let values = found.into_iter().map(|(value, spans)| json!({ "value": value, "spans": spans }));
    Ok(Json(json!({ "values": values.collect::<Vec<_>>(), "covered": covered })))
}

/// Runs what takes some milliseconds where others are answered meanwhile.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal(format!("counting attributes: {error}")))
}

/// Of which spans, and what of it.
struct Asked {
    service: Option<String>,
    time: TimeRange,
    /// In lower case.
    prefix: String,
    limit: usize,
}

impl Asked {
    fn of(parameters: &Parameters, also: &[&str]) -> Result<Self, Problem> {
        let known = [&["service", "start", "end", "prefix", "limit"][..], also].concat();
        parameters.only(&known)?;
        Ok(Self {
            service: parameters.text("service").map(str::to_owned),
            time: parameters.time_range()?,
            prefix: parameters.text("prefix").unwrap_or_default().to_lowercase(),
            limit: parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?,
        })
    }

    /// Whether a text begins as asked, whatever its case.
    fn has_prefix(&self, text: &str) -> bool {
        let mut wanted = self.prefix.chars();
        let mut has = text.chars().flat_map(char::to_lowercase);
        wanted.all(|one| has.next() == Some(one))
    }

    /// The newest spans, and the time of which they are all.
    async fn spans(
        &self,
        state: &ApiState,
        attributes: Vec<AttributeCondition>,
    ) -> Result<(Vec<RecordBatch>, Value), Problem> {
        let query = Query {
            predicate: Predicate {
                service: self.service.clone(),
                attributes,
                ..Predicate::default()
            },
            time: self.time,
            columns: vec![column::START_UNIX_NANO, column::RESOURCE, column::ATTRIBUTES],
            limit: MAX_ROWS,
            order: Order::NewestFirst,
        };
        let batches = state.store.find(&query).await?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let starts = batches.iter().filter_map(|batch| {
            let starts = batch.column_by_name(column::START_UNIX_NANO)?;
            let starts = starts.as_primitive_opt::<arrow::datatypes::Int64Type>()?;
            starts.values().iter().copied().min()
        });
        let complete = rows < MAX_ROWS;
        let oldest = starts.min().filter(|_| !complete);
        let covered = json!({
            "start_unix_nano": oldest.unwrap_or(self.time.from_unix_nano).to_string(),
            "end_unix_nano": self.time.to_unix_nano.to_string(),
            "complete": complete,
        });
        Ok((batches, covered))
    }
}

/// Gives each attribute of each span, with its value's text.
fn each(batches: &[RecordBatch], mut give: impl FnMut(&str, &str, On)) {
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
                    (0..spans).for_each(|_| give(key, &text, On::of_resource(key)));
                }
            }
        }
    }
}

/// Gives the attributes in a column; of a key that a span has twice, the first one.
fn of_maps(maps: &MapArray, give: &mut impl FnMut(&str, &str, On)) {
    let values = maps.values().as_struct_opt().and_then(|it| it.column_by_name("value"));
    let Some(values) = values.and_then(|values| values.as_string_opt::<i32>()) else { return };
    let Some(keys) = maps.keys().as_string_opt::<i32>() else { return };
    for row in maps.value_offsets().windows(2) {
        let entries = row[0] as usize..row[1] as usize;
        for entry in entries.clone() {
            // Nobody has that many; whoever has shall not make all others wait.
            let before = entries.start..entry.min(entries.start + MOST_COMPARED);
            let key = keys.value(entry);
            if !before.into_iter().any(|other| keys.value(other) == key) {
                give(key, values.value(entry), On::Span);
            }
        }
    }
}

/// The texts of a dictionary, and how many rows have each.
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

/// Those that most spans have.
fn most<T: Ord + Clone>(counts: AHashMap<T, u64>, limit: usize) -> Vec<(T, u64)> {
    let mut all: Vec<(T, u64)> = counts.into_iter().collect();
    all.sort_unstable_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
    all.truncate(limit);
    all
}
