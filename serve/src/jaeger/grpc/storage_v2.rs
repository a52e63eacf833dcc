//! `jaeger.storage.v2`: what a Jaeger of version 2 reads its storage by.

use std::sync::Arc;

use axum::extract::{Request, State};
use spanwise_query::{Queries, TraceTree};

use super::api_v3::{SUMMARIES, answer_dependencies, services_of};
use super::messages::{
    Capabilities, Empty, FoundId, FoundIds, SearchCapabilities, StorageFindRequest,
    StorageSummaries, StorageSummary, TracesRequest,
};
use super::question::{id, timestamp};
use super::{Answer, send_traces, traces_by_id, with_ids};
use crate::answer_limits::AnswerLimits;
use crate::dialect::grpc::{self, Status};
use crate::dialect::placed::Reading;
use crate::jaeger::search::Search;
use crate::jaeger::summary::TraceSummary;

/// Who counted the calls.
const SOURCE: &str = "spanwise";
/// The most traces of a question.
const MOST_TRACES: usize = 1_500;

/// `GetTraces`. Ids that are not known are left out.
pub(super) async fn traces(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let TracesRequest { query } = grpc::read(request).await?;
    if query.len() > MOST_TRACES {
        return Err(Status::invalid(format!(
            "at most {MOST_TRACES} traces are answered at a time"
        )));
    }
    let ids = query.iter().map(|one| id(&one.trace_id)).collect::<Result<Vec<_>, _>>()?;
    let _reading = limits.to_read().await?;
    let found = traces_by_id(&queries, ids).await?;
    send_traces(&limits, found, Reading::Assembled, &[]).await
}

async fn search(request: Request) -> Result<Search, Status> {
    let request: StorageFindRequest = grpc::read(request).await?;
    request.query.ok_or_else(|| Status::invalid("missing query"))?.search()
}

pub(super) async fn find_traces(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let search = search(request).await?;
    let _reading = limits.to_read().await?;
    let found = search.run(&queries).await?;
    send_traces(&limits, with_ids(found.traces), Reading::Assembled, &found.warnings).await
}

pub(super) async fn find_ids(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let search = search(request).await?;
    let _reading = limits.to_read().await?;
    let found = search.run(&queries).await?;
    let id = |tree: &TraceTree| FoundId {
        trace_id: tree.trace.trace_id.0.to_vec(),
        start: Some(timestamp(tree.start_unix_nano)),
        end: Some(timestamp(tree.start_unix_nano.saturating_add(tree.duration_nano))),
    };
    let ids = FoundIds { trace_ids: found.traces.iter().map(id).collect() };
    Ok(grpc::stream(vec![grpc::framed(&ids)], &found.warnings, ()))
}

pub(super) async fn find_summaries(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let search = search(request).await?;
    let _reading = limits.to_read().await?;
    let found = search.run(&queries).await?;
    super::send(&limits, &found.warnings, move || {
        let summaries = found.traces.iter().map(|tree| TraceSummary::of(tree).map(summary));
        let summaries: Vec<StorageSummary> = summaries.collect::<Result<_, _>>()?;
        let message =
            |part: &[StorageSummary]| grpc::framed(&StorageSummaries { summaries: part.to_vec() });
        Ok(summaries.chunks(SUMMARIES).map(message).collect())
    })
    .await
}

fn summary(summary: TraceSummary) -> StorageSummary {
    StorageSummary {
        trace_id: summary.trace_id.0.to_vec(),
        root_service_name: summary.root_service,
        root_operation_name: summary.root_operation,
        min_start_time_unix_nano: summary.start_unix_nano,
        max_end_time_unix_nano: summary.end_unix_nano,
        span_count: summary.spans,
        error_span_count: summary.errors,
        orphan_span_count: summary.orphans,
        services: services_of(summary.services),
    }
}

pub(super) async fn dependencies(State(queries): State<Queries>, request: Request) -> Answer {
    answer_dependencies(&queries, request, SOURCE).await
}

/// A search needs no service, and all of it is met by one span. Filters are not understood.
pub(super) async fn capabilities(request: Request) -> Answer {
    grpc::read::<Empty>(request).await?;
    let search = SearchCapabilities { without_service_name: true, same_span_conjunction: true };
    Ok(grpc::unary(&Capabilities { search: Some(search) }))
}
