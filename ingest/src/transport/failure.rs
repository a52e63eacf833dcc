//! Errors of requests, with their HTTP and gRPC status.

use std::time::Duration;

use ::http::StatusCode;
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};

use crate::counters;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The request exceeds a limit. Retrying does not help.
    TooLarge(String),
    /// The request is malformed.
    Malformed(String),
    /// The encoding or content type is not supported.
    Unsupported(String),
    /// The request violates the gRPC protocol, which has its own status code for that.
    Protocol(String),
    /// The memory limit of the receivers is reached.
    NoMemory { retry_after: Duration },
    /// The sink refused the batch.
    Refused { reason: String, retry_after: Duration },
    /// The body did not arrive in time.
    TimedOut,
    /// The sender disconnected.
    BrokenOff(String),
    /// An internal error.
    Internal(String),
}

impl Failure {
    pub(crate) const fn counter(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => counters::REQUESTS_TOO_LARGE,
            Self::Malformed(_) | Self::Protocol(_) => counters::REQUESTS_MALFORMED,
            Self::Unsupported(_) => counters::REQUESTS_UNSUPPORTED,
            Self::NoMemory { .. } => counters::REQUESTS_REFUSED_MEMORY,
            Self::Refused { .. } => counters::REQUESTS_REFUSED_STORE,
            Self::TimedOut => counters::REQUESTS_TIMED_OUT,
            Self::BrokenOff(_) => counters::REQUESTS_BROKEN_OFF,
            Self::Internal(_) => counters::REQUESTS_FAILED,
        }
    }

    pub(crate) const fn http_status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Malformed(_) | Self::Protocol(_) | Self::BrokenOff(_) => StatusCode::BAD_REQUEST,
            Self::Unsupported(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NoMemory { .. } | Self::Refused { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::TimedOut => StatusCode::REQUEST_TIMEOUT,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn rpc_status(&self) -> RpcStatus {
        let (code, message, retry_after) = match self {
            // Not RESOURCE_EXHAUSTED, because some senders would retry forever.
            Self::TooLarge(reason) | Self::Malformed(reason) | Self::BrokenOff(reason) => {
                (RpcCode::InvalidArgument, reason.clone(), None)
            }
            Self::Unsupported(reason) => (RpcCode::Unimplemented, reason.clone(), None),
            Self::NoMemory { retry_after } => (
                RpcCode::ResourceExhausted,
                "the server holds as many requests as its memory limit allows; retry later"
                    .to_owned(),
                Some(*retry_after),
            ),
            Self::Refused { reason, retry_after } => {
                (RpcCode::ResourceExhausted, reason.clone(), Some(*retry_after))
            }
            Self::TimedOut => {
                (RpcCode::DeadlineExceeded, "the body did not arrive in time".to_owned(), None)
            }
            Self::Internal(reason) | Self::Protocol(reason) => {
                (RpcCode::Internal, reason.clone(), None)
            }
        };
        RpcStatus { code, message, retry_after }
    }
}
