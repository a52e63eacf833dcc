//! gRPC as its protocol has it ("PROTOCOL-HTTP2"): one message in, one or several out. Questions
//! are small, and no client compresses them.

use std::convert::Infallible;
use std::fmt::Write as _;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Limited, StreamBody};
use prost::Message;
use spanwise_query::QueryError;
use spanwise_store::StoreError;

use super::{WARNING, header_value};
use crate::problem::Problem;
use crate::wrong_port::is_grpc;

/// A question is no larger.
const MAX_BYTES: usize = 1 << 20;
/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// A status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument = 3,
    NotFound = 5,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    code: Code,
    message: String,
}

impl Status {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn internal(error: &impl std::fmt::Display) -> Self {
        tracing::error!("a query failed: {error}");
        Self::new(Code::Internal, error.to_string())
    }
}

impl From<QueryError> for Status {
    fn from(error: QueryError) -> Self {
        let code = match &error {
            QueryError::TraceNotFound(_) | QueryError::SpanNotFound { .. } => Code::NotFound,
            QueryError::Store(StoreError::Invalid(_)) => Code::InvalidArgument,
            QueryError::Store(StoreError::Limit(_)) => Code::ResourceExhausted,
            QueryError::Store(StoreError::Unavailable { .. } | StoreError::Full { .. }) => {
                Code::Unavailable
            }
            QueryError::Store(_) | QueryError::Model(_) | QueryError::Interrupted { .. } => {
                return Self::internal(&error);
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let (status, detail) = problem.into_parts();
        let code = match status {
            StatusCode::BAD_REQUEST => Code::InvalidArgument,
            StatusCode::NOT_FOUND => Code::NotFound,
            StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
            _ => Code::Internal,
        };
        Self::new(code, detail)
    }
}

/// An error is headers without a body.
impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let mut encoded = String::with_capacity(self.message.len());
        for byte in self.message.bytes() {
            match byte {
                b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
                _ => _ = write!(encoded, "%{byte:02X}"),
            }
        }
        let code = (self.code as u8).to_string();
        let headers = [
            ("content-type", "application/grpc"),
            ("grpc-status", code.as_str()),
            ("grpc-message", encoded.as_str()),
        ];
        (StatusCode::OK, headers).into_response()
    }
}

/// Reads the message of a call.
pub(crate) async fn read<M: Message + Default>(request: Request) -> Result<M, Status> {
    let (parts, body) = request.into_parts();
    if !is_grpc(&parts.headers) {
        return Err(Status::invalid("the Content-Type is not application/grpc"));
    }
    let body = Limited::new(body, MAX_BYTES + PREFIX_BYTES).collect().await;
    let bytes = body
        .map_err(|error| Status::invalid(format!("the message cannot be read: {error}")))?
        .to_bytes();
    let Some((prefix, message)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(Status::invalid(format!("{} bytes are no message", bytes.len())));
    };
    let [flag, length @ ..] = *prefix;
    if flag != 0 {
        return Err(Status::new(
            Code::Unimplemented,
            "the message is compressed; send questions as they are",
        ));
    }
    if usize::try_from(u32::from_be_bytes(length)) != Ok(message.len()) {
        return Err(Status::invalid("the message has not the length that it claims"));
    }
    M::decode(message).map_err(|error| Status::invalid(format!("the message is not read: {error}")))
}

/// A message as it is sent.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = Vec::with_capacity(PREFIX_BYTES + length);
    frame.push(0);
    // Messages are cut far below 4 GiB.
    frame.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    // A vector has room for everything.
    let _ = message.encode(&mut frame);
    frame.into()
}

/// The answer of one message.
pub(crate) fn unary(message: &impl Message) -> Response {
    stream(vec![framed(message)], &[], ())
}

/// The answer of these messages, with warnings. It keeps `room` until its last byte is sent.
pub(crate) fn stream(
    messages: Vec<Bytes>,
    warnings: &[String],
    room: impl Send + 'static,
) -> Response {
    let trailers = HeaderMap::from_iter([(
        header::HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("0"),
    )]);
    let frames = messages.into_iter().map(Frame::data);
    let frames = frames.chain(std::iter::once_with(move || {
        drop(room);
        Frame::trailers(trailers)
    }));
    let body = StreamBody::new(tokio_stream::iter(frames.map(Ok::<_, Infallible>)));
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    for warning in warnings.iter().filter_map(|warning| header_value(warning)) {
        headers.append(WARNING, warning);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(body: Vec<u8>, kind: &str) -> Result<String, Status> {
        let request = Request::post("/").header("content-type", kind).body(body.into());
        read::<String>(request.expect("valid")).await
    }

    #[tokio::test]
    async fn messages_are_read_and_what_is_none_is_refused() {
        let message = framed(&"abc".to_owned()).to_vec();
        assert_eq!(asked(message.clone(), "application/grpc+proto").await.as_deref(), Ok("abc"));
        let code = |answer: Result<String, Status>| answer.expect_err("refused").code;
        assert_eq!(code(asked(message.clone(), "text/plain").await), Code::InvalidArgument);
        assert_eq!(code(asked(vec![0; 3], "application/grpc").await), Code::InvalidArgument);
        let mut wrong = message.clone();
        wrong[4] += 1;
        assert_eq!(code(asked(wrong, "application/grpc").await), Code::InvalidArgument);
        let mut compressed = message;
        compressed[0] = 1;
        assert_eq!(code(asked(compressed, "application/grpc").await), Code::Unimplemented);
        let large = asked(vec![0; MAX_BYTES + PREFIX_BYTES + 1], "application/grpc").await;
        assert_eq!(code(large), Code::InvalidArgument);
    }

    #[tokio::test]
    async fn an_answer_ends_with_its_status() {
        let response = stream(vec![framed(&7_u32), framed(&8_u32)], &["é".to_owned()], ());
        assert_eq!(response.headers()[WARNING], "?");
        let body = response.into_body().collect().await.expect("a body");
        assert_eq!(body.trailers().expect("trailers")["grpc-status"], "0");
        assert_eq!(body.to_bytes().len(), 2 * (PREFIX_BYTES + 2));
        let failed = Status::invalid("ä 100%").into_response();
        assert_eq!(failed.headers()["grpc-message"], "%C3%A4 100%25");
        assert_eq!(failed.headers()["grpc-status"], "3");
    }
}
