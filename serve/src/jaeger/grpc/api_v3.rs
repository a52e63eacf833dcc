//! `jaeger.api_v3.QueryService`. Lists of names are the same in the storages' APIs.

use std::sync::Arc;

use axum::extract::{Request, State};
use spanwise_query::Queries;

use super::messages::{
    Dependencies, DependenciesRequest, Dependency, Empty, FindRequest, Operation, Operations,
    OperationsRequest, ServiceSummary, Services, Summaries, Summary, TraceRequest,
};
use super::{Answer, send_traces, traces_by_id, with_ids};
use crate::answer_limits::AnswerLimits;
use crate::dialect::grpc::{self, Code, Status};
use crate::dialect::placed::Reading;
use crate::jaeger::summary::TraceSummary;
use crate::jaeger::{self, read_id};

/// Summaries of one message.
pub(super) const SUMMARIES: usize = 100;

pub(super) async fn services(State(queries): State<Queries>, request: Request) -> Answer {
    grpc::read::<Empty>(request).await?;
    Ok(grpc::unary(&Services { services: jaeger::services(&queries).await? }))
}

pub(super) async fn operations(State(queries): State<Queries>, request: Request) -> Answer {
    let OperationsRequest { service, span_kind } = grpc::read(request).await?;
    let operations = listed(&queries, &service, &span_kind).await?;
    Ok(grpc::unary(&Operations { operations }))
}

pub(super) async fn listed(
    queries: &Queries,
    service: &str,
    kind: &str,
) -> Result<Vec<Operation>, Status> {
    let operations = jaeger::operations(queries, service, kind).await?.into_iter();
    let operation = |total: spanwise_query::OperationTotal| Operation {
        name: total.name,
        span_kind: total.kind.as_str().to_owned(),
    };
    Ok(operations.map(operation).collect())
}

pub(super) async fn trace(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let TraceRequest { trace_id, raw_traces } = grpc::read(request).await?;
    let id = read_id(&trace_id).map_err(Status::invalid)?;
    let _reading = limits.to_read().await?;
    let found = traces_by_id(&queries, vec![id]).await?;
    if found.is_empty() {
        return Err(Status::new(Code::NotFound, "trace not found"));
    }
    send_traces(&limits, found, reading(raw_traces), &[]).await
}

/// How traces are shown.
pub(super) const fn reading(is_raw: bool) -> Reading {
    if is_raw { Reading::Raw } else { Reading::Assembled }
}

pub(super) async fn find_traces(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let request: FindRequest = grpc::read(request).await?;
    let query = request.query.ok_or_else(|| Status::invalid("missing query"))?;
    let reading = reading(query.raw_traces);
    let search = query.search()?;
    let _reading = limits.to_read().await?;
    let found = search.run(&queries).await?;
    send_traces(&limits, with_ids(found.traces), reading, &found.warnings).await
}

pub(super) async fn find_summaries(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    request: Request,
) -> Answer {
    let request: FindRequest = grpc::read(request).await?;
    let query = request.query.ok_or_else(|| Status::invalid("missing query"))?;
    let search = query.search()?;
    let _reading = limits.to_read().await?;
    let found = search.run(&queries).await?;
    super::send(&limits, &found.warnings, move || {
        let summaries = found.traces.iter().map(|tree| TraceSummary::of(tree).map(summary));
        let summaries: Vec<Summary> = summaries.collect::<Result<_, _>>()?;
        let parts = summaries.chunks(SUMMARIES);
        Ok(parts.map(|part| grpc::framed(&Summaries { summaries: part.to_vec() })).collect())
    })
    .await
}

fn summary(summary: TraceSummary) -> Summary {
    Summary {
        trace_id: summary.trace_id.to_string(),
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

/// The services of a summary.
pub(super) fn services_of(services: Vec<(String, i32, i32)>) -> Vec<ServiceSummary> {
    let service = |(name, span_count, error_span_count)| ServiceSummary {
        name,
        span_count,
        error_span_count,
    };
    services.into_iter().map(service).collect()
}

pub(super) async fn dependencies(State(queries): State<Queries>, request: Request) -> Answer {
    answer_dependencies(&queries, request, "").await
}

/// Who called whom, as all of the APIs have it.
pub(super) async fn answer_dependencies(
    queries: &Queries,
    request: Request,
    source: &str,
) -> Answer {
    let request: DependenciesRequest = grpc::read(request).await?;
    let (links, warnings) = jaeger::dependencies(queries, request.time()).await?;
    let dependency = |link: jaeger::Dependency| Dependency {
        parent: link.parent,
        child: link.child,
        call_count: link.calls,
        source: source.to_owned(),
    };
    let dependencies = links.into_iter().map(dependency).collect();
    Ok(grpc::stream(vec![grpc::framed(&Dependencies { dependencies })], &warnings, ()))
}
