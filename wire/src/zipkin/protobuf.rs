//! Version 2 as protobuf (`zipkin.proto`, package `zipkin.proto3`).

use prost::Message;
use spanwise_model::{Kind, SpanId, TraceId};

use super::Spans;
use super::span::{Annotation, Endpoint, ZipkinSpan};
use crate::otlp::{Invalid, spans_in_protobuf};
use crate::protobuf::{Payload, ReadError, Reader};
use crate::rows::DecodeError;

/// `ListOfSpans.spans`.
const SPANS: u32 = 1;

#[derive(Clone, PartialEq, Message)]
struct SpanProto {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    parent_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    id: Vec<u8>,
    #[prost(int32, tag = "4")]
    kind: i32,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "6")]
    timestamp: u64,
    #[prost(uint64, tag = "7")]
    duration: u64,
    #[prost(message, optional, tag = "8")]
    local_endpoint: Option<EndpointProto>,
    #[prost(message, optional, tag = "9")]
    remote_endpoint: Option<EndpointProto>,
    #[prost(message, repeated, tag = "10")]
    annotations: Vec<AnnotationProto>,
    /// Declared as a list of entries, which is the same on the wire and keeps the order.
    #[prost(message, repeated, tag = "11")]
    tags: Vec<TagProto>,
    #[prost(bool, tag = "12")]
    debug: bool,
    #[prost(bool, tag = "13")]
    shared: bool,
}

#[derive(Clone, PartialEq, Message)]
struct EndpointProto {
    #[prost(string, tag = "1")]
    service_name: String,
    #[prost(bytes = "vec", tag = "2")]
    ipv4: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    ipv6: Vec<u8>,
    #[prost(int32, tag = "4")]
    port: i32,
}

#[derive(Clone, PartialEq, Message)]
struct AnnotationProto {
    #[prost(fixed64, tag = "1")]
    timestamp: u64,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct TagProto {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// Decodes a `ListOfSpans`.
pub(super) fn read(body: &[u8], spans: &mut Spans) -> Result<(), DecodeError> {
    let mut reader = Reader::new(body);
    let (format, mut index) = (spans.rows.format(), 0);
    let malformed = |error: ReadError| DecodeError::malformed(format, "the list", error);
    while let Some(field) = reader.next().map_err(malformed)? {
        let Payload::Bytes(bytes) = field.payload else { continue };
        if field.number != SPANS {
            let place = || format!("field {} of the list", field.number);
            spans.rows.unknown_field(spans_in_protobuf(bytes), place);
            continue;
        }
        index += 1;
        if !spans.rows.admit(bytes.len())? {
            continue;
        }
        match SpanProto::decode(bytes) {
            Ok(span) => spans.take(span.read())?,
            Err(error) => spans.rows.malformed(|| (format!("spans[{}]", index - 1), error)),
        }
    }
    if index == 0 && !body.is_empty() && !spans.rows.has_rejections() {
        return Err(DecodeError::malformed(format, "the list", "it has no spans"));
    }
    Ok(())
}

impl SpanProto {
    fn read(self) -> Result<ZipkinSpan, Invalid> {
        let trace_id = filled::<16>(&self.trace_id).and_then(|id| TraceId::from_bytes(&id));
        let id = SpanId::from_bytes(&self.id);
        let parent_id = match self.parent_id.len() {
            0 | SpanId::LEN => SpanId::from_bytes(&self.parent_id),
            _ => return Err(Invalid::Parent),
        };
        Ok(ZipkinSpan {
            kind: kind(self.kind),
            name: self.name,
            timestamp_micros: micros(self.timestamp),
            duration_micros: micros(self.duration),
            local: self.local_endpoint.map(EndpointProto::read).unwrap_or_default(),
            remote: self.remote_endpoint.map(EndpointProto::read).unwrap_or_default(),
            annotations: self.annotations.into_iter().map(AnnotationProto::read).collect(),
            tags: self.tags.into_iter().map(|tag| (tag.key, tag.value.into())).collect(),
            debug: self.debug,
            shared: self.shared,
            ..ZipkinSpan::new(trace_id.ok_or(Invalid::Trace)?, id.ok_or(Invalid::Span)?, parent_id)
        })
    }
}

impl EndpointProto {
    fn read(self) -> Endpoint {
        let port = Some(self.port.into());
        Endpoint::of_bytes(Some(self.service_name), &self.ipv4, &self.ipv6, port)
    }
}

impl AnnotationProto {
    fn read(self) -> Annotation {
        let timestamp_micros = i64::try_from(self.timestamp).unwrap_or(i64::MAX);
        Annotation { timestamp_micros, value: self.value }
    }
}

/// `zipkin.proto`: 8 or 16 bytes.
fn filled<const N: usize>(id: &[u8]) -> Option<[u8; N]> {
    let mut filled = [0; N];
    let half = N / 2;
    if id.len() == N {
        filled.copy_from_slice(id);
    } else if id.len() == half {
        filled[half..].copy_from_slice(id);
    } else {
        return None;
    }
    Some(filled)
}

/// `Span.Kind`.
const fn kind(number: i32) -> Option<Kind> {
    match number {
        1 => Some(Kind::Client),
        2 => Some(Kind::Server),
        3 => Some(Kind::Producer),
        4 => Some(Kind::Consumer),
        _ => None,
    }
}

/// Zero means unknown.
fn micros(number: u64) -> Option<i64> {
    (number != 0).then(|| i64::try_from(number).unwrap_or(i64::MAX))
}
