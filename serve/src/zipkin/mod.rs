//! Zipkin's API of version 2 (zipkin-api `zipkin2-api.yaml`), and what Zipkin's own UI asks for
//! besides it.

mod names;
mod parameters;
mod search;
mod span;
mod ui;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query as UrlQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use spanwise_model::WrittenId;
use spanwise_query::{PagePosition, Queries, QueryError, TraceQuery, TraceTree};

use crate::Shared;
use crate::answer_limits::AnswerLimits;
use crate::problem::Problem;
use crate::{dialect, slow_reader};
use parameters::{Pairs, Parameters};

/// The most traces that one request names.
const MOST_TRACES: usize = 1_000;

/// The routes below `/zipkin`.
pub(crate) fn router() -> Router<Shared> {
    Router::new()
        .route("/api/v2/services", get(names::services))
        .route("/api/v2/spans", get(names::spans))
        .route("/api/v2/remoteServices", get(names::remote_services))
        .route("/api/v2/traces", get(search::traces))
        .route("/api/v2/trace/{id}", get(trace))
        .route("/api/v2/traceMany", get(trace_many))
        .route("/api/v2/dependencies", get(names::dependencies))
        .route("/api/v2/autocompleteKeys", get(names::autocomplete_keys))
        .route("/api/v2/autocompleteValues", get(names::autocomplete_values))
        .route("/config.json", get(ui::config))
        .route("/health", get(ui::health))
        .route("/info", get(ui::info))
}

/// A failure as Zipkin tells it: a sentence.
#[derive(Debug)]
pub(crate) struct Failure(StatusCode, String);

impl Failure {
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
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
        (self.0, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{}\n", self.1))
            .into_response()
    }
}

type Answer = Result<Response, Failure>;

/// An answer as JSON.
fn json(value: &impl Serialize) -> Answer {
    let json = serde_json::to_vec(value).map_err(|error| Failure::internal(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// `GET /api/v2/trace/{id}`
async fn trace(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    Path(id): Path<String>,
) -> Answer {
    let id = read_id(&id)?;
    let _reading = limits.to_read().await?;
    let tree = match whole(&queries, id).await? {
        Some(tree) => tree,
        None => {
            let text = dialect::placed::short_id(id.trace());
            return Err(Failure(StatusCode::NOT_FOUND, format!("{text} not found")));
        }
    };
    let written = tokio::task::spawn_blocking(move || span::list(&tree)).await;
    let written = written.map_err(|error| Failure::internal(&error))?;
    large(&limits, written.map_err(|error| Failure::internal(&error))?)
}

/// `GET /api/v2/traceMany`
async fn trace_many(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let parameters = Parameters::new(pairs);
    let texts = parameters.text("traceIds").unwrap_or_default();
    if texts.is_empty() {
        return Err(Failure::invalid("traceIds parameter is empty"));
    }
    let mut ids: Vec<WrittenId> = Vec::new();
    for text in texts.split(',') {
        let id = read_id(text)?;
        if ids.contains(&id) {
            return Err(Failure::invalid(format!("redundant traceId: {}", text.trim())));
        }
        if ids.len() == MOST_TRACES {
            return Err(Failure::invalid(format!("at most {MOST_TRACES} traceIds are taken")));
        }
        ids.push(id);
    }
    if ids.len() == 1 {
        return Err(Failure::invalid(
            "Use /api/v2/trace/{traceId} endpoint to retrieve a single trace",
        ));
    }
    let _reading = limits.to_read().await?;
    let mut traces = Vec::new();
    let mut spans = 0;
    for id in ids {
        let Some(tree) = whole(&queries, id).await? else { continue };
        spans += tree.len();
        if spans > search::MAX_SPANS {
            return Err(Failure::invalid(format!(
                "these traces have more than {} spans; ask for fewer at a time",
                search::MAX_SPANS
            )));
        }
        traces.push(tree);
    }
    large(&limits, search::write(traces).await?)
}

/// An answer that may be large.
fn large(limits: &AnswerLimits, json: Vec<u8>) -> Answer {
    let permit = limits.to_answer(json.len())?;
    let body = slow_reader::answer(json, permit);
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// The whole trace with this id; `None` where there is none.
async fn whole(queries: &Queries, id: WrittenId) -> Result<Option<Arc<TraceTree>>, Failure> {
    let query = TraceQuery { id, page: PagePosition::Whole, limit: usize::MAX, snapshot: None };
    match queries.trace(&query).await {
        Ok(answer) => Ok(Some(answer.tree)),
        Err(QueryError::TraceNotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A trace id of up to 32 hexadecimal digits.
fn read_id(text: &str) -> Result<WrittenId, Failure> {
    let text = text.trim();
    let wrong = |why: &str| {
        let shown: String = text.chars().take(64).collect();
        Failure::invalid(format!("{shown} should be a trace id: {why}"))
    };
    if text.is_empty() || text.len() > 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong("1 to 32 lower-hex characters"));
    }
    WrittenId::read(text).ok_or_else(|| wrong("not all zeros"))
}
