//! Grafana Tempo's query API, by HTTP and gRPC
//! (<https://grafana.com/docs/tempo/latest/api_docs/>). `docs/apis.md` says what is covered.

mod answers;
mod grpc;
mod messages;
mod parameters;
mod questions;
mod refusal;
mod trace;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query as UrlQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::Serialize;
use spanwise_model::{TraceId, WrittenId};
use spanwise_parameters::tags::logfmt;
use spanwise_query::{PagePosition, Queries, QueryError, TraceQuery, TraceTree};

use crate::answer_limits::AnswerLimits;
use crate::slow_reader;
use crate::{ApiState, Shared};
use answers::AskedScope;
use messages::{
    PartialStatus, QueryInstantRequest, QueryRangeRequest, SearchRequest, SearchResponse, Trace,
    TraceByIdMetrics, TraceByIdResponse,
};
use parameters::Parameters;
use refusal::Refusal;

/// The version of Tempo whose API this is: Grafana asks for it, to know what it may ask for.
const TEMPO_VERSION: &str = "2.9.0";
const PROTOBUF: &str = "application/protobuf";
/// Says that, and why, an answer is not whole, for which Tempo's own format has no place.
const WARNING: HeaderName = HeaderName::from_static("spanwise-warning");

/// The routes, as they are below `/tempo`, and at the root of a port of their own.
pub(crate) fn router() -> Router<Shared> {
    Router::new()
        .route("/api/echo", get(async || "echo"))
        .route("/ready", get(async || "ready"))
        .route("/api/status/buildinfo", get(build_info))
        .route("/status/buildinfo", get(build_info))
        .route("/api/search", get(search))
        .route("/api/traces/{id}", get(trace_v1))
        .route("/api/v2/traces/{id}", get(trace_v2))
        .route("/api/search/tags", get(tags))
        .route("/api/v2/search/tags", get(tags_v2))
        .route("/api/search/tag/{tag}/values", get(tag_values))
        .route("/api/v2/search/tag/{tag}/values", get(tag_values_v2))
        .route("/api/metrics/query_range", get(query_range))
        .route("/api/metrics/query", get(query_instant))
        .fallback(unknown)
}

/// The same with gRPC, for a port of its own.
pub(crate) fn port() -> Router<Shared> {
    router()
        .route("/tempopb.StreamingQuerier/Search", post(grpc::search))
        .route("/tempopb.StreamingQuerier/SearchTags", post(grpc::tags))
        .route("/tempopb.StreamingQuerier/SearchTagsV2", post(grpc::tags_v2))
        .route("/tempopb.StreamingQuerier/SearchTagValues", post(grpc::tag_values))
        .route("/tempopb.StreamingQuerier/SearchTagValuesV2", post(grpc::tag_values_v2))
        .route("/tempopb.StreamingQuerier/MetricsQueryRange", post(grpc::query_range))
        .route("/tempopb.StreamingQuerier/MetricsQueryInstant", post(grpc::query_instant))
}

type Pairs = UrlQuery<Vec<(String, String)>>;

async fn unknown(uri: Uri, headers: HeaderMap) -> Response {
    let path: String = uri.path().chars().take(200).collect();
    if crate::wrong_port::is_grpc(&headers) {
        let why = format!("there is no {path} here; tempopb.StreamingQuerier is");
        return tonic::Status::unimplemented(why).into_http::<axum::body::Body>();
    }
    Refusal::not_found(format!(
        "there is no `{path}` in Tempo's API here; there are /api/search, /api/v2/traces/ID, \
         /api/v2/search/tags, /api/v2/search/tag/TAG/values, /api/metrics/query_range and \
         /api/metrics/query"
    ))
    .into_response()
}

async fn build_info(State(state): State<ApiState>) -> Response {
    let version = state.status.status().version;
    Json(serde_json::json!({
        "version": TEMPO_VERSION,
        "revision": format!("spanwise-{version}"),
        "branch": "spanwise",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    }))
    .into_response()
}

/// An answer in the format that was asked for.
fn reply<M: prost::Message + Serialize>(
    headers: &HeaderMap,
    limits: &AnswerLimits,
    message: &M,
) -> Result<Response, Refusal> {
    let (kind, bytes) = match wants_protobuf(headers) {
        true => (PROTOBUF, message.encode_to_vec()),
        false => (
            "application/json",
            serde_json::to_vec(message)
                .map_err(|error| crate::problem::Problem::internal(error.to_string()))?,
        ),
    };
    let permit = limits.to_answer(bytes.len())?;
    Ok(([(header::CONTENT_TYPE, kind)], slow_reader::answer(bytes, permit)).into_response())
}

