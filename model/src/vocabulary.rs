//! The closed vocabularies of the span row, each value with its text in the column.

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
    /// OpenTelemetry's span kind: the span's side of an exchange.
    Kind, "span kind", {
    /// Work inside a process.
    Internal = "internal",
    /// A request that the service answered.
    Server = "server",
    /// A request that the service made.
    Client = "client",
    /// A message that the service sent.
    Producer = "producer",
    /// A message that the service received.
    Consumer = "consumer",
});

vocabulary!(
    /// OpenTelemetry's span status.
    Status, "span status", {
    /// Not set.
    Unset = "unset",
    /// Explicitly successful.
    Ok = "ok",
    /// Failed.
    Error = "error",
});

vocabulary!(
    /// Where the span was captured, in the order of a request's path.
    Capture, "capture point", {
    /// Reported by the application itself (an SDK).
    App = "app",
    /// Reported by the JVM agent from inside the application.
    Jvm = "jvm",
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
    /// The evidence for a span's parent.
    Evidence, "kind of evidence", {
    /// Both sides of the hop carry the same TCP sequence numbers.
    TcpSequence = "tcp_sequence",
    /// The thread had exactly one open request, in a process whose threads
    /// each serve one request at a time.
    Thread = "thread",
    /// The logical task (a goroutine, an asyncio task, a virtual thread) that made the call serves
    /// that request, or was created while serving it.
    Task = "task",
    /// The thread made the call right after it had read part of that request, without waiting in
    /// between, in a process that wrote nearly all its responses in this way.
    Turn = "turn",
    /// The whole process had exactly one open request.
    SoleRequest = "sole_request",
    /// Both carry the same X-Request-ID.
    RequestId = "request_id",
    /// A header (W3C, B3) on the wire names the parent.
    TraceHeader = "trace_header",
    /// The sender named the parent itself (an SDK's parent span id).
    SpanContext = "span_context",
    /// The thread worked in that span when it made the call, as the JVM agent told the kernel side.
    CurrentSpan = "current_span",
    /// An application's span lies within the request that its own process served, on the same
    /// connection or at the same time.
    Enclosing = "enclosing",
    /// Time alone.
    Timing = "timing",
    /// Several requests, or one or none, could be the parent. None was chosen.
    Ambiguous = "ambiguous",
});

impl Capture {
    /// Whether the span was reported from inside its program, by an SDK or the JVM agent.
    pub const fn is_reported(self) -> bool {
        matches!(self, Self::App | Self::Jvm)
    }
}

impl Evidence {
    /// Confidence, from 0 to 1, from which a link counts as certain.
    pub const CERTAIN: f32 = 0.999;

    /// Confidence below which a link deserves a warning. With several concurrent calls, links that
    /// are slightly uncertain are normal.
    pub const DOUBTFUL: f32 = 0.8;
}

/// gRPC.
pub mod grpc {
    /// Names of the status codes (doc/statuscodes.md), indexed by number.
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
