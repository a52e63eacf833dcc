//! HTTP answers in plain text, as the senders of Zipkin's and Jaeger's formats
//! expect them: 202 for what was taken, and a sentence for what was not.

use ::http::header::{CONTENT_TYPE, RETRY_AFTER};
use ::http::{HeaderMap, HeaderValue, StatusCode};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use spanwise_wire::otlp::Rejections;

use crate::failure::Failure;
use crate::server::Shared;

/// The answer to a request, which is counted where it failed.
pub(crate) fn answer(shared: &Shared, result: Result<Rejections, Failure>) -> Response {
    match result {
        Ok(rejections) => {
            let mut text = rejections.message().unwrap_or_default();
            if !text.is_empty() {
                tracing::debug!(text, "a part of a request was not taken");
                text.push('\n');
            }
            (StatusCode::ACCEPTED, text).into_response()
        }
        Err(failure) => {
            shared.counters.add(failure.counter(), 1);
            tracing::debug!(?failure, "a request was not taken");
            let status = failure.rpc_status();
            let mut response =
                (failure.http_status(), format!("{}\n", status.message)).into_response();
            if let Some(delay) = status.retry_after {
                response.headers_mut().insert(RETRY_AFTER, whole_seconds(delay));
            }
            response
        }
    }
}

/// A delay in whole seconds, upwards: the header knows no smaller ones.
pub(crate) fn whole_seconds(delay: std::time::Duration) -> HeaderValue {
    let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    HeaderValue::from(seconds.max(1))
}

/// What a `Content-Type` header names, without its parameters, in small
/// letters; empty where there is none.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// The answer to requests for paths that are not here.
pub(crate) fn not_here(instead: &'static str) -> Response {
    (StatusCode::NOT_FOUND, Body::from(instead)).into_response()
}
