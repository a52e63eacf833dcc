//! `jaeger.thrift` in both protocols.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use spanwise_model::{AttributeValue, Attributes, SpanId, TraceId};

use super::process::Process;
use super::span::{JaegerSpan, Log, Reference, ReferenceKind};
use crate::rows::{DecodeError, Rows};
use crate::thrift::{LastField, Protocol, Reader, ThriftError, Type};

/// Decodes a `Batch` in the binary protocol.
pub(super) fn read(body: &[u8], rows: &mut Rows) -> Result<(), DecodeError> {
    let reader = Reader::new(Protocol::Binary, body);
    let format = rows.format();
    // Checks that everything is valid Thrift before any span is added.
    let whole = reader.clone().skip(Type::Struct);
    whole.map_err(|error| DecodeError::malformed(format, "the batch", error))?;
    batch(reader, rows)
}

/// Adds the spans of a `Batch` that has been checked to be a struct.
pub(super) fn batch(mut reader: Reader<'_>, rows: &mut Rows) -> Result<(), DecodeError> {
    let format = rows.format();
    let malformed = |error| DecodeError::malformed(format, "the batch", error);
    let (mut process, mut lists) = (None, Vec::new());
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last).map_err(malformed)? {
        match (field.id, field.kind) {
            (1, Type::Struct) => process = Some(read_process(&mut reader).map_err(malformed)?),
            (2, Type::List) => {
                // The process may follow the spans. If there are several lists, the last counts.
                lists = vec![reader.clone()];
                reader.skip(field.kind).map_err(malformed)?;
            }
            _ => reader.skip(field.kind).map_err(malformed)?,
        }
    }
    let process = process.unwrap_or_else(|| Process::new(String::new(), Attributes::new()));
    for list in lists {
        spans(list, &process, rows)?;
    }
    Ok(())
}

fn spans(mut reader: Reader<'_>, process: &Process, rows: &mut Rows) -> Result<(), DecodeError> {
    let format = rows.format();
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
        if rows.admit(reader.left() - end.left())? {
            span(&mut reader).map_err(malformed(index))?.take(process, rows)?;
        }
        reader = end;
    }
    Ok(())
}

fn span(reader: &mut Reader<'_>) -> Result<JaegerSpan, ThriftError> {
    let mut read = JaegerSpan::default();
    let (mut trace_low, mut trace_high) = (0, 0);
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Type::I64) => trace_low = reader.i64()?,
            (2, Type::I64) => trace_high = reader.i64()?,
            (3, Type::I64) => read.span_id = SpanId::from_u64(reader.i64()?.cast_unsigned()),
            (4, Type::I64) => read.parent_span_id = SpanId::from_u64(reader.i64()?.cast_unsigned()),
            (5, Type::Binary) => read.operation = reader.text()?,
            (6, Type::List) => read.references = reader.structs(reference)?,
            (7, Type::I32) => read.flags = reader.i32()?.cast_unsigned(),
            (8, Type::I64) => read.start_unix_nano = nanoseconds(reader.i64()?),
            (9, Type::I64) => read.duration_nano = nanoseconds(reader.i64()?),
            (10, Type::List) => read.tags = reader.structs(tag)?,
            (11, Type::List) => read.logs = reader.structs(log)?,
            _ => reader.skip(field.kind)?,
        }
    }
    read.trace_id = trace_id(trace_high, trace_low);
    Ok(read)
}

fn read_process(reader: &mut Reader<'_>) -> Result<Process, ThriftError> {
    let (mut service, mut tags) = (String::new(), Attributes::new());
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Type::Binary) => service = reader.text()?,
            (2, Type::List) => tags = reader.structs(tag)?,
            _ => reader.skip(field.kind)?,
        }
    }
    Ok(Process::new(service, tags))
}

fn reference(reader: &mut Reader<'_>) -> Result<Reference, ThriftError> {
    let (mut kind, mut trace_low, mut trace_high, mut span) = (0, 0, 0, 0);
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Type::I32) => kind = reader.i32()?,
            (2, Type::I64) => trace_low = reader.i64()?,
            (3, Type::I64) => trace_high = reader.i64()?,
            (4, Type::I64) => span = reader.i64()?,
            _ => reader.skip(field.kind)?,
        }
    }
    Ok(Reference {
        trace_id: trace_id(trace_high, trace_low),
        span_id: SpanId::from_u64(span.cast_unsigned()),
        kind: if kind == 1 { ReferenceKind::FollowsFrom } else { ReferenceKind::ChildOf },
    })
}

fn log(reader: &mut Reader<'_>) -> Result<Log, ThriftError> {
    let mut read = Log { time_unix_nano: 0, fields: Attributes::new() };
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Type::I64) => read.time_unix_nano = nanoseconds(reader.i64()?),
            (2, Type::List) => read.fields = reader.structs(tag)?,
            _ => reader.skip(field.kind)?,
        }
    }
    Ok(read)
}

fn tag(reader: &mut Reader<'_>) -> Result<(String, AttributeValue), ThriftError> {
    let (mut key, mut kind, mut text) = (String::new(), 0, String::new());
    let (mut double, mut flag, mut int, mut bytes) = (0.0, false, 0, &[][..]);
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Type::Binary) => key = reader.text()?,
            (2, Type::I32) => kind = reader.i32()?,
            (3, Type::Binary) => text = reader.text()?,
            (4, Type::Double) => double = reader.double()?,
            (5, Type::Bool) => flag = reader.bool()?,
            (6, Type::I64) => int = reader.i64()?,
            (7, Type::Binary) => bytes = reader.bytes()?,
            _ => reader.skip(field.kind)?,
        }
    }
    // `TagType`
    let value = match kind {
        1 => AttributeValue::Double(double),
        2 => AttributeValue::Bool(flag),
        3 => AttributeValue::Int(int),
        4 => AttributeValue::Bytes(STANDARD.encode(bytes)),
        _ => AttributeValue::String(text),
    };
    Ok((key, value))
}

fn trace_id(high: i64, low: i64) -> Option<TraceId> {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&high.to_be_bytes());
    id[8..].copy_from_slice(&low.to_be_bytes());
    TraceId::from_bytes(&id)
}

/// Times are microseconds on the wire. Times after the year 2262 are capped.
const fn nanoseconds(micros: i64) -> i64 {
    micros.saturating_mul(1000)
}
