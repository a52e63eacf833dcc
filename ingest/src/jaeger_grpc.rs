//! Jaeger's collector over gRPC (jaeger-idl `api_v2/collector.proto`).

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use spanwise_wire::jaeger::decode_protobuf;
use spanwise_wire::otlp::Rejections;
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};

use crate::counters;
use crate::failure::Failure;
use crate::refusals::Caller;
use crate::server::Shared;
use crate::take;
use crate::unary;

const POST_SPANS: &str = "/jaeger.api_v2.CollectorService/PostSpans";
const SAMPLING: &str = "/jaeger.api_v2.SamplingManager/GetSamplingStrategy";

/// The CollectorService, and plain words for what else clients ask for here.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(POST_SPANS, post(post_spans))
        .route(SAMPLING, post(no_sampling))
        .method_not_allowed_fallback(unknown)
        .fallback(unknown)
        .with_state(shared)
}

const INSTEAD: &str =
    "Jaeger thrift over HTTP has its own port, by default 14268: POST /api/traces";

async fn no_sampling(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let from = Caller::new("Jaeger/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, INSTEAD) {
        return answer;
    }
    unary::failed(RpcStatus::new(
        RpcCode::Unimplemented,
        "Spanwise tells nobody how to sample; choose a sampler in the client \
         (JAEGER_SAMPLER_TYPE=const, JAEGER_SAMPLER_PARAM=1)",
    ))
}

async fn unknown(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let from = Caller::new("Jaeger/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, INSTEAD) {
        return answer;
    }
    let services =
        "this port takes jaeger.api_v2.CollectorService; OTLP has its own, by default 4317";
    shared.not_here(from, request.uri().path(), services);
    unary::failed(RpcStatus::new(RpcCode::Unimplemented, services))
}

async fn post_spans(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.counters.add(counters::JAEGER_GRPC_REQUESTS, 1);
    let from = Caller::new("Jaeger/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, INSTEAD) {
        return answer;
    }
    match take(&shared, request).await {
        // `PostSpansResponse` has no fields: what was rejected is only counted.
        Ok(rejections) => {
            if let Some(message) = rejections.message() {
                shared.refused_in_part(from, &message);
            }
            unary::succeeded(&[])
        }
        Err(failure) => {
            shared.refused(from, &failure);
            unary::failed(failure.rpc_status())
        }
    }
}

async fn take(shared: &Shared, request: Request) -> Result<Rejections, Failure> {
    let (encoding, message, lease) = unary::read(shared, request, INSTEAD).await?;
    let counter = counters::JAEGER_SPANS;
    let taken = take::take(shared, encoding, message, lease, counter, |bytes, limits| {
        Ok(decode_protobuf(bytes, &limits.otlp)?)
    });
    taken.await?.some()
}
