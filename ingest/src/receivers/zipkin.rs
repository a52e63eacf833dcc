//! Zipkin's collector: `POST /api/v1/spans` and `/api/v2/spans`
//! (zipkin-api `zipkin-api.yaml`, `zipkin2-api.yaml`).

use std::sync::Arc;

use ::http::HeaderMap;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use spanwise_wire::otlp::Rejections;
use spanwise_wire::zipkin::{Format, decode};

use super::shared::Shared;
use super::{Receiver, Service, pipeline};
use crate::clock::now_unix_nano;
use crate::transport::failure::Failure;
use crate::transport::refusals::Caller;
use crate::transport::{body, plain};

/// See [`super::RECEIVERS`].
pub(super) static RECEIVER: Receiver = Receiver {
    setting: "listen.zipkin",
    flag: "zipkin",
    title: "Zipkin",
    takes: "Zipkin's spans over HTTP",
    banner: "Zipkin",
    banner_note: "",
    default_port: 9411,
    is_optional: true,
    path: "/api/v2/spans",
    counters: &[&[REQUESTS, SPANS]],
    service: Service::Http(router),
};

const REQUESTS: &str = "zipkin_requests";
const SPANS: &str = "zipkin_spans_accepted";

/// Both versions, and explanations for other paths.
fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/api/v1/spans", post(version_1))
        .route("/api/v1/spans/", post(version_1))
        .route("/api/v2/spans", post(version_2))
        .route("/api/v2/spans/", post(version_2))
        .method_not_allowed_fallback(|| async { plain::only_post(HERE) })
        .fallback(unknown)
        .with_state(shared)
}

const HERE: &str = "this port takes Zipkin's spans: POST /api/v2/spans or /api/v1/spans";

async fn unknown(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    plain::not_here(&shared, "Zipkin", &request, HERE)
}

async fn version_1(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    receive(&shared, request, Format::V1Json, ("thrift", Format::V1Thrift)).await
}

async fn version_2(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    receive(&shared, request, Format::V2Json, ("protobuf", Format::V2Protobuf)).await
}

/// JSON is the default if there is no content type. Content types that a web page may send without
/// permission (`text/plain` and those of forms) are refused.
fn format(headers: &HeaderMap, json: Format, other: (&str, Format)) -> Result<Format, Failure> {
    let named = plain::content_type(headers);
    match named.as_str() {
        "" | "application/json" => Ok(json),
        named if named.ends_with(other.0) => Ok(other.1),
        _ => Err(Failure::Unsupported(format!(
            "Content-Type must be application/json or application/x-{} here",
            other.0
        ))),
    }
}

async fn receive(
    shared: &Shared,
    request: Request,
    json: Format,
    other: (&'static str, Format),
) -> Response {
    shared.counters.add(REQUESTS, 1);
    let (parts, body) = request.into_parts();
    let from = Caller::new("Zipkin", &parts.extensions);
    let format = format(&parts.headers, json, other);
    plain::answer(shared, from, take(shared, format, &parts.headers, body).await)
}

async fn take(
    shared: &Shared,
    format: Result<Format, Failure>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Rejections, Failure> {
    let (format, encoding, bytes, lease) = body::receive(shared, format, headers, body).await?;
    let arrived = now_unix_nano();
    let taken = pipeline::take(shared, encoding, bytes, lease, SPANS, move |bytes, limits| {
        Ok(decode(format, bytes, &limits.otlp, arrived)?)
    });
    taken.await?.some()
}
