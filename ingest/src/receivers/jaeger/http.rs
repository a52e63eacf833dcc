//! Jaeger's collector over HTTP: `POST /api/traces` with a thrift `Batch`.

use std::sync::Arc;

use ::http::HeaderMap;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use spanwise_wire::jaeger::decode_thrift;
use spanwise_wire::otlp::Rejections;

use super::SPANS;
use crate::receivers::shared::Shared;
use crate::receivers::{Receiver, Service, pipeline};
use crate::transport::failure::Failure;
use crate::transport::refusals::Caller;
use crate::transport::{body, plain};

/// See [`super::super::RECEIVERS`].
pub(in crate::receivers) static RECEIVER: Receiver = Receiver {
    setting: "listen.jaeger_http",
    flag: "jaeger-http",
    title: "Jaeger over HTTP",
    takes: "Jaeger's thrift over HTTP",
    banner: "Jaeger",
    banner_note: "",
    default_port: 14268,
    is_optional: true,
    path: "/api/traces",
    counters: &[&[REQUESTS, SPANS]],
    service: Service::Http(router),
};

const REQUESTS: &str = "jaeger_http_requests";

/// The only path, and explanations for other paths.
fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/api/traces", post(traces))
        .route("/api/traces/", post(traces))
        .method_not_allowed_fallback(|| async { plain::only_post(HERE) })
        .fallback(unknown)
        .with_state(shared)
}

const HERE: &str = "this port takes Jaeger's thrift: POST /api/traces";

async fn unknown(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    plain::not_here(&shared, "Jaeger/HTTP", &request, HERE)
}

async fn traces(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.counters.add(REQUESTS, 1);
    let (parts, body) = request.into_parts();
    let from = Caller::new("Jaeger/HTTP", &parts.extensions);
    plain::answer(&shared, from, take(&shared, &parts.headers, body).await)
}

async fn take(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Rejections, Failure> {
    let ((), encoding, bytes, lease) =
        body::receive(shared, thrift(headers), headers, body).await?;
    let taken = pipeline::take(shared, encoding, bytes, lease, SPANS, |bytes, limits| {
        Ok(decode_thrift(bytes, &limits.otlp)?)
    });
    taken.await?.some()
}

/// Clients send one of these two content types, or none.
fn thrift(headers: &HeaderMap) -> Result<(), Failure> {
    match plain::content_type(headers).as_str() {
        "" | "application/x-thrift" | "application/vnd.apache.thrift.binary" => Ok(()),
        _ => Err(Failure::Unsupported(
            "Content-Type must be application/x-thrift (or application/vnd.apache.thrift.binary)"
                .to_owned(),
        )),
    }
}
