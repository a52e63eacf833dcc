//! The services of the gRPC port: OTLP, and OTAP ([`crate::otap`]).

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use spanwise_wire::otlp::{Rejections, response_protobuf};
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};

use crate::counters;
use crate::failure::Failure;
use crate::otlp::{self, Format};
use crate::refusals::Caller;
use crate::server::Shared;
use crate::{otap, unary};

const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const ARROW_TRACES: &str =
    "/opentelemetry.proto.experimental.arrow.v1.ArrowTracesService/ArrowTraces";
const ARROW_LOGS: &str = "/opentelemetry.proto.experimental.arrow.v1.ArrowLogsService/ArrowLogs";
const ARROW_METRICS: &str =
    "/opentelemetry.proto.experimental.arrow.v1.ArrowMetricsService/ArrowMetrics";
const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// The TraceService, and plain words for the services that are not here.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(TRACES, post(export))
        .route(ARROW_TRACES, post(otap::traces))
        .route(ARROW_LOGS, post(only_traces))
        .route(ARROW_METRICS, post(only_traces))
        .route(LOGS, post(only_traces))
        .route(METRICS, post(only_traces))
        .method_not_allowed_fallback(unknown)
        .fallback(unknown)
        .with_state(shared)
}

pub(crate) const INSTEAD: &str =
    "OTLP over HTTP has its own port, by default 4318: POST /v1/traces";

async fn only_traces(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let from = Caller::new("OTLP/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, INSTEAD) {
        return answer;
    }
    unary::failed(RpcStatus::new(
        RpcCode::Unimplemented,
        "Spanwise takes traces only; turn off the exporter of this signal \
         (OTEL_LOGS_EXPORTER=none, OTEL_METRICS_EXPORTER=none)",
    ))
}

async fn unknown(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let from = Caller::new("OTLP/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, INSTEAD) {
        return answer;
    }
    let services =
        "this port takes the OTLP TraceService, the OTAP ArrowTracesService and Arrow Flight DoPut";
    shared.not_here(from, request.uri().path(), services);
    unary::failed(RpcStatus::new(RpcCode::Unimplemented, services))
}

async fn export(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.counters.add(counters::OTLP_GRPC_REQUESTS, 1);
    let from = Caller::new("OTLP/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, INSTEAD) {
        return answer;
    }
    match take(&shared, request).await {
        Ok(rejections) => {
            if let Some(message) = rejections.message() {
                shared.refused_in_part(from, &message);
            }
            unary::succeeded(&response_protobuf(&rejections))
        }
        Err(failure) => {
            shared.refused(from, &failure);
            unary::failed(failure.rpc_status())
        }
    }
}

async fn take(shared: &Arc<Shared>, request: Request) -> Result<Rejections, Failure> {
    let (encoding, message, lease) = unary::read(shared, request, INSTEAD).await?;
    otlp::take(shared, Format::Protobuf, encoding, message, lease).await
}