fn wants_protobuf(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains(PROTOBUF))
}

/// With a warning beside what Tempo's format has a place for.
fn warned(mut response: Response, why: Option<&str>) -> Response {
    if let Some(why) = why.and_then(|why| HeaderValue::from_str(why).ok()) {
        response.headers_mut().insert(WARNING, why);
    }
    response
}

async fn search(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let asked = questions::search(&search_request(&Parameters::new(pairs))?)?;
    let _evaluating = limits.to_evaluate().await?;
    let found = queries.traceql_search(&asked, |_| {}).await?;
    let response = SearchResponse {
        traces: found.traces.iter().map(answers::trace).collect(),
        metrics: Some(answers::metrics(&found)),
    };
    Ok(warned(reply(&headers, &limits, &response)?, found.stopped.as_deref()))
}

fn search_request(parameters: &Parameters) -> Result<SearchRequest, Refusal> {
    let (query, tags) = (parameters.text("q"), parameters.text("tags"));
    if query.is_some() && tags.is_some() {
        let detail = "invalid request: can't specify tags and q in the same query";
        return Err(Refusal::invalid(detail));
    }
    let milliseconds = |name| -> Result<u32, Refusal> {
        let nanos = parameters.duration(name)?.unwrap_or(0);
        Ok(u32::try_from(nanos / 1_000_000).unwrap_or(u32::MAX))
    };
    let limit = parameters.number("limit")?;
    if limit == Some(0) {
        return Err(Refusal::invalid("invalid limit: must be a positive number"));
    }
    let tags = tags.map(logfmt).transpose();
    let tags = tags.map_err(|why| Refusal::invalid(format!("invalid tags: {why}")))?;
    Ok(SearchRequest {
        tags: tags.unwrap_or_default().into_iter().collect(),
        min_duration_ms: milliseconds("minDuration")?,
        max_duration_ms: milliseconds("maxDuration")?,
        limit: limit.unwrap_or(0),
        start: parameters.number("start")?.unwrap_or(0),
        end: parameters.number("end")?.unwrap_or(0),
        query: query.unwrap_or_default().to_owned(),
        spans_per_span_set: parameters.number("spss")?.unwrap_or(0),
    })
}

/// `{"batches": …}`, as the first version of the API has it.
#[derive(Serialize)]
struct Batches<'a> {
    batches: &'a [messages::ResourceSpans],
}

async fn trace_v1(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Some((tree, trace)) = find_trace(&queries, &limits, &id).await? else {
        return Err(Refusal::not_found(String::new()));
    };
    let response = match wants_protobuf(&headers) {
        true => reply(&headers, &limits, &trace)?,
        false => {
            let batches = Batches { batches: &trace.resource_spans };
            let bytes = serde_json::to_vec(&batches)
                .map_err(|error| crate::problem::Problem::internal(error.to_string()))?;
            let permit = limits.to_answer(bytes.len())?;
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, slow_reader::answer(bytes, permit)).into_response()
        }
    };
    Ok(warned(response, cut(&tree).as_deref()))
}

async fn trace_v2(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let found = find_trace(&queries, &limits, &id).await?;
    let message = found.as_ref().and_then(|(tree, _)| cut(tree)).unwrap_or_default();
    let status = match message.is_empty() {
        true => PartialStatus::Complete,
        false => PartialStatus::Partial,
    };
    let response = TraceByIdResponse {
        // One that is not there is empty.
        trace: Some(found.map(|(_, trace)| trace).unwrap_or_default()),
        metrics: Some(TraceByIdMetrics {}),
        status: status.into(),
        message,
    };
    reply(&headers, &limits, &response)
}

/// That a trace has more spans than are told.
fn cut(tree: &TraceTree) -> Option<String> {
    (tree.left_out > 0)
        .then(|| format!("the trace has {} spans more, which are too many to show", tree.left_out))
}

