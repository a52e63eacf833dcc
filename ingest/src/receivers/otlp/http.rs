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

use super::{Format, SPANS};
use crate::receivers::shared::Shared;
use crate::receivers::{Receiver, Service, jaeger, jvm, zipkin};
use crate::transport::failure::Failure;
use crate::transport::refusals::{Caller, shown};
use crate::transport::{body, plain, unary};

/// See [`super::super::RECEIVERS`].
pub(in crate::receivers) static RECEIVER: Receiver = Receiver {
    setting: "listen.otlp_http",
    flag: "otlp-http",
    title: "OTLP over HTTP",
    takes: "OTLP over HTTP",
    banner: "OTLP HTTP",
    banner_note: "",
    default_port: 4318,
    is_optional: false,
    path: "/v1/traces",
    counters: &[&[REQUESTS, SPANS], jvm::COUNTERS],
    service: Service::Http(router),
};

const REQUESTS: &str = "otlp_http_requests";

/// `POST /v1/traces`, and explanations for the other signals.
fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/traces", post(traces))
        .route("/v1/traces/", post(traces))
        .route("/v1/logs", post(only_traces))
        .route("/v1/metrics", post(only_traces))
        .merge(jvm::router())
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown)
        .with_state(shared)
}

const HERE: &str = "OTLP traces are taken at POST /v1/traces";

async fn unknown(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let from = Caller::new("OTLP/HTTP", request.extensions());
    let path = request.uri().path();
    let headers = request.headers();
    if plain::content_type(headers).starts_with("application/grpc") {
        let elsewhere = shared.where_is(&super::grpc::RECEIVER);
        let instead = format!("this port takes OTLP over HTTP; {elsewhere}");
        shared.not_here(from, path, &instead);
        return unary::failed(RpcStatus::new(RpcCode::Unimplemented, instead));
    }
    let instead = match path {
        "/api/v2/spans" | "/api/v1/spans" => shared.where_is(&zipkin::RECEIVER),
        "/api/traces" => shared.where_is(&jaeger::http::RECEIVER),
        _ => HERE.to_owned(),
    };
    shared.not_here(from, path, &instead);
    let text = format!("there is no `{}` here; {instead}", shown(path));
    let status = RpcStatus::new(RpcCode::NotFound, text);
    error(StatusCode::NOT_FOUND, format(headers).unwrap_or(Format::Json), &status)
}

async fn wrong_method(headers: HeaderMap) -> Response {
    let status = RpcStatus::new(RpcCode::Unimplemented, HERE);
    error(StatusCode::METHOD_NOT_ALLOWED, format(&headers).unwrap_or(Format::Json), &status)
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
    shared.counters.add(REQUESTS, 1);
    let (parts, body) = request.into_parts();
    let from = Caller::new("OTLP/HTTP", &parts.extensions);
    let named = format(&parts.headers);
    let format = named.unwrap_or(Format::Json);
    let named = named.ok_or_else(|| {
        Failure::Unsupported(
            "Content-Type must be application/x-protobuf or application/json".to_owned(),
        )
    });
    let result = match body::receive(&shared, named, &parts.headers, body).await {
        Ok((format, encoding, bytes, lease)) => {
            super::take(&shared, format, encoding, bytes, lease).await
        }
        Err(failure) => Err(failure),
    };
    match result {
        Ok(rejections) => {
            if let Some(message) = rejections.message() {
                shared.refused_in_part(from, &message);
            }
            success(format, &rejections)
        }
        Err(failure) => {
            shared.refused(from, &failure);
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
