//! What a record is, and its rows.

use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::otlp::{self, Decoded, Limits};

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An OTLP `ExportTraceServiceRequest` in JSON.
    OtlpJson,
    /// An OTLP `ExportTraceServiceRequest` in protobuf.
    OtlpProtobuf,
    /// OTLP logs, metrics or profiles, which are no spans, or nothing at all.
    OtherTelemetry,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtlpJson => "OTLP JSON",
            Self::OtlpProtobuf => "OTLP protobuf",
            Self::OtherTelemetry => "OTLP logs, metrics or profiles",
        })
    }
}

/// Why a record has no rows.
pub(super) enum Unread {
    /// It is of no kind that is known.
    Unknown(String),
    /// It is damaged.
    Wrong(String),
}

type Read = Result<(Kind, Option<Decoded>), Unread>;

/// Reads a record.
pub(super) fn read(bytes: &[u8], limits: &Limits) -> Read {
    match bytes.trim_ascii_start().first() {
        Some(b'{') => {
            let shape: Shape =
                serde_json::from_slice(bytes).map_err(|error| Unread::Wrong(error.to_string()))?;
            object(&shape, bytes, limits)
        }
        Some(b'[') => Err(Unread::Unknown("is a JSON list".to_owned())),
        _ => match otlp::decode_protobuf(bytes, limits) {
            Ok(decoded) => Ok((Kind::OtlpProtobuf, Some(decoded))),
            Err(error) => Err(Unread::Wrong(error.to_string())),
        },
    }
}

/// The names by which kinds are told apart.
#[derive(Deserialize)]
struct Shape {
    #[serde(rename = "resourceSpans", alias = "resource_spans")]
    spans: Option<IgnoredAny>,
    #[serde(rename = "resourceLogs", alias = "resource_logs")]
    logs: Option<IgnoredAny>,
    #[serde(rename = "resourceMetrics", alias = "resource_metrics")]
    metrics: Option<IgnoredAny>,
    #[serde(rename = "resourceProfiles", alias = "resource_profiles")]
    profiles: Option<IgnoredAny>,
}

fn object(shape: &Shape, bytes: &[u8], limits: &Limits) -> Read {
    if shape.spans.is_some() {
        return match otlp::decode_json(bytes, limits) {
            Ok(decoded) => Ok((Kind::OtlpJson, Some(decoded))),
            Err(error) => Err(Unread::Wrong(error.to_string())),
        };
    }
    let other = [&shape.logs, &shape.metrics, &shape.profiles].into_iter().any(Option::is_some);
    // `{}` is what an empty request looks like.
    if other || bytes.trim_ascii() == b"{}" {
        return Ok((Kind::OtherTelemetry, None));
    }
    Err(Unread::Unknown("is a JSON object without `resourceSpans`".to_owned()))
}
