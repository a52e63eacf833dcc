//! Answers of the queries as Tempo's messages.

use spanwise_query::traceql::{
    FoundSet, FoundSpan, FoundTrace, Tag, TagScope, TagValues, TraceqlFound, TraceqlSeries,
};
use spanwise_traceql::Value;
use spanwise_traceql::metrics::{Exemplar as Counted, Grid, Series};

use super::messages::{
    AnyValue, ArrayValue, Exemplar, InstantSeries, KeyValue, MatchedSpan, MetadataMetrics,
    OneValue, PartialStatus, QueryInstantResponse, QueryRangeResponse, Sample, SearchMetrics,
    SearchTagValuesResponse, SearchTagValuesV2Response, SearchTagsResponse, SearchTagsV2Response,
    SearchTagsV2Scope, ServiceStats, SpanSet, TagValue, TimeSeries, TraceSearchMetadata,
};

/// What Tempo says of a trace whose root it does not have.
const NO_ROOT: &str = "<root span not yet received>";

pub(super) fn metrics(found: &TraceqlFound) -> SearchMetrics {
    SearchMetrics {
        inspected_traces: count(found.examined_traces),
        inspected_spans: found.examined_spans as u64,
        total_jobs: 1,
        completed_jobs: u32::from(found.stopped.is_none()),
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

pub(super) fn trace(found: &FoundTrace) -> TraceSearchMetadata {
    let sets: Vec<SpanSet> = found.sets.iter().map(span_set).collect();
    let (service, name) = match &found.root {
        Some((service, name)) => (service.clone(), name.clone()),
        None => (NO_ROOT.to_owned(), String::new()),
    };
    let stats = |(service, (spans, errors)): (&String, &(u32, u32))| {
        (service.clone(), ServiceStats { span_count: *spans, error_count: *errors })
    };
    TraceSearchMetadata {
        // Without leading zeros, as Tempo writes it.
        trace_id: found.id.to_string().trim_start_matches('0').to_owned(),
        root_service_name: service,
        root_trace_name: name,
        start_time_unix_nano: found.start_unix_nanos,
        duration_ms: u32::try_from(found.duration_nanos / 1_000_000).unwrap_or(u32::MAX),
        span_set: sets.first().cloned(),
        span_sets: sets,
        service_stats: found.services.iter().map(stats).collect(),
    }
}

fn span_set(set: &FoundSet) -> SpanSet {
    let attributes = set.attributes.iter();
    SpanSet {
        spans: set.spans.iter().map(span).collect(),
        matched: count(set.matched),
        attributes: attributes.map(|(name, value)| key_value(name, value)).collect(),
    }
}

fn span(span: &FoundSpan) -> MatchedSpan {
    let attributes = span.attributes.iter();
    MatchedSpan {
        span_id: hex(&span.id),
        name: span.name.clone(),
        start_time_unix_nano: span.start_unix_nanos,
        duration_nanos: span.duration_nanos,
        attributes: attributes.map(|(name, value)| key_value(name, value)).collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn key_value(key: &str, value: &Value<'_>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(any_value(value)) }
}

fn any_value(value: &Value<'_>) -> AnyValue {
    let value = match value {
        Value::Int(number) => OneValue::IntValue(*number),
        Value::Float(number) => OneValue::DoubleValue(*number),
        Value::Bool(flag) => OneValue::BoolValue(*flag),
        Value::Array(values) => {
            OneValue::ArrayValue(ArrayValue { values: values.iter().map(any_value).collect() })
        }
        // As Tempo does, also nil.
        other => OneValue::StringValue(other.to_string()),
    };
    AnyValue { value: Some(value) }
}

pub(super) fn range(answer: &TraceqlSeries, grid: Grid) -> QueryRangeResponse {
    let (status, message) = partial(answer);
    QueryRangeResponse {
        series: answer.series.iter().map(|series| time_series(series, grid)).collect(),
        metrics: Some(looked_at(answer)),
        status,
        message,
    }
}

pub(super) fn instant(answer: &TraceqlSeries) -> QueryInstantResponse {
    let (status, message) = partial(answer);
    let series = answer.series.iter().filter_map(|series| {
        let value = series.values.first().copied().filter(|value| !value.is_nan())?;
        Some(InstantSeries { labels: labels(series), value })
    });
    QueryInstantResponse {
        series: series.collect(),
        metrics: Some(looked_at(answer)),
        status,
        message,
    }
}

fn looked_at(answer: &TraceqlSeries) -> SearchMetrics {
    SearchMetrics {
        inspected_traces: count(answer.examined_traces),
        inspected_spans: answer.examined_spans as u64,
        total_jobs: 1,
        completed_jobs: u32::from(answer.incomplete.is_empty()),
    }
}

fn partial(answer: &TraceqlSeries) -> (i32, String) {
    let status = match answer.incomplete.is_empty() {
        true => PartialStatus::Complete,
        false => PartialStatus::Partial,
    };
    (status.into(), answer.incomplete.join("; "))
}

fn labels(series: &Series) -> Vec<KeyValue> {
    series.labels.iter().map(|(name, value)| key_value(name, value)).collect()
}

fn time_series(series: &Series, grid: Grid) -> TimeSeries {
    let samples = series.values.iter().enumerate().filter(|(_, value)| !value.is_nan());
    TimeSeries {
        labels: labels(series),
        samples: samples
            .map(|(place, value)| Sample {
                timestamp_ms: milliseconds(grid.unix_nanos(place)),
                value: *value,
            })
            .collect(),
        exemplars: series.exemplars.iter().map(exemplar).collect(),
    }
}

fn exemplar(counted: &Counted) -> Exemplar {
    let text = |key: &str, text: String| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(OneValue::StringValue(text)) }),
    };
    Exemplar {
        labels: vec![
            text("trace:id", hex(&counted.trace_id)),
            text("span:id", hex(&counted.span_id)),
        ],
        value: counted.value,
        timestamp_ms: milliseconds(counted.unix_nanos),
    }
}

fn milliseconds(unix_nanos: u64) -> i64 {
    (unix_nanos / 1_000_000).cast_signed()
}

/// How a question for tags ended.
const fn ended() -> Option<MetadataMetrics> {
    Some(MetadataMetrics { total_jobs: 1, completed_jobs: 1 })
}

/// What every span has by itself, as Tempo lists it.
const INTRINSICS: [&str; 26] = [
    "duration",
    "event:name",
    "event:timeSinceStart",
    "instrumentation:name",
    "instrumentation:version",
    "kind",
    "link:spanID",
    "link:traceID",
    "name",
    "rootName",
    "rootServiceName",
    "span:childCount",
    "span:duration",
    "span:id",
    "span:kind",
    "span:name",
    "span:parentID",
    "span:status",
    "span:statusMessage",
    "status",
    "statusMessage",
    "trace:duration",
    "trace:id",
    "trace:rootName",
    "trace:rootService",
    "traceDuration",
];

/// Which tags are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskedScope {
    All,
    Intrinsic,
    Of(TagScope),
}

