//! Recognises the format of a record and decodes it.

use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::otlp::{self, Decoded, Limits};
use crate::{jaeger, zipkin};

/// The format of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An OTLP `ExportTraceServiceRequest` in JSON.
    OtlpJson,
    /// An OTLP `ExportTraceServiceRequest` in protobuf.
    OtlpProtobuf,
    /// OTLP logs, metrics or profiles, which contain no spans.
    OtherTelemetry,
    /// Traces from Jaeger's UI or API.
    JaegerJson,
    /// Spans of Zipkin version 1.
    ZipkinV1Json,
    /// Spans of Zipkin version 2.
    ZipkinV2Json,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtlpJson => "OTLP JSON",
            Self::OtlpProtobuf => "OTLP protobuf",
            Self::OtherTelemetry => "OTLP logs, metrics or profiles",
            Self::JaegerJson => "Jaeger JSON",
            Self::ZipkinV1Json => "Zipkin v1 JSON",
            Self::ZipkinV2Json => "Zipkin v2 JSON",
        })
    }
}

/// Why a record could not be decoded.
pub(super) enum RecordError {
    /// The format is unknown.
    Unknown(String),
    /// The record is damaged.
    Wrong(String),
}

type ReadResult = Result<(Kind, Option<Decoded>), RecordError>;

/// Decodes a record.
pub(super) fn read(bytes: &[u8], limits: &Limits, now_unix_nano: i64) -> ReadResult {
    let text = bytes.trim_ascii_start();
    let wrong = |error: serde_json::Error| RecordError::Wrong(error.to_string());
    match text.first() {
        Some(b'{') => {
            let shape: Shape<'_> = serde_json::from_slice(bytes).map_err(wrong)?;
            object(&shape, bytes, limits, now_unix_nano)
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_slice(bytes).map_err(wrong)?;
            list(&items, bytes, limits, now_unix_nano)
        }
        _ => {
            let decoded = otlp::decode_protobuf(bytes, limits)
                .map_err(|error| RecordError::Wrong(error.to_string()))?;
            Ok((Kind::OtlpProtobuf, Some(decoded)))
        }
    }
}

/// The member names that distinguish formats.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(alias = "resource_spans", rename = "resourceSpans")]
    resource_spans: Option<IgnoredAny>,
    #[serde(
        rename = "resourceLogs",
        alias = "resource_logs",
        alias = "resourceMetrics",
        alias = "resource_metrics",
        alias = "resourceProfiles"
    )]
    other: Option<IgnoredAny>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(rename = "traceID")]
    jaeger_trace: Option<IgnoredAny>,
    spans: Option<IgnoredAny>,
    #[serde(rename = "traceId")]
    zipkin_trace: Option<IgnoredAny>,
    #[serde(rename = "binaryAnnotations")]
    binary_annotations: Option<IgnoredAny>,
    #[serde(borrow)]
    annotations: Option<Vec<AnnotationShape<'a>>>,
}

#[derive(Deserialize)]
struct AnnotationShape<'a> {
    /// Only version 1 has an endpoint in each annotation.
    #[serde(borrow)]
    endpoint: Option<&'a RawValue>,
}

impl Shape<'_> {
    const fn is_jaeger(&self) -> bool {
        self.jaeger_trace.is_some() && self.spans.is_some()
    }

    fn is_zipkin_v1(&self) -> bool {
        let endpoints = self.annotations.iter().flatten().any(|one| one.endpoint.is_some());
        self.binary_annotations.is_some() || endpoints
    }
}

fn shape_of(item: &RawValue) -> Option<Shape<'_>> {
    serde_json::from_str(item.get()).ok()
}

fn object(shape: &Shape<'_>, bytes: &[u8], limits: &Limits, now_unix_nano: i64) -> ReadResult {
    // It was parsed as JSON, so it is valid UTF-8.
    let text = || String::from_utf8_lossy(bytes);
    if shape.resource_spans.is_some() {
        let decoded = otlp::decode_json(bytes, limits)
            .map_err(|error| RecordError::Wrong(error.to_string()))?;
        Ok((Kind::OtlpJson, Some(decoded)))
    } else if shape.other.is_some() {
        Ok((Kind::OtherTelemetry, None))
    } else if shape.is_jaeger() {
        jaeger(format!("[{}]", text()).as_bytes(), limits)
    } else if let Some(data) = shape.data {
        jaeger(data.get().as_bytes(), limits)
    } else if shape.zipkin_trace.is_some() {
        zipkin(format!("[{}]", text()).as_bytes(), shape.is_zipkin_v1(), limits, now_unix_nano)
    } else if bytes.trim_ascii() == b"{}" {
        // The file exporter writes this for an empty request.
        Ok((Kind::OtherTelemetry, None))
    } else {
        Err(RecordError::Unknown(
            "is a JSON object without resourceSpans (OTLP), data (Jaeger) or traceId (Zipkin)"
                .to_owned(),
        ))
    }
}

fn list(items: &[&RawValue], bytes: &[u8], limits: &Limits, now_unix_nano: i64) -> ReadResult {
    let Some(first) = items.first() else { return Ok((Kind::ZipkinV2Json, None)) };
    let wrong = |error: serde_json::Error| RecordError::Wrong(error.to_string());
    if first.get().starts_with('[') {
        // Zipkin's search returns a list of traces, each a list of spans.
        let mut spans: Vec<&RawValue> = Vec::new();
        for item in items {
            spans.extend(serde_json::from_str::<Vec<&RawValue>>(item.get()).map_err(wrong)?);
        }
        let all = serde_json::to_vec(&spans).map_err(wrong)?;
        return match spans.first() {
            Some(first) if first.get().starts_with('[') => {
                Err(RecordError::Unknown("is a list of lists of lists".to_owned()))
            }
            _ => list(&spans, &all, limits, now_unix_nano),
        };
    }
    let Some(shape) = shape_of(first) else {
        return Err(RecordError::Unknown(
            "is a JSON list of something else than objects".to_owned(),
        ));
    };
    if shape.is_jaeger() {
        jaeger(bytes, limits)
    } else if shape.zipkin_trace.is_some() {
        // A single span may lack everything that distinguishes the versions.
        let v1 = items.iter().filter_map(|item| shape_of(item)).any(|shape| shape.is_zipkin_v1());
        zipkin(bytes, v1, limits, now_unix_nano)
    } else {
        Err(RecordError::Unknown(
            "is a JSON list of neither Jaeger traces nor Zipkin spans".to_owned(),
        ))
    }
}

fn jaeger(traces: &[u8], limits: &Limits) -> ReadResult {
    let decoded = jaeger::decode_json(traces, limits)
        .map_err(|error| RecordError::Wrong(error.to_string()))?;
    Ok((Kind::JaegerJson, Some(decoded)))
}

fn zipkin(spans: &[u8], v1: bool, limits: &Limits, now_unix_nano: i64) -> ReadResult {
    let (kind, format) = if v1 {
        (Kind::ZipkinV1Json, zipkin::Format::V1Json)
    } else {
        (Kind::ZipkinV2Json, zipkin::Format::V2Json)
    };
    let decoded = zipkin::decode(format, spans, limits, now_unix_nano)
        .map_err(|error| RecordError::Wrong(error.to_string()))?;
    Ok((kind, Some(decoded)))
}
