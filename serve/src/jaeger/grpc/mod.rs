//! Jaeger's services by gRPC: `jaeger.api_v3.QueryService` and its elder, and those by which a
//! Jaeger reads a storage that is elsewhere, in version 2 and in version 1 (jaeger-idl `proto/`).

mod api_v3;
mod messages;
mod model;
mod question;
mod storage_v1;
mod storage_v2;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use spanwise_model::{ModelError, TraceId};
use spanwise_query::{Queries, TraceTree};

use crate::answer_limits::AnswerLimits;
use crate::dialect::grpc::{self, Code, Status};
use crate::dialect::otlp;
use crate::dialect::placed::Reading;
use crate::wrong_port::is_grpc;
use crate::{ApiState, Shared, wrong_port};

/// All services, and plain words for what else is asked for.
pub(crate) fn router() -> Router<Shared> {
    let query = |method: &str| format!("/jaeger.api_v3.QueryService/{method}");
    let old_query = |method: &str| format!("/jaeger.api_v2.QueryService/{method}");
    let reader = |method: &str| format!("/jaeger.storage.v2.TraceReader/{method}");
    let old_reader = |method: &str| format!("/jaeger.storage.v1.SpanReaderPlugin/{method}");
    Router::new()
        .route(&query("GetTrace"), post(api_v3::trace))
        .route(&query("FindTraces"), post(api_v3::find_traces))
        .route(&query("FindTraceSummaries"), post(api_v3::find_summaries))
        .route(&query("GetServices"), post(api_v3::services))
        .route(&query("GetOperations"), post(api_v3::operations))
        .route(&query("GetDependencies"), post(api_v3::dependencies))
        .route(&old_query("GetTrace"), post(storage_v1::trace))
        .route(&old_query("FindTraces"), post(storage_v1::find_traces))
        .route(&old_query("GetServices"), post(api_v3::services))
        .route(&old_query("GetOperations"), post(storage_v1::operations))
        .route(&old_query("GetDependencies"), post(storage_v1::dependencies))
        .route(&old_query("ArchiveTrace"), post(storage_v1::archive))
        .route(&reader("GetTraces"), post(storage_v2::traces))
        .route(&reader("FindTraces"), post(storage_v2::find_traces))
        .route(&reader("FindTraceIDs"), post(storage_v2::find_ids))
        .route(&reader("FindTraceSummaries"), post(storage_v2::find_summaries))
        .route(&reader("GetServices"), post(api_v3::services))
        .route(&reader("GetOperations"), post(api_v3::operations))
        .route(
            "/jaeger.storage.v2.DependencyReader/GetDependencies",
            post(storage_v2::dependencies),
        )
        .route("/jaeger.storage.v2.Capabilities/GetCapabilities", post(storage_v2::capabilities))
        .route(&old_reader("GetTrace"), post(storage_v1::trace))
        .route(&old_reader("FindTraces"), post(storage_v1::find_traces))
        .route(&old_reader("FindTraceIDs"), post(storage_v1::find_ids))
        .route(&old_reader("GetServices"), post(api_v3::services))
        .route(&old_reader("GetOperations"), post(storage_v1::operations))
        .route(
            "/jaeger.storage.v1.DependenciesReaderPlugin/GetDependencies",
            post(storage_v1::dependencies),
        )
        .route("/jaeger.storage.v1.PluginCapabilities/Capabilities", post(storage_v1::capabilities))
        .fallback(unknown)
}

async fn unknown(State(state): State<ApiState>, uri: Uri, headers: HeaderMap) -> Response {
    if is_grpc(&headers) {
        let message = "this port has the QueryService of jaeger.api_v3 and jaeger.api_v2, \
                       jaeger.storage.v2 and jaeger.storage.v1, and takes spans for them by OTLP's TraceService";
        return Status::new(Code::Unimplemented, message).into_response();
    }
    wrong_port::answer(&state.status.receivers(), uri.path(), &headers)
}

type Answer = Result<Response, Status>;

/// Traces, each under its id, as a stream of OTLP's messages. Those of one trace follow each
/// other.
async fn send_traces(
    limits: &AnswerLimits,
    traces: Vec<(TraceId, Arc<TraceTree>)>,
    reading: Reading,
    warnings: &[String],
) -> Answer {
    send(limits, warnings, move || {
        let mut messages = Vec::new();
        for (id, tree) in &traces {
            otlp::parts(tree, *id, reading, |part| messages.push(grpc::framed(&part)))?;
        }
        Ok(messages)
    })
    .await
}

/// A stream of messages, which are written on a thread of their own.
async fn send(
    limits: &AnswerLimits,
    warnings: &[String],
    write: impl FnOnce() -> Result<Vec<Bytes>, ModelError> + Send + 'static,
) -> Answer {
    let written = tokio::task::spawn_blocking(write).await;
    let messages = written.map_err(|error| Status::internal(&error))?;
    let messages = messages.map_err(|error| Status::internal(&error))?;
    let bytes = messages.iter().map(Bytes::len).sum();
    let permit = limits.to_answer(bytes)?;
    Ok(grpc::stream(messages, warnings, permit))
}

/// The trees with their ids.
fn with_ids(traces: Vec<TraceTree>) -> Vec<(TraceId, Arc<TraceTree>)> {
    traces.into_iter().map(|tree| (tree.trace.trace_id, Arc::new(tree))).collect()
}

/// The trace with this id, with the id that it is shown under; none where there is none.
async fn traces_by_id(
    queries: &Queries,
    ids: Vec<spanwise_model::WrittenId>,
) -> Result<Vec<(TraceId, Arc<TraceTree>)>, Status> {
    let mut found = Vec::new();
    for id in ids {
        let tree = super::trace(queries, id).await?;
        found.extend(tree.map(|tree| (super::search::asked_id(id), tree)));
    }
    Ok(found)
}