impl AskedScope {
    /// # Errors
    /// Which scopes there are.
    pub(super) fn read(text: &str) -> Result<Self, super::refusal::Refusal> {
        Ok(match text {
            "" | "none" => Self::All,
            "intrinsic" => Self::Intrinsic,
            "span" => Self::Of(TagScope::Span),
            "resource" => Self::Of(TagScope::Resource),
            "event" => Self::Of(TagScope::Event),
            "link" => Self::Of(TagScope::Link),
            "instrumentation" => Self::Of(TagScope::Instrumentation),
            other => {
                return Err(super::refusal::Refusal::invalid(format!(
                    "invalid scope: `{}`; write span, resource, event, link, instrumentation or \
                     intrinsic",
                    super::parameters::brief(other)
                )));
            }
        })
    }
}

pub(super) fn tags(tags: &[Tag], scope: AskedScope) -> SearchTagsResponse {
    let mut names: Vec<String> = match scope {
        AskedScope::Intrinsic => INTRINSICS.map(str::to_owned).to_vec(),
        AskedScope::All => tags.iter().map(|tag| tag.name.clone()).collect(),
        AskedScope::Of(scope) => {
            tags.iter().filter(|tag| tag.scope == scope).map(|tag| tag.name.clone()).collect()
        }
    };
    names.sort_unstable();
    names.dedup();
    SearchTagsResponse { tag_names: names, metrics: ended() }
}

pub(super) fn tags_v2(tags: &[Tag], scope: AskedScope) -> SearchTagsV2Response {
    let mut scopes = Vec::new();
    for (of, name) in [
        (TagScope::Event, "event"),
        (TagScope::Instrumentation, "instrumentation"),
        (TagScope::Link, "link"),
        (TagScope::Resource, "resource"),
        (TagScope::Span, "span"),
    ] {
        let tags = tags.iter().filter(|tag| tag.scope == of).map(|tag| tag.name.clone());
        let tags: Vec<String> = tags.collect();
        if matches!(scope, AskedScope::All) && !tags.is_empty() || scope == AskedScope::Of(of) {
            scopes.push(SearchTagsV2Scope { name: name.to_owned(), tags });
        }
    }
    if matches!(scope, AskedScope::All | AskedScope::Intrinsic) {
        let tags = INTRINSICS.map(str::to_owned).to_vec();
        scopes.push(SearchTagsV2Scope { name: "intrinsic".to_owned(), tags });
    }
    SearchTagsV2Response { scopes, metrics: ended() }
}

pub(super) fn tag_values(values: TagValues) -> SearchTagValuesResponse {
    let mut texts: Vec<String> = values.values.into_iter().map(|value| value.text).collect();
    texts.sort_unstable();
    texts.dedup();
    SearchTagValuesResponse { tag_values: texts, metrics: ended() }
}

pub(super) fn tag_values_v2(values: TagValues) -> SearchTagValuesV2Response {
    let value = |value: spanwise_query::traceql::TagValue| TagValue {
        r#type: value.kind.to_owned(),
        value: value.text,
    };
    let tag_values = values.values.into_iter().map(value).collect();
    SearchTagValuesV2Response { tag_values, metrics: ended() }
}
