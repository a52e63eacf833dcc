//! Version 1, by HTTP (jaeger `cmd/query/app/http_handler.go`): what is asked below `/api`.

mod model;
mod parameters;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query as UrlQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use spanwise_model::{ModelError, TraceId};
use spanwise_query::{Queries, QueryError, TraceTree};

use super::search::asked_id;
use crate::answer_limits::AnswerLimits;
use crate::dialect::placed::{Reading, short_id};
use crate::dialect::with_warnings;
use crate::problem::Problem;
use crate::{Shared, slow_reader};
use model::{DependencyLink, Operation};
use parameters::{Pairs, Parameters};

/// The most spans of several traces.
const MAX_SPANS: usize = 200_000;

pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/api/services", get(services))
        .route("/api/services/{service}/operations", get(operation_names))
        .route("/api/operations", get(operations))
        .route("/api/traces", get(traces))
        .route("/api/traces/{id}", get(trace))
        .route("/api/archive/{id}", post(archive))
        .route("/api/dependencies", get(dependencies))
        .route("/api/metrics/{what}", get(metrics))
}

/// Every answer, and every failure.
#[derive(Debug, Serialize)]
struct Structured<T> {
    data: Option<T>,
    total: usize,
    limit: usize,
    offset: usize,
    errors: Option<Vec<StructuredError>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StructuredError {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    msg: String,
    #[serde(rename = "traceID", skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
}

impl<T: Serialize> Structured<T> {
    /// Without its `total`, which only lists of names have.
    const fn of(data: T) -> Self {
        Self { data: Some(data), total: 0, limit: 0, offset: 0, errors: None }
    }

    fn answer(&self) -> Answer {
        let json = serde_json::to_vec(self).map_err(|error| Failure::internal(&error))?;
        Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
    }
}

impl<T: Serialize> Structured<Vec<T>> {
    fn names(data: Vec<T>) -> Self {
        Self { total: data.len(), ..Self::of(data) }
    }
}

/// A failure, with its status.
#[derive(Debug)]
struct Failure(StatusCode, String);

impl Failure {
    fn invalid(detail: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, detail.into())
    }

    fn internal(detail: &impl std::fmt::Display) -> Self {
        Problem::internal(detail.to_string()).into()
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let (status, detail) = problem.into_parts();
        Self(status, detail)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(status, msg) = self;
        let errors = vec![StructuredError { code: Some(status.as_u16()), msg, trace_id: None }];
        let body =
            Structured::<()> { data: None, total: 0, limit: 0, offset: 0, errors: Some(errors) };
        let json = serde_json::to_vec(&body).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
    }
}

type Answer = Result<Response, Failure>;

async fn services(State(queries): State<Queries>) -> Answer {
    Structured::names(super::services(&queries).await?).answer()
}

async fn operation_names(State(queries): State<Queries>, Path(service): Path<String>) -> Answer {
    let mut names: Vec<String> = super::operations(&queries, &service, "")
        .await?
        .into_iter()
        .map(|operation| operation.name)
        .collect();
    names.dedup();
    Structured::names(names).answer()
}

async fn operations(State(queries): State<Queries>, UrlQuery(pairs): UrlQuery<Pairs>) -> Answer {
    let parameters = Parameters::new(pairs);
    let service = parameters
        .text("service")
        .ok_or_else(|| Failure::invalid("parameter 'service' is required"))?;
    let kind = parameters.text("spanKind").unwrap_or_default();
    let operations = super::operations(&queries, service, kind).await?;
    Structured::names(operations.into_iter().map(Operation::from).collect()).answer()
}

