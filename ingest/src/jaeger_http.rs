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

use crate::counters;
use crate::failure::Failure;
use crate::refusals::Caller;
use crate::server::Shared;
use crate::{body, plain, take};

/// The one path, and plain words for others.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
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
    shared.counters.add(counters::JAEGER_HTTP_REQUESTS, 1);
    let (parts, body) = request.into_parts();
    let from = Caller::new("Jaeger/HTTP", &parts.extensions);
    plain::answer(&shared, from, take(&shared, &parts.headers, body).await)
}

async fn take(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Rejections, Failure> {
    let ((), encoding, bytes, lease) =
        body::receive(shared, thrift(headers), headers, body).await?;
    let counter = counters::JAEGER_SPANS;
    let taken = take::take(shared, encoding, bytes, lease, counter, |bytes, limits| {
        Ok(decode_thrift(bytes, &limits.otlp)?)
    });
    taken.await?.some()
}

/// Clients name one of these two types, or none.
fn thrift(headers: &HeaderMap) -> Result<(), Failure> {
    match plain::content_type(headers).as_str() {
        "" | "application/x-thrift" | "application/vnd.apache.thrift.binary" => Ok(()),
        _ => Err(Failure::Unsupported(
            "Content-Type must be application/x-thrift (or application/vnd.apache.thrift.binary)"
                .to_owned(),
        )),
    }
}
