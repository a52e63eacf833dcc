//! `jaeger.api_v2`: the outer messages are decoded by hand, each span by prost.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use spanwise_model::{AttributeValue, Attributes, SpanId, TraceId};

use super::process::Process;
use super::span::{JaegerSpan, Log, Reference, ReferenceKind};
use crate::otlp::spans_in_protobuf;
use crate::protobuf::{Payload, Reader, merged, submessages};
use crate::rows::{DecodeError, Rows};

/// Field numbers of `collector.proto` and `model.proto`.
mod number {
    /// `PostSpansRequest.batch`
    pub(super) const BATCH: u32 = 1;
    /// `Batch.spans`
    pub(super) const SPANS: u32 = 1;
    /// `Batch.process`
    pub(super) const PROCESS: u32 = 2;
}

#[derive(Clone, PartialEq, Message)]
struct SpanProto {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    operation_name: String,
    #[prost(message, repeated, tag = "4")]
    references: Vec<ReferenceProto>,
    #[prost(uint32, tag = "5")]
    flags: u32,
    #[prost(message, optional, tag = "6")]
    start_time: Option<TimeProto>,
    #[prost(message, optional, tag = "7")]
    duration: Option<TimeProto>,
    #[prost(message, repeated, tag = "8")]
    tags: Vec<KeyValueProto>,
    #[prost(message, repeated, tag = "9")]
    logs: Vec<LogProto>,
    /// Overrides the batch's process.
    #[prost(message, optional, tag = "10")]
    process: Option<ProcessProto>,
    #[prost(string, repeated, tag = "12")]
    warnings: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ReferenceProto {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(int32, tag = "3")]
    kind: i32,
}

/// `google.protobuf.Timestamp` and `Duration`, which have the same fields.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct TimeProto {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValueProto {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(string, tag = "3")]
    text: String,
    #[prost(bool, tag = "4")]
    flag: bool,
    #[prost(int64, tag = "5")]
    int: i64,
    #[prost(double, tag = "6")]
    double: f64,
    #[prost(bytes = "vec", tag = "7")]
    bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct LogProto {
    #[prost(message, optional, tag = "1")]
    timestamp: Option<TimeProto>,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<KeyValueProto>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessProto {
    #[prost(string, tag = "1")]
    service_name: String,
    #[prost(message, repeated, tag = "2")]
    tags: Vec<KeyValueProto>,
}

/// Decodes a `PostSpansRequest`.
pub(super) fn read(body: &[u8], rows: &mut Rows) -> Result<(), DecodeError> {
    let format = rows.format();
    let malformed = |place: &'static str| move |error| DecodeError::malformed(format, place, error);
    let batch: Vec<&[u8]> = submessages(body, number::BATCH)
        .collect::<Result<_, _>>()
        .map_err(|error| malformed("the request")(error.to_string()))?;
    let unknown = |message, known: &'static [u32]| unknown_spans(message, known);
    let of_request = unknown(body, &[number::BATCH]);
    let of_batch: u64 =
        batch.iter().map(|piece| unknown(piece, &[number::SPANS, number::PROCESS])).sum();
    rows.unknown_field(of_request, || "the request".to_owned());
    rows.unknown_field(of_batch, || "batch".to_owned());
    if batch.is_empty() && !body.is_empty() && of_request == 0 {
        return Err(malformed("the request")("it has no batch".to_owned()));
    }
    // The process may follow the spans.
    let mut process = ProcessProto::default();
    for piece in &batch {
        let found = merged::<ProcessProto>(piece, number::PROCESS);
        let ProcessProto { service_name, tags } = found.map_err(malformed("batch.process"))?;
        if !service_name.is_empty() {
            process.service_name = service_name;
        }
        process.tags.extend(tags);
    }
    let common = process.read();
    let mut own = LastProcess::default();
    let spans = batch.iter().flat_map(|piece| submessages(piece, number::SPANS));
    for (index, bytes) in spans.enumerate() {
        let bytes = bytes.map_err(|error| malformed("batch")(error.to_string()))?;
        if !rows.admit(bytes.len())? {
            continue;
        }
        match SpanProto::decode(bytes) {
            Ok(mut span) => {
                let process = match span.process.take() {
                    Some(named) if named != ProcessProto::default() => own.of(named),
                    _ => &common,
                };
                span.read().take(process, rows)?;
            }
            Err(error) => rows.malformed(|| (format!("batch.spans[{index}]"), error)),
        }
    }
    Ok(())
}

/// Number of spans in other fields than these.
fn unknown_spans(message: &[u8], known: &[u32]) -> u64 {
    let mut reader = Reader::new(message);
    let mut count = 0;
    while let Ok(Some(field)) = reader.next() {
        if let Payload::Bytes(bytes) = field.payload
            && !known.contains(&field.number)
        {
            count += spans_in_protobuf(bytes);
        }
    }
    count
}

/// The last process of a span. Most spans of a sender have the same one.
#[derive(Default)]
struct LastProcess(Option<(ProcessProto, Process)>);

impl LastProcess {
    fn of(&mut self, named: ProcessProto) -> &Process {
        let known = self.0.take().filter(|(known, _)| *known == named);
        let known = known.unwrap_or_else(|| (named.clone(), named.read()));
        &self.0.insert(known).1
    }
}

impl SpanProto {
    fn read(self) -> JaegerSpan {
        JaegerSpan {
            trace_id: trace_id(&self.trace_id),
            span_id: SpanId::from_bytes(&self.span_id),
            parent_span_id: None,
            operation: self.operation_name,
            references: self.references.iter().map(ReferenceProto::read).collect(),
            flags: self.flags,
            start_unix_nano: nanoseconds(self.start_time),
            duration_nano: nanoseconds(self.duration),
            tags: attributes(self.tags),
            logs: self.logs.into_iter().map(LogProto::read).collect(),
            warnings: self.warnings,
        }
    }
}

impl ReferenceProto {
    fn read(&self) -> Reference {
        Reference {
            trace_id: trace_id(&self.trace_id),
            span_id: SpanId::from_bytes(&self.span_id),
            kind: match self.kind {
                1 => ReferenceKind::FollowsFrom,
                _ => ReferenceKind::ChildOf,
            },
        }
    }
}

impl LogProto {
    fn read(self) -> Log {
        Log { time_unix_nano: nanoseconds(self.timestamp), fields: attributes(self.fields) }
    }
}

impl ProcessProto {
    fn read(self) -> Process {
        Process::new(self.service_name, attributes(self.tags))
    }
}

/// 16 bytes. A 64-bit id may have 8.
fn trace_id(bytes: &[u8]) -> Option<TraceId> {
    match <[u8; 8]>::try_from(bytes) {
        Ok(low) => {
            let mut id = [0; 16];
            id[8..].copy_from_slice(&low);
            TraceId::from_bytes(&id)
        }
        Err(_) => TraceId::from_bytes(bytes),
    }
}

fn nanoseconds(time: Option<TimeProto>) -> i64 {
    let time = time.unwrap_or_default();
    time.seconds.saturating_mul(1_000_000_000).saturating_add(time.nanos.into())
}

fn attributes(list: Vec<KeyValueProto>) -> Attributes {
    list.into_iter()
        .map(|pair| {
            // `ValueType`
            let value = match pair.kind {
                1 => AttributeValue::Bool(pair.flag),
                2 => AttributeValue::Int(pair.int),
                3 => AttributeValue::Double(pair.double),
                4 => AttributeValue::Bytes(STANDARD.encode(pair.bytes)),
                _ => AttributeValue::String(pair.text),
            };
            (pair.key, value)
        })
        .collect()
}
