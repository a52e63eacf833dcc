//! The services of the gRPC port: OTLP, OTAP ([`super::super::otap`]) and agents
//! ([`super::super::flight`]).

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use spanwise_wire::otlp::{Rejections, response_protobuf};
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};
use tonic::service::Routes;

use super::{Format, SPANS};
use crate::receivers::otap;
use crate::receivers::shared::Shared;
use crate::receivers::{Receiver, Service, flight};
use crate::transport::failure::Failure;
use crate::transport::refusals::Caller;
use crate::transport::unary;

/// See [`super::super::RECEIVERS`].
pub(in crate::receivers) static RECEIVER: Receiver = Receiver {
    setting: "listen.otlp_grpc",
    flag: "otlp-grpc",
    title: "OTLP over gRPC",
    takes: "agents, and OTLP over gRPC",
    banner: "OTLP gRPC",
    banner_note: "(and agents)",
    default_port: 4317,
    is_optional: false,
    path: "",
    counters: &[&COUNTERS, &otap::COUNTERS, &flight::COUNTERS],
    service: Service::Http(router),
};

const REQUESTS: &str = "otlp_grpc_requests";

const COUNTERS: [&str; 2] = [REQUESTS, SPANS];

const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const ARROW_TRACES: &str =
    "/opentelemetry.proto.experimental.arrow.v1.ArrowTracesService/ArrowTraces";
const ARROW_LOGS: &str = "/opentelemetry.proto.experimental.arrow.v1.ArrowLogsService/ArrowLogs";
const ARROW_METRICS: &str =
    "/opentelemetry.proto.experimental.arrow.v1.ArrowMetricsService/ArrowMetrics";
const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// The TraceService, OTAP, agents' Flight, and explanations for other services.
fn router(shared: Arc<Shared>) -> Router {
    let flight = flight::service(Arc::clone(&shared));
    Routes::from(services(shared)).add_service(flight).into_axum_router()
}

fn services(shared: Arc<Shared>) -> Router {
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

/// The TraceService alone, beside what else a port answers to.
pub(in crate::receivers) fn writer(shared: Arc<Shared>) -> Router {
    Router::new().route(TRACES, post(export)).with_state(shared)
}

/// Where those belong who do not speak gRPC.
pub(in crate::receivers) fn instead(shared: &Shared) -> String {
    shared.where_is(&super::http::RECEIVER)
}

async fn only_traces(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let from = Caller::new("OTLP/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, || instead(&shared)) {
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
    if let Some(answer) = unary::not_grpc(&shared, from, &request, || instead(&shared)) {
        return answer;
    }
    let services =
        "this port takes the OTLP TraceService, the OTAP ArrowTracesService and Arrow Flight DoPut";
    shared.not_here(from, request.uri().path(), services);
    unary::failed(RpcStatus::new(RpcCode::Unimplemented, services))
}

async fn export(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.counters.add(REQUESTS, 1);
    let from = Caller::new("OTLP/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, || instead(&shared)) {
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
    let (encoding, message, lease) = unary::read(shared, request, || instead(shared)).await?;
    super::take(shared, Format::Protobuf, encoding, message, lease).await
}
