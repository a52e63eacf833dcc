//! OTLP over HTTP (OTLP specification, "OTLP/HTTP").

use std::sync::Arc;

use ::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, RETRY_AFTER};
use ::http::{HeaderMap, HeaderValue, StatusCode};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{Rejections, response_json, response_protobuf};
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};

use crate::body;
use crate::counters;
use crate::failure::Failure;
use crate::otlp::{self, Format};
use crate::server::Shared;

/// `POST /v1/traces`, and plain words for the signals that are not taken.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/traces", post(traces))
        .route("/v1/logs", post(only_traces))
        .route("/v1/metrics", post(only_traces))
        .with_state(shared)
}

async fn only_traces(headers: HeaderMap) -> Response {
    let status = RpcStatus::new(
        RpcCode::NotFound,
        "Spanwise takes traces only, at /v1/traces; turn off the exporter of this signal \
         (OTEL_LOGS_EXPORTER=none, OTEL_METRICS_EXPORTER=none)",
    );
    error(StatusCode::NOT_FOUND, format(&headers).unwrap_or(Format::Json), &status)
}

async fn traces(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.counters.add(counters::OTLP_HTTP_REQUESTS, 1);
    let (parts, body) = request.into_parts();
    let format_or_none = format(&parts.headers);
    let format = format_or_none.unwrap_or(Format::Json);
    let result = match checked(&parts.headers, format_or_none, &shared) {
        Ok(encoding) => {
            let mut lease = shared.budget.lease();
            let limit = shared.limits.body_bytes;
            match body::read(body, limit, &shared.limits, &mut lease).await {
                Ok(bytes) => otlp::take(&shared, format, encoding, bytes, lease).await,
                Err(failure) => Err(failure),
            }
        }
        Err(failure) => {
            // Who waits for "100 Continue" has not sent the body and need not.
            if !parts.headers.contains_key(EXPECT) {
                body::discard(body).await;
            }
            Err(failure)
        }
    };
    match result {
        Ok(rejections) => success(format, &rejections),
        Err(failure) => {
            shared.counters.add(failure.counter(), 1);
            tracing::debug!(?failure, "an OTLP/HTTP request was not taken");
            error(failure.http_status(), format, &failure.rpc_status())
        }
    }
}

/// What the headers say before the body is read.
fn checked(
    headers: &HeaderMap,
    format: Option<Format>,
    shared: &Shared,
) -> Result<Encoding, Failure> {
    if format.is_none() {
        return Err(Failure::Unsupported(
            "Content-Type must be application/x-protobuf or application/json".to_owned(),
        ));
    }
    let encoding = headers.get(CONTENT_ENCODING).map_or(Some(""), |value| value.to_str().ok());
    let encoding = encoding.and_then(Encoding::from_header).ok_or_else(|| {
        Failure::Unsupported("Content-Encoding must be gzip, zstd or identity".to_owned())
    })?;
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    if length.is_some_and(|length| length > shared.limits.body_bytes as u64) {
        return Err(body::too_large(shared.limits.body_bytes));
    }
    Ok(encoding)
}

fn format(headers: &HeaderMap) -> Option<Format> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next()?.trim();
    match essence.to_ascii_lowercase().as_str() {
        "application/x-protobuf" | "application/protobuf" => Some(Format::Protobuf),
        "application/json" => Some(Format::Json),
        _ => None,
    }
}

const fn content_type(format: Format) -> HeaderValue {
    match format {
        Format::Protobuf => HeaderValue::from_static("application/x-protobuf"),
        Format::Json => HeaderValue::from_static("application/json"),
    }
}

fn success(format: Format, rejections: &Rejections) -> Response {
    let body = match format {
        Format::Protobuf => Body::from(response_protobuf(rejections)),
        Format::Json => Body::from(response_json(rejections)),
    };
    ([(CONTENT_TYPE, content_type(format))], body).into_response()
}

fn error(code: StatusCode, format: Format, status: &RpcStatus) -> Response {
    let body = match format {
        Format::Protobuf => Body::from(status.to_protobuf()),
        Format::Json => Body::from(status.to_json()),
    };
    let mut response = (code, [(CONTENT_TYPE, content_type(format))], body).into_response();
    if let Some(delay) = status.retry_after {
        // Whole seconds, upwards: the header knows no smaller ones.
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
    response
}