async fn find_trace(
    queries: &Queries,
    limits: &AnswerLimits,
    id: &str,
) -> Result<Option<(Arc<TraceTree>, Trace)>, Refusal> {
    let query = TraceQuery {
        id: WrittenId::Trace(trace_id(id)?),
        page: PagePosition::Whole,
        limit: usize::MAX,
        snapshot: None,
    };
    let _reading = limits.to_read().await?;
    let tree = match queries.trace(&query).await {
        Ok(answer) => answer.tree,
        Err(QueryError::TraceNotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let written = Arc::clone(&tree);
    let trace = tokio::task::spawn_blocking(move || trace::of_tree(&written)).await;
    let trace = trace.map_err(|error| crate::problem::Problem::internal(error.to_string()))?;
    Ok(Some((tree, trace.map_err(QueryError::from)?)))
}

/// An id as Tempo's clients write it: hexadecimal, perhaps without leading zeros.
fn trace_id(text: &str) -> Result<TraceId, Refusal> {
    let padded = format!("{text:0>32}");
    padded.parse().map_err(|_| {
        Refusal::invalid(format!(
            "trace IDs can only contain hex characters: `{}` is none",
            parameters::brief(text)
        ))
    })
}

/// What is asked about tags.
fn tags_query(parameters: &Parameters) -> Result<spanwise_query::traceql::TagsQuery, Refusal> {
    questions::tags(
        parameters.text("q").unwrap_or_default(),
        parameters.number("start")?.unwrap_or(0),
        parameters.number("end")?.unwrap_or(0),
        parameters.number("limit")?.unwrap_or(0),
    )
}

async fn tags(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let parameters = Parameters::new(pairs);
    let scope = AskedScope::read(parameters.text("scope").unwrap_or_default())?;
    let tags = queries.traceql_tags(&tags_query(&parameters)?).await?;
    reply(&headers, &limits, &answers::tags(&tags, scope))
}

async fn tags_v2(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let parameters = Parameters::new(pairs);
    let scope = AskedScope::read(parameters.text("scope").unwrap_or_default())?;
    let tags = queries.traceql_tags(&tags_query(&parameters)?).await?;
    reply(&headers, &limits, &answers::tags_v2(&tags, scope))
}

async fn tag_values(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    Path(tag): Path<String>,
    UrlQuery(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let query = tags_query(&Parameters::new(pairs))?;
    let values = questions::values(&queries, &tag_name_v1(&tag), &query).await?;
    reply(&headers, &limits, &answers::tag_values(values))
}

async fn tag_values_v2(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    Path(tag): Path<String>,
    UrlQuery(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let query = tags_query(&Parameters::new(pairs))?;
    let values = questions::values(&queries, &decoded(&tag), &query).await?;
    reply(&headers, &limits, &answers::tag_values_v2(values))
}

/// The name of an attribute, as the first version has it, as a field of any scope.
fn tag_name_v1(tag: &str) -> String {
    let tag = decoded(tag);
    let is_intrinsic = matches!(tag.as_str(), "name" | "status" | "kind" | "statusMessage");
    match questions::field(&tag) {
        Ok(_) if is_intrinsic || tag.starts_with('.') || tag.contains(':') => tag,
        // A name may have dots, and begin like a scope.
        _ if tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte)) => {
            format!(".{tag}")
        }
        _ => format!(".{}", serde_json::Value::from(tag.as_str())),
    }
}

/// Grafana encodes the tag twice.
fn decoded(tag: &str) -> String {
    if !tag.contains('%') {
        return tag.to_owned();
    }
    let mut bytes = Vec::with_capacity(tag.len());
    let mut rest = tag.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let byte = (*first == b'%').then(|| {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        match byte.flatten() {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| tag.to_owned())
}

async fn query_range(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let parameters = Parameters::new(pairs);
    let (start, end) = parameters.metrics_time()?;
    let asked = questions::range(&QueryRangeRequest {
        query: metrics_query(&parameters)?,
        start,
        end,
        step: parameters.step((start, end))?,
        exemplars: parameters.number("exemplars")?.unwrap_or(0),
        max_series: parameters.number("maxSeries")?.unwrap_or(0),
    })?;
    let _evaluating = limits.to_evaluate().await?;
    let answer = queries.traceql_metrics(&asked).await?;
    reply(&headers, &limits, &answers::range(&answer, asked.grid))
}

async fn query_instant(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let parameters = Parameters::new(pairs);
    let (start, end) = parameters.metrics_time()?;
    let query = metrics_query(&parameters)?;
    let asked = questions::instant(&QueryInstantRequest { query, start, end })?;
    let _evaluating = limits.to_evaluate().await?;
    let answer = queries.traceql_metrics(&asked).await?;
    reply(&headers, &limits, &answers::instant(&answer))
}

fn metrics_query(parameters: &Parameters) -> Result<String, Refusal> {
    let query = parameters.text("q").or_else(|| parameters.text("query"));
    query
        .map(str::to_owned)
        .ok_or_else(|| Refusal::invalid("there is no query; write for example q={} | rate()"))
}
