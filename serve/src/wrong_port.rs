//! Requests for another port. Spans sent to the UI's port are lost, so the response names the right
//! port.

use std::net::SocketAddr;

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use crate::dialect::grpc::{Code, Status};
use crate::problem::Problem;

/// Addresses for spans; `None` if disabled.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "each is named by what is spoken there")]
pub struct Receivers {
    pub otlp_grpc: Option<SocketAddr>,
    pub otlp_http: Option<SocketAddr>,
    pub zipkin: Option<SocketAddr>,
    pub jaeger_grpc: Option<SocketAddr>,
    pub jaeger_http: Option<SocketAddr>,
}

impl Receivers {
    /// A sentence with the right port for this path; `None` if the path does not belong to a
    /// receiver.
    fn sentence(&self, path: &str, is_grpc: bool) -> Option<String> {
        let words = path.to_ascii_lowercase();
        let has = |word: &str| words.contains(word);
        let (what, place, below) = if is_grpc && has("jaeger") {
            ("spans by Jaeger's gRPC", self.jaeger_grpc, "")
        } else if has("metrics") || has("logs") {
            return Some(
                "metrics and logs are not taken, only traces; switch their exporters off"
                    .to_owned(),
            );
        } else if is_grpc {
            ("spans by OTLP over gRPC, and what agents send,", self.otlp_grpc, "")
        } else if has("api/v1/spans") || has("api/v2/spans") {
            ("Zipkin's spans", self.zipkin, if has("v1") { "api/v1/spans" } else { "api/v2/spans" })
        } else if has("api/traces") && !has("api/traces/") {
            ("Jaeger's spans", self.jaeger_http, "api/traces")
        } else if has("v1/trace") && !has("api/v1/") {
            ("traces by OTLP over HTTP", self.otlp_http, "v1/traces")
        } else {
            return None;
        };
        Some(match place {
            Some(place) if below.is_empty() => {
                format!("{what} are received at port {}; this port is the UI's", place.port())
            }
            Some(place) => format!(
                "{what} are received at port {}, path /{below}; this port is the UI's",
                place.port()
            ),
            None => format!("{what} are not received here: that is switched off"),
        })
    }
}

/// Whether the request is a gRPC call. gRPC clients ignore HTTP bodies.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// The response to an unknown path.
pub(crate) fn answer(receivers: &Receivers, path: &str, headers: &HeaderMap) -> Response {
    let shown: String = path.chars().take(200).collect();
    let sentence = receivers.sentence(path, is_grpc(headers));
    if is_grpc(headers) {
        let message = sentence.unwrap_or_else(|| format!("there is no {shown} here"));
        return Status::new(Code::Unimplemented, message).into_response();
    }
    let detail = sentence.map_or_else(
        || {
            format!(
                "there is no `{shown}` here; the UI is at /, and the API under /api/v1: services, \
                 operations, search, traces/ID, attributes, graph, sql, status"
            )
        },
        |sentence| format!("there is no `{shown}` here: {sentence}"),
    );
    Problem::not_found(detail).into_response()
}
