//! HTTP responses in plain text, as senders of Zipkin's and Jaeger's formats expect them: 202 for
//! accepted spans, and a sentence for errors.

use ::http::header::{CONTENT_TYPE, RETRY_AFTER};
use ::http::{HeaderMap, HeaderValue, StatusCode};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use spanwise_wire::otlp::Rejections;

use super::Transport;
use super::failure::Failure;
use super::refusals::{Caller, shown};

/// The response to a request. Errors are counted.
pub(crate) fn answer(
    transport: &Transport,
    from: Caller,
    result: Result<Rejections, Failure>,
) -> Response {
    match result {
        Ok(rejections) => {
            let mut text = rejections.message().unwrap_or_default();
            if !text.is_empty() {
                transport.refused_in_part(from, &text);
                text.push('\n');
            }
            (StatusCode::ACCEPTED, text).into_response()
        }
        Err(failure) => {
            transport.refused(from, &failure);
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

/// A delay in whole seconds, rounded up, because the header has no fractions.
pub(crate) fn whole_seconds(delay: std::time::Duration) -> HeaderValue {
    let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    HeaderValue::from(seconds.max(1))
}

/// The media type of a `Content-Type` header in lower case, without parameters; empty if there is
/// none.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// The response for unknown paths.
pub(crate) fn not_here(
    transport: &Transport,
    protocol: &'static str,
    request: &Request,
    instead: &'static str,
) -> Response {
    let path = request.uri().path();
    transport.not_here(Caller::new(protocol, request.extensions()), path, instead);
    let text = format!("there is no `{}` here; {instead}\n", shown(path));
    (StatusCode::NOT_FOUND, text).into_response()
}

/// The response for methods other than POST.
pub(crate) fn only_post(instead: &'static str) -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, format!("{instead}\n")).into_response()
}
