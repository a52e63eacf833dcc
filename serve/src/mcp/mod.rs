//! The Model Context Protocol at `/mcp`: what an assistant asks this server by.
//!
//! [`protocol`] is the protocol: one message in, one out, without sessions. [`tools`] is the table
//! of tools. The other modules are the tools, over the same questions as the native API. What a
//! tool answers is text with a bound ([`text`]): it says what is left out, and how to ask for it.

mod arguments;
mod cause;
mod compare;
mod folding;
mod lists;
mod protocol;
mod search;
mod spans;
mod sql;
mod text;
mod tools;
mod trace;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;

use crate::Shared;
use crate::problem::Problem;

/// The longest message. A statement of SQL is the longest that anybody has to say.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

pub(crate) fn router() -> Router<Shared> {
    Router::new().route("/mcp", post(message))
}

/// One message by HTTP. A web page cannot send this type of content without asking first.
async fn message(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Problem::invalid("the Content-Type of a message is application/json")
            .into_response();
    }
    if body.len() > MAX_MESSAGE_BYTES {
        return Problem::invalid(format!(
            "the message has {} bytes; {MAX_MESSAGE_BYTES} are taken",
            body.len()
        ))
        .into_response();
    }
    let version = headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
    match protocol::answer(&shared, version, &body).await {
        Some((status, answer)) => json(status, &answer),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

fn json(status: StatusCode, answer: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}
