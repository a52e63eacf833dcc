//! Jaeger's collector over gRPC (jaeger-idl `api_v2/collector.proto`).

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use spanwise_wire::DecodeError;
use spanwise_wire::jaeger::{decode_protobuf, decode_protobuf_span};
use spanwise_wire::otlp::{Decoded, Rejections};
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};

use super::SPANS;
use crate::receivers::shared::Shared;
use crate::receivers::{Receiver, Service, otlp, pipeline};
use crate::transport::failure::Failure;
use crate::transport::refusals::Caller;
use crate::transport::unary;

/// See [`super::super::RECEIVERS`].
pub(in crate::receivers) static RECEIVER: Receiver = Receiver {
    setting: "listen.jaeger_grpc",
    flag: "jaeger-grpc",
    title: "Jaeger over gRPC",
    takes: "Jaeger's spans over gRPC",
    banner: "Jaeger",
    banner_note: "(gRPC)",
    default_port: 14250,
    is_optional: true,
    path: "",
    counters: &[&[REQUESTS, SPANS]],
    service: Service::Http(router),
};

const REQUESTS: &str = "jaeger_grpc_requests";

const POST_SPANS: &str = "/jaeger.api_v2.CollectorService/PostSpans";
const WRITE_SPAN: &str = "/jaeger.storage.v1.SpanWriterPlugin/WriteSpan";
const CLOSE_WRITER: &str = "/jaeger.storage.v1.SpanWriterPlugin/Close";
const SAMPLING: &str = "/jaeger.api_v2.SamplingManager/GetSamplingStrategy";

/// The CollectorService, and explanations for other services that clients call here.
fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(POST_SPANS, post(post_spans))
        .route(SAMPLING, post(no_sampling))
        .method_not_allowed_fallback(unknown)
        .fallback(unknown)
        .with_state(shared)
}

/// What a Jaeger of version 1 writes to its storage by (`jaeger.storage.v1`).
pub(in crate::receivers) fn storage_writer(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(WRITE_SPAN, post(write_span))
        .route(CLOSE_WRITER, post(|| async { unary::succeeded(&[]) }))
        .with_state(shared)
}

/// Where those belong who do not speak gRPC.
fn instead(shared: &Shared) -> String {
    shared.where_is(&super::http::RECEIVER)
}

async fn no_sampling(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let from = Caller::new("Jaeger/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, || instead(&shared)) {
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
    if let Some(answer) = unary::not_grpc(&shared, from, &request, || instead(&shared)) {
        return answer;
    }
    let elsewhere = shared.where_is(&otlp::grpc::RECEIVER);
    let services = format!("this port takes jaeger.api_v2.CollectorService; {elsewhere}");
    shared.not_here(from, request.uri().path(), &services);
    unary::failed(RpcStatus::new(RpcCode::Unimplemented, services))
}

async fn post_spans(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    receive(&shared, request, decode_protobuf).await
}

async fn write_span(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    receive(&shared, request, decode_protobuf_span).await
}

async fn receive(
    shared: &Shared,
    request: Request,
    decode: fn(&[u8], &spanwise_wire::otlp::Limits) -> Result<Decoded, DecodeError>,
) -> Response {
    shared.counters.add(REQUESTS, 1);
    let from = Caller::new("Jaeger/gRPC", request.extensions());
    if let Some(answer) = unary::not_grpc(shared, from, &request, || instead(shared)) {
        return answer;
    }
    match take(shared, request, decode).await {
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

async fn take(
    shared: &Shared,
    request: Request,
    decode: fn(&[u8], &spanwise_wire::otlp::Limits) -> Result<Decoded, DecodeError>,
) -> Result<Rejections, Failure> {
    let (encoding, message, lease) = unary::read(shared, request, || instead(shared)).await?;
    let taken = pipeline::take(shared, encoding, message, lease, SPANS, move |bytes, limits| {
        Ok(decode(bytes, &limits.otlp)?)
    });
    taken.await?.some()
}
