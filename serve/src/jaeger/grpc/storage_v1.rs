//! `jaeger.storage.v1`, by which a Jaeger of version 1 reads its storage
//! (`SPAN_STORAGE_TYPE=grpc`), and `jaeger.api_v2.QueryService`, which has the same messages.
//! Spans are Jaeger's own.

use std::sync::Arc;

use axum::extract::{Request, State};
use spanwise_model::TraceId;
use spanwise_query::{Queries, TraceTree};

use super::api_v3::{answer_dependencies, listed, reading};
use super::messages::{
    Empty, FindRequest, OldCapabilities, OldFoundIds, OldOperations, OldTraceRequest,
    OperationsRequest,
};
use super::question::id;
use super::{Answer, model, traces_by_id, with_ids};
use crate::answer_limits::AnswerLimits;
use crate::dialect::grpc::{self, Code, Status};
use crate::dialect::placed::Reading;
use crate::jaeger::search::Search;

/// Who counted the calls.
const SOURCE: &str = "spanwise";

pub(super) async fn trace(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let OldTraceRequest { trace_id, raw_traces } = grpc::read(request).await?;
    let id = id(&trace_id)?;
    let _reading = limits.to_read().await?;
    let found = traces_by_id(&queries, vec![id]).await?;
    if found.is_empty() {
        return Err(Status::new(Code::NotFound, "trace not found"));
    }
    send(&limits, found, reading(raw_traces), &[]).await
}

async fn send(
    limits: &AnswerLimits,
    traces: Vec<(TraceId, Arc<TraceTree>)>,
    reading: Reading,
    warnings: &[String],
) -> Answer {
    super::send(limits, warnings, move || {
        let mut messages = Vec::new();
        for (id, tree) in &traces {
            messages.extend(model::parts(tree, *id, reading)?);
        }
        Ok(messages)
    })
    .await
}

async fn search(request: Request) -> Result<(Search, Reading), Status> {
    let request: FindRequest = grpc::read(request).await?;
    let query = request.query.ok_or_else(|| Status::invalid("missing query"))?;
    let reading = reading(query.raw_traces);
    Ok((query.search()?, reading))
}

pub(super) async fn find_traces(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let (search, reading) = search(request).await?;
    let _reading = limits.to_read().await?;
    let found = search.run(&queries).await?;
    send(&limits, with_ids(found.traces), reading, &found.warnings).await
}

pub(super) async fn find_ids(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let (search, _) = search(request).await?;
    let _reading = limits.to_read().await?;
    let found = search.run(&queries).await?;
    let trace_ids = found.traces.iter().map(|tree| tree.trace.trace_id.0.to_vec()).collect();
    Ok(grpc::stream(vec![grpc::framed(&OldFoundIds { trace_ids })], &found.warnings, ()))
}

pub(super) async fn operations(State(queries): State<Queries>, request: Request) -> Answer {
    let OperationsRequest { service, span_kind } = grpc::read(request).await?;
    let operations = listed(&queries, &service, &span_kind).await?;
    let mut names: Vec<String> = operations.iter().map(|one| one.name.clone()).collect();
    names.dedup();
    Ok(grpc::unary(&OldOperations { names, operations }))
}

pub(super) async fn dependencies(State(queries): State<Queries>, request: Request) -> Answer {
    answer_dependencies(&queries, request, SOURCE).await
}

/// There is no archive, and spans are written one by one.
pub(super) async fn capabilities(request: Request) -> Answer {
    grpc::read::<Empty>(request).await?;
    Ok(grpc::unary(&OldCapabilities::default()))
}

pub(super) async fn archive() -> Status {
    Status::new(
        Code::Unimplemented,
        "there is no archive: all spans are kept for one time (retain.age)",
    )
}
