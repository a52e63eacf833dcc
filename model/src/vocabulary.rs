//! The closed vocabularies of the span row, each with the text it has in its
//! column.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text outside a column's vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}; known: {known}")]
pub struct UnknownName {
    text: String,
    what: &'static str,
    known: String,
}

macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value, in declared order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The text in the column.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(UnknownName {
                        text: text.chars().take(64).collect(),
                        what: $what,
                        known: Self::ALL.iter().map(|v| v.as_str()).collect::<Vec<_>>().join(", "),
                    }),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

vocabulary!(
    /// OpenTelemetry's span kind: which side of which exchange the span is.
    Kind, "span kind", {
    /// Work inside a process.
    Internal = "internal",
    /// A request that the service answered.
    Server = "server",
    /// A request that the service made.
    Client = "client",
    /// A message that the service sent.
    Producer = "producer",
    /// A message that the service took.
    Consumer = "consumer",
});

vocabulary!(
    /// OpenTelemetry's span status.
    Status, "span status", {
    /// Nobody said.
    Unset = "unset",
    /// Said to be right.
    Ok = "ok",
    /// Failed.
    Error = "error",
});

vocabulary!(
    /// Where the span was seen. In the order of the way that a request takes.
    Capture, "capture point", {
    /// Reported by the application itself (an SDK).
    App = "app",
    /// System calls of the calling process.
    ClientProcess = "client-process",
    /// Network interface of the calling host.
    ClientNic = "client-nic",
    /// Network interface of the called host.
    ServerNic = "server-nic",
    /// System calls of the called process.
    ServerProcess = "server-process",
});

vocabulary!(
    /// Why a span hangs under its parent.
    Evidence, "kind of evidence", {
    /// Both sides of the hop carry the same TCP sequence numbers.
    TcpSequence = "tcp_sequence",
    /// The thread had exactly one open request, in a process whose threads
    /// each serve one request at a time.
    Thread = "thread",
    /// The logical task (a goroutine, an asyncio task, a virtual thread) that made it
    /// serves that request, or was made while serving it.
    Task = "task",
    /// The thread made the call right after it had read something of that request, with
    /// no wait between, in a process that has answered nearly all its requests so.
    Turn = "turn",
    /// The whole process had exactly one open request.
    SoleRequest = "sole_request",
    /// Both carry the same X-Request-ID.
    RequestId = "request_id",
    /// A header (W3C, B3) on the wire names the parent.
    TraceHeader = "trace_header",
    /// The sender named the parent itself (an SDK's parent span id).
    SpanContext = "span_context",
    /// An application's span lies inside the request that its own process
    /// served on the same connection, or at the same time.
    Enclosing = "enclosing",
    /// Time alone.
    Timing = "timing",
    /// Several requests could be the parent, or one or none: none was chosen.
    Ambiguous = "ambiguous",
});

impl Evidence {
    /// Confidence, from 0 to 1, from which a link counts as certain.
    pub const CERTAIN: f32 = 0.999;

    /// Confidence below which a link is worth a warning: where several calls are under
    /// way at once, links that are not quite certain are what is usual.
    pub const DOUBTFUL: f32 = 0.8;
}

/// gRPC.
pub mod grpc {
    /// Names of the status codes (doc/statuscodes.md), each at its number.
    pub const CODES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
}