async fn traces(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let parameters = Parameters::new(pairs);
    let reading = parameters.reading()?;
    let ids = parameters.ids()?;
    if ids.is_empty() {
        let search = parameters.search()?;
        let _reading = limits.to_read().await?;
        let answer = search.run(&queries).await?;
        let found = answer.traces.into_iter().map(|tree| (tree.trace.trace_id, Arc::new(tree)));
        let json = write(found.collect(), reading, None).await?;
        return Ok(with_warnings(large(&limits, json)?, &answer.warnings));
    }
    let _reading = limits.to_read().await?;
    let (mut found, mut missing, mut spans) = (Vec::new(), Vec::new(), 0);
    for id in ids {
        match super::trace(&queries, id).await? {
            Some(tree) => {
                spans += tree.len();
                found.push((asked_id(id), tree));
            }
            None => missing.push(StructuredError {
                code: None,
                msg: "trace not found".to_owned(),
                trace_id: Some(short_id(id.trace())),
            }),
        }
        if spans > MAX_SPANS {
            return Err(Failure::invalid(format!(
                "these traces have more than {MAX_SPANS} spans; ask for fewer at a time"
            )));
        }
    }
    let errors = (!missing.is_empty()).then_some(missing);
    let json = write(found, reading, errors).await?;
    large(&limits, json)
}

async fn trace(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    Path(id): Path<String>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let reading = Parameters::new(pairs).reading()?;
    let id = super::read_id(&id).map_err(Failure::invalid)?;
    let _reading = limits.to_read().await?;
    let tree = super::trace(&queries, id).await?;
    let tree = tree.ok_or_else(not_found)?;
    let json = write(vec![(asked_id(id), tree)], reading, None).await?;
    large(&limits, json)
}

fn not_found() -> Failure {
    Failure(StatusCode::NOT_FOUND, "trace not found".to_owned())
}

/// Traces, each under its id, as an answer.
async fn write(
    traces: Vec<(TraceId, Arc<TraceTree>)>,
    reading: Reading,
    errors: Option<Vec<StructuredError>>,
) -> Result<Vec<u8>, Failure> {
    let errors = serde_json::to_vec(&errors).map_err(|error| Failure::internal(&error))?;
    let write = move || -> Result<Vec<u8>, ModelError> {
        let mut json = br#"{"data":["#.to_vec();
        for (place, (id, tree)) in traces.iter().enumerate() {
            if place > 0 {
                json.push(b',');
            }
            model::write(tree, *id, reading, &mut json)?;
        }
        json.extend_from_slice(br#"],"total":0,"limit":0,"offset":0,"errors":"#);
        json.extend(errors);
        json.push(b'}');
        Ok(json)
    };
    let written = tokio::task::spawn_blocking(write).await;
    let written = written.map_err(|error| Failure::internal(&error))?;
    written.map_err(|error| Failure::internal(&error))
}

fn large(limits: &AnswerLimits, json: Vec<u8>) -> Answer {
    let permit = limits.to_answer(json.len())?;
    let body = slow_reader::answer(json, permit);
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Nothing is archived: the answer says so, in Jaeger's words for a storage that cannot.
async fn archive(State(queries): State<Queries>, Path(id): Path<String>) -> Answer {
    let id = super::read_id(&id).map_err(Failure::invalid)?;
    if super::trace(&queries, id).await?.is_none() {
        return Err(not_found());
    }
    Err(Failure(
        StatusCode::INTERNAL_SERVER_ERROR,
        "archive storage was not configured: Spanwise keeps all spans for one time (retain.age); \
         download the trace to keep it longer"
            .to_owned(),
    ))
}

async fn dependencies(State(queries): State<Queries>, UrlQuery(pairs): UrlQuery<Pairs>) -> Answer {
    let parameters = Parameters::new(pairs);
    let time = parameters.dependencies_time()?;
    let service = parameters.text("service");
    let (links, warnings) = super::dependencies(&queries, time).await?;
    let is_wanted = |link: &super::Dependency| {
        service.is_none_or(|service| link.parent == service || link.child == service)
    };
    let links = links.into_iter().filter(is_wanted).map(DependencyLink::from);
    Ok(with_warnings(Structured::of(links.collect::<Vec<_>>()).answer()?, &warnings))
}

/// Jaeger reads its metrics from a Prometheus, which is not here.
async fn metrics() -> Answer {
    Err(Failure(
        StatusCode::NOT_IMPLEMENTED,
        "metrics querying is currently disabled: rates, errors and durations of services are in \
         the UI of Spanwise, and in /api/v1/graph"
            .to_owned(),
    ))
}
