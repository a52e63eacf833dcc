//! Version 1 as thrift (`zipkinCore.thrift`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use spanwise_model::{AttributeValue, SpanId, TraceId};

use super::{V1Annotation, V1Span, V1Tag};
use crate::otlp::Invalid;
use crate::rows::DecodeError;
use crate::thrift::{LastField, Protocol, Reader, ThriftError, Type};
use crate::zipkin::Spans;
use crate::zipkin::span::Endpoint;

/// Decodes a list of spans: a Thrift list in the binary protocol without a header.
pub(in crate::zipkin) fn read(body: &[u8], spans: &mut Spans) -> Result<(), DecodeError> {
    let reader = Reader::new(Protocol::Binary, body);
    let malformed = |error| DecodeError::malformed(spans.rows.format(), "the list", error);
    // Checks that everything is valid Thrift before any span is added, because the span after a
    // damaged one cannot be found.
    reader.clone().skip(Type::List).map_err(malformed)?;
    read_list(reader, spans)
}

/// Adds the spans of a list that has been checked to be valid.
pub(crate) fn read_list(mut reader: Reader<'_>, spans: &mut Spans) -> Result<(), DecodeError> {
    let format = spans.rows.format();
    let malformed = |index: usize| {
        move |error| DecodeError::malformed(format, format!("spans[{index}]"), error)
    };
    let (kind, length) = reader.list().map_err(malformed(0))?;
    if kind != Type::Struct && length > 0 {
        return Err(malformed(0)(ThriftError::Unexpected));
    }
    for index in 0..length {
        let mut end = reader.clone();
        end.skip(Type::Struct).map_err(malformed(index))?;
        if spans.rows.admit(reader.left() - end.left())? {
            match span(&mut reader).map_err(malformed(index))? {
                Ok(span) => super::take(span, spans)?,
                Err(invalid) => spans.take(Err(invalid))?,
            }
        }
        reader = end;
    }
    Ok(())
}

fn span(reader: &mut Reader<'_>) -> Result<Result<V1Span, Invalid>, ThriftError> {
    let (mut trace_low, mut trace_high, mut id, mut parent) = (0, 0, 0, 0);
    let (mut timestamp, mut duration) = (None, None);
    let (mut name, mut debug) = (String::new(), false);
    let (mut annotations, mut tags) = (Vec::new(), Vec::new());
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Type::I64) => trace_low = reader.i64()?,
            (3, Type::Binary) => name = reader.text()?,
            (4, Type::I64) => id = reader.i64()?,
            (5, Type::I64) => parent = reader.i64()?,
            (6, Type::List) => annotations = reader.structs(annotation)?,
            (8, Type::List) => tags = reader.structs(tag)?,
            (9, Type::Bool) => debug = reader.bool()?,
            (10, Type::I64) => timestamp = Some(reader.i64()?),
            (11, Type::I64) => duration = Some(reader.i64()?),
            (12, Type::I64) => trace_high = reader.i64()?,
            _ => reader.skip(field.kind)?,
        }
    }
    let mut trace_id = [0; 16];
    trace_id[..8].copy_from_slice(&trace_high.to_be_bytes());
    trace_id[8..].copy_from_slice(&trace_low.to_be_bytes());
    let Some(trace_id) = TraceId::from_bytes(&trace_id) else { return Ok(Err(Invalid::Trace)) };
    let Some(id) = SpanId::from_u64(id.cast_unsigned()) else { return Ok(Err(Invalid::Span)) };
    Ok(Ok(V1Span {
        trace_id,
        id,
        parent_id: SpanId::from_u64(parent.cast_unsigned()),
        name,
        timestamp_micros: timestamp.filter(|micros| *micros != 0),
        duration_micros: duration.filter(|micros| *micros != 0),
        annotations,
        tags,
        debug,
    }))
}

fn annotation(reader: &mut Reader<'_>) -> Result<V1Annotation, ThriftError> {
    let mut read = V1Annotation { timestamp_micros: 0, value: String::new(), endpoint: None };
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Type::I64) => read.timestamp_micros = reader.i64()?,
            (2, Type::Binary) => read.value = reader.text()?,
            (3, Type::Struct) => read.endpoint = Some(endpoint(reader)?),
            _ => reader.skip(field.kind)?,
        }
    }
    Ok(read)
}

fn tag(reader: &mut Reader<'_>) -> Result<V1Tag, ThriftError> {
    let (mut key, mut value, mut kind) = (String::new(), &[][..], 6);
    let mut at = None;
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Type::Binary) => key = reader.text()?,
            (2, Type::Binary) => value = reader.bytes()?,
            (3, Type::I32) => kind = reader.i32()?,
            (4, Type::Struct) => at = Some(endpoint(reader)?),
            _ => reader.skip(field.kind)?,
        }
    }
    Ok(V1Tag { key, value: attribute_value(kind, value), endpoint: at })
}

/// A value according to its `AnnotationType`. If the length does not match, it is stored as bytes.
fn attribute_value(kind: i32, value: &[u8]) -> AttributeValue {
    let bytes = || AttributeValue::Bytes(STANDARD.encode(value));
    let int = |number: Option<i64>| number.map_or_else(bytes, AttributeValue::Int);
    match kind {
        0 => match value {
            [flag] => AttributeValue::Bool(*flag != 0),
            _ => bytes(),
        },
        2 => int(value.try_into().ok().map(|two| i16::from_be_bytes(two).into())),
        3 => int(value.try_into().ok().map(|four| i32::from_be_bytes(four).into())),
        4 => int(value.try_into().ok().map(i64::from_be_bytes)),
        5 => value
            .try_into()
            .map_or_else(|_| bytes(), |eight| AttributeValue::Double(f64::from_be_bytes(eight))),
        6 => AttributeValue::String(String::from_utf8_lossy(value).into_owned()),
        _ => bytes(),
    }
}

fn endpoint(reader: &mut Reader<'_>) -> Result<Endpoint, ThriftError> {
    let (mut service, mut ipv4, mut ipv6, mut port) = (None, 0, &[][..], None);
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Type::I32) => ipv4 = reader.i32()?,
            // Ports above 32,767 are negative here.
            (2, Type::I16) => port = Some(reader.i16()?.cast_unsigned().into()),
            (3, Type::Binary) => service = Some(reader.text()?),
            (4, Type::Binary) => ipv6 = reader.bytes()?,
            _ => reader.skip(field.kind)?,
        }
    }
    Ok(Endpoint::of_bytes(service, &ipv4.to_be_bytes(), ipv6, port))
}
