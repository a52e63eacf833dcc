//! `google.rpc.Status`: the error body of OTLP/HTTP and the details of a gRPC error (googleapis
//! `google/rpc/status.proto`, `google/rpc/error_details.proto`).

use std::time::Duration;

use prost::Message;
use serde_json::json;

/// The codes in use (googleapis `google/rpc/code.proto`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcCode {
    /// The sender's error. Retrying the same request does not help.
    InvalidArgument = 3,
    /// Nothing exists there.
    NotFound = 5,
    /// No room at the moment. Retry after the given delay.
    ResourceExhausted = 8,
    /// Not supported here.
    Unimplemented = 12,
    /// The request did not arrive in time.
    DeadlineExceeded = 4,
    /// An internal error of the server.
    Internal = 13,
    /// The server is shutting down.
    Unavailable = 14,
}

/// `google.rpc.Status`, with at most a `google.rpc.RetryInfo` as its detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcStatus {
    /// The kind of error.
    pub code: RpcCode,
    /// The problem and what to do, for people.
    pub message: String,
    /// When to retry; only if that may help.
    pub retry_after: Option<Duration>,
}

#[derive(Clone, PartialEq, Message)]
struct StatusProto {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<AnyProto>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyProto {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct RetryInfoProto {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<DurationProto>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct DurationProto {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

impl RpcStatus {
    /// A status without advice to retry.
    pub fn new(code: RpcCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None }
    }

    /// Encodes it as protobuf.
    pub fn to_protobuf(&self) -> Vec<u8> {
        let details = self.retry_after.map(|delay| AnyProto {
            type_url: RETRY_INFO.to_owned(),
            value: RetryInfoProto {
                retry_delay: Some(DurationProto {
                    seconds: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
                    // Below 1e9, as `Duration` guarantees.
                    nanos: delay.subsec_nanos().cast_signed(),
                }),
            }
            .encode_to_vec(),
        });
        StatusProto {
            code: self.code as i32,
            message: self.message.clone(),
            details: details.into_iter().collect(),
        }
        .encode_to_vec()
    }

    /// Encodes it as protobuf JSON.
    pub fn to_json(&self) -> String {
        let details: Vec<_> = self
            .retry_after
            .iter()
            .map(|delay| json!({"@type": RETRY_INFO, "retryDelay": format!("{:.3}s", delay.as_secs_f64())}))
            .collect();
        json!({"code": self.code as i32, "message": self.message, "details": details}).to_string()
    }

    /// The retry delay in the details of a gRPC status (`grpc-status-details-bin`, a
    /// `google.rpc.Status`).
    pub fn retry_after_in_details(details: &[u8]) -> Option<Duration> {
        let status = StatusProto::decode(details).ok()?;
        let detail = status.details.iter().find(|detail| detail.type_url == RETRY_INFO)?;
        let delay = RetryInfoProto::decode(detail.value.as_slice()).ok()?.retry_delay?;
        let seconds = u64::try_from(delay.seconds).ok()?;
        let nanos = u32::try_from(delay.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        Some(Duration::new(seconds, nanos))
    }
}

impl From<RpcStatus> for tonic::Status {
    fn from(status: RpcStatus) -> Self {
        let code = tonic::Code::from(status.code as i32);
        let details = if status.retry_after.is_some() { status.to_protobuf() } else { Vec::new() };
        Self::with_details(code, status.message, details.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_survives_both_encodings() {
        let status = RpcStatus {
            code: RpcCode::ResourceExhausted,
            message: "full".into(),
            retry_after: Some(Duration::from_millis(1500)),
        };
        let bytes = status.to_protobuf();
        assert_eq!(RpcStatus::retry_after_in_details(&bytes), status.retry_after);
        let json: serde_json::Value = serde_json::from_str(&status.to_json()).unwrap();
        assert_eq!(json["code"], 8);
        assert_eq!(json["details"][0]["retryDelay"], "1.500s");
        let grpc = tonic::Status::from(status);
        assert_eq!(grpc.code(), tonic::Code::ResourceExhausted);
        assert_eq!(grpc.details(), bytes);
    }
}
