//! OTLP over HTTP (OTLP specification, "OTLP/HTTP").

use std::sync::Arc;

use ::http::header::{CONTENT_TYPE, RETRY_AFTER};
use ::http::{HeaderMap, HeaderValue, StatusCode};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use spanwise_wire::otlp::{Rejections, response_json, response_protobuf};
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};

use crate::counters;
use crate::failure::Failure;
use crate::otlp::{self, Format};
use crate::server::Shared;
use crate::{body, plain};

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
    let named = format(&parts.headers);
    let format = named.unwrap_or(Format::Json);
    let named = named.ok_or_else(|| {
        Failure::Unsupported(
            "Content-Type must be application/x-protobuf or application/json".to_owned(),
        )
    });
    let result = match body::receive(&shared, named, &parts.headers, body).await {
        Ok((format, encoding, bytes, lease)) => {
            otlp::take(&shared, format, encoding, bytes, lease).await
        }
        Err(failure) => Err(failure),
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

fn format(headers: &HeaderMap) -> Option<Format> {
    match plain::content_type(headers).as_str() {
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
        response.headers_mut().insert(RETRY_AFTER, plain::whole_seconds(delay));
    }
    response
}
