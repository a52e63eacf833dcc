//! What the APIs of other tracing systems have in common: spans with their places in assembled
//! traces, OTLP, gRPC, and texts that are written as Go writes them.

pub(crate) mod grpc;
pub(crate) mod otlp;
pub(crate) mod placed;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

/// Sentences about what limits an answer, for formats that have no place for them.
pub(crate) const WARNING: HeaderName = HeaderName::from_static("spanwise-warning");

/// Adds warnings to an answer, each a header of its own.
pub(crate) fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        if let Some(value) = header_value(warning) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// A sentence as the value of a header, which has ASCII only.
fn header_value(text: &str) -> Option<HeaderValue> {
    let ascii = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    HeaderValue::from_str(&text.chars().map(ascii).collect::<String>()).ok()
}
