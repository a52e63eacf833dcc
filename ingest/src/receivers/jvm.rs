//! Batches of the JVM agent (docs/jvm-format.md): `POST /v1/jvm` on the port for OTLP over HTTP. The
//! answer tells the agent its settings.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use spanwise_wire::jvm::decode;

use super::pipeline;
use super::shared::Shared;
use crate::transport::failure::Failure;
use crate::transport::refusals::Caller;
use crate::transport::{body, plain};

const REQUESTS: &str = "jvm_requests";
const SPANS: &str = "jvm_spans_accepted";
const DROPPED_RING_FULL: &str = "jvm_spans_dropped_ring_full";
const DROPPED_TOO_DEEP: &str = "jvm_spans_dropped_too_deep";
pub(super) const COUNTERS: &[&str] = &[REQUESTS, SPANS, DROPPED_RING_FULL, DROPPED_TOO_DEEP];
const PATH: &str = "/v1/jvm";
/// A page cannot send this content type without permission.
const CONTENT_TYPE: &str = "application/x-spanwise-jvm";

pub(super) fn router() -> Router<Arc<Shared>> {
    Router::new().route(PATH, post(batch))
}

async fn batch(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.counters.add(REQUESTS, 1);
    let (parts, body) = request.into_parts();
    let from = Caller::new("the JVM agent", &parts.extensions);
    let named = match plain::content_type(&parts.headers).as_str() {
        CONTENT_TYPE => Ok(()),
        _ => Err(Failure::Unsupported(format!("Content-Type must be {CONTENT_TYPE} here"))),
    };
    let received = body::receive(&shared, named, &parts.headers, body).await;
    let (said, told) = std::sync::mpsc::sync_channel(1);
    let taken = match received {
        Ok(((), encoding, bytes, lease)) => {
            let decode = move |bytes: &[u8], limits: &crate::Limits| {
                let batch = decode(bytes, &limits.otlp)?;
                let facts = (batch.service, batch.dropped_ring_full, batch.dropped_too_deep);
                // There is room for one.
                let _ = said.try_send(facts);
                Ok(batch.decoded)
            };
            pipeline::take(&shared, encoding, bytes, lease, SPANS, decode).await
        }
        Err(failure) => Err(failure),
    };
    match taken.and_then(pipeline::PipelineResult::some) {
        Ok(rejections) => {
            if let Some(message) = rejections.message() {
                shared.refused_in_part(from, &message);
            }
            let Ok((service, ring_full, too_deep)) = told.try_recv() else {
                return String::new().into_response();
            };
            shared.counters.add(DROPPED_RING_FULL, ring_full);
            shared.counters.add(DROPPED_TOO_DEEP, too_deep);
            shared.jvm_settings.of(&service).into_response()
        }
        Err(failure) => plain::answer(&shared, from, Err(failure)),
    }
}
