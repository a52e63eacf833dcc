//! Pieces to OTLP's protobuf, without a message in between: encoding is most of a replay.

use crate::process::Process;
use crate::recording::Piece;
use crate::records::{LogRecord, MetricPoint, Span};

const KEY_TRACESTATE: u16 = 65_535;
const KEY_MESSAGE: u16 = 65_534;
const KEY_BODY: u16 = 65_533;
const CUT: u8 = 0x80;
/// Smaller values are counted as zeros in the library's histograms: 2^-29.
const HISTOGRAM_ZERO: f64 = 1.0 / 536_870_912.0;

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
fn tag(to: &mut Vec<u8>, field: u64, wire: u64) {
    varint(to, field << 3 | wire);
}
fn bytes(to: &mut Vec<u8>, field: u64, value: &[u8]) {
    tag(to, field, 2);
    varint(to, value.len() as u64);
    to.extend_from_slice(value);
}
fn number(to: &mut Vec<u8>, field: u64, value: u64) {
    tag(to, field, 0);
    varint(to, value);
}
fn fixed64(to: &mut Vec<u8>, field: u64, value: u64) {
    tag(to, field, 1);
    to.extend_from_slice(&value.to_le_bytes());
}
fn fixed32(to: &mut Vec<u8>, field: u64, value: u32) {
    tag(to, field, 5);
    to.extend_from_slice(&value.to_le_bytes());
}
/// A message whose length is not known before: four bytes are kept for it.
fn message(to: &mut Vec<u8>, field: u64, write: impl FnOnce(&mut Vec<u8>)) {
    tag(to, field, 2);
    let at = to.len();
    to.extend_from_slice(&[0; 4]);
    write(to);
    let length = to.len() - at - 4;
    // A varint of four bytes, with empty groups: messages of up to 256 MiB.
    for n in 0..4 {
        to[at + n] = (length >> (7 * n)) as u8 & 0x7f | if n < 3 { 0x80 } else { 0 };
    }
}
fn text_attribute(to: &mut Vec<u8>, field: u64, key: &str, value: &str) {
    message(to, field, |to| {
        bytes(to, 1, key.as_bytes());
        message(to, 2, |to| bytes(to, 1, value.as_bytes()));
    });
}
fn true_attribute(to: &mut Vec<u8>, field: u64, key: &str) {
    message(to, field, |to| {
        bytes(to, 1, key.as_bytes());
        message(to, 2, |to| number(to, 2, 1));
    });
}

/// An attribute in the ring's form.
struct Attribute {
    key: u16,
    kind: u8,
    cut: bool,
    value: Vec<u8>,
}

/// Attributes of a record, up to the first damaged one.
fn attributes(mut words: &[u64]) -> Vec<Attribute> {
    let mut found = Vec::new();
    while let Some((first, rest)) = words.split_first() {
        let (kind, length) = ((*first >> 16) as u8, (*first >> 32) as usize);
        let length = if kind & !CUT < 4 { 8 } else { length };
        let Some(value) = rest.get(..length.div_ceil(8)) else { break };
        let mut bytes: Vec<u8> = value.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(length);
        found.push(Attribute {
            key: *first as u16,
            kind: kind & !CUT,
            cut: kind & CUT != 0,
            value: bytes,
        });
        words = &rest[value.len()..];
    }
    found
}

fn any_value(to: &mut Vec<u8>, field: u64, attribute: &Attribute) {
    let word = attribute.value.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    message(to, field, |to| match attribute.kind {
        1 => number(to, 3, word),
        2 => fixed64(to, 4, word),
        3 => number(to, 2, u64::from(word != 0)),
        4 => bytes(to, 1, String::from_utf8_lossy(&attribute.value).as_bytes()),
        _ => bytes(to, 7, &attribute.value),
    });
}

fn attribute_list(to: &mut Vec<u8>, field: u64, process: &Process, list: &[Attribute]) {
    for attribute in list.iter().filter(|attribute| attribute.key < KEY_BODY) {
        message(to, field, |to| {
            bytes(to, 1, process.string(attribute.key).as_bytes());
            any_value(to, 2, attribute);
        });
    }
    if list.iter().any(|attribute| attribute.cut) {
        true_attribute(to, field, "spanwise.value_cut");
    }
}

fn resource(to: &mut Vec<u8>, process: &Process) {
    message(to, 1, |to| {
        for (key, value) in &process.resource {
            text_attribute(to, 1, key, value);
        }
        message(to, 1, |to| {
            bytes(to, 1, b"process.pid");
            message(to, 2, |to| number(to, 3, u64::from(process.pid)));
        });
    });
}

fn scope(to: &mut Vec<u8>) {
    message(to, 1, |to| bytes(to, 1, b"spanwise-native"));
}

/// An `ExportTraceServiceRequest` with those spans of a piece that `keep` names.
pub fn traces(
    process: &Process,
    piece: &Piece,
    keep: impl Fn(&Span) -> bool,
    to: &mut Vec<u8>,
) -> u64 {
    let mut count = 0;
    to.reserve(piece.spans.len() * 112);
    message(to, 1, |to| {
        resource(to, process);
        message(to, 2, |to| {
            scope(to);
            for span in piece.spans.iter().filter(|span| keep(span)) {
                count += 1;
                one_span(to, process, piece, span);
            }
        });
    });
    count
}

fn one_span(to: &mut Vec<u8>, process: &Process, piece: &Piece, span: &Span) {
    let site = process.sites.get(usize::from(span.site));
    message(to, 2, |to| {
        bytes(to, 1, &span.trace_id.to_be_bytes());
        bytes(to, 2, &span.span_id.to_be_bytes());
        if span.parent_id != 0 {
            bytes(to, 4, &span.parent_id.to_be_bytes());
        }
        bytes(to, 5, site.map_or("", |site| &site.name).as_bytes());
        let kind = if span.kind > 0 { span.kind } else { site.map_or(0, |site| site.kind) };
        number(to, 6, u64::from(kind.min(5)));
        fixed64(to, 7, span.start_ns);
        fixed64(to, 8, span.end_ns);
        let from = span.extras.0 as usize;
        let extras = piece.extras.get(from..span.extras.1 as usize).unwrap_or_default();
        let message_text = if extras.is_empty() { None } else { span_extras(to, process, extras) };
        if span.open {
            true_attribute(to, 9, "spanwise.open");
        }
        if span.status > 0 || message_text.is_some() {
            message(to, 15, |to| {
                if let Some(text) = message_text {
                    bytes(to, 2, text.as_bytes());
                }
                number(to, 3, u64::from(span.status));
            });
        }
        let remote = 0x100 | if span.remote_parent { 0x200 } else { 0 };
        fixed32(to, 16, u32::from(span.trace_flags) | remote);
    });
}

/// Attributes, events and links. Returns the status's message.
fn span_extras(to: &mut Vec<u8>, process: &Process, mut extras: &[u64]) -> Option<String> {
    let mut text = None;
    while let Some(first) = extras.first() {
        let words = (*first >> 32 & 0xffff) as usize;
        let Some(record) = extras.get(..words.max(1)) else { break };
        extras = &extras[record.len()..];
        let get = |n: usize| record.get(n).copied().unwrap_or(0);
        match *first as u8 {
            4 => {
                let skipped = if (*first >> 8) as u8 == 255 { 2 } else { 1 };
                let list = attributes(record.get(skipped..).unwrap_or_default());
                attribute_list(to, 9, process, &list);
                for attribute in &list {
                    let value = || String::from_utf8_lossy(&attribute.value).into_owned();
                    match attribute.key {
                        KEY_TRACESTATE => bytes(to, 3, value().as_bytes()),
                        KEY_MESSAGE => text = Some(value()),
                        _ => {}
                    }
                }
            }
            5 => message(to, 11, |to| {
                fixed64(to, 1, process.clock.unix_ns(get(1), &mut 0));
                bytes(to, 2, process.string((*first >> 16) as u16).as_bytes());
                attribute_list(to, 3, process, &attributes(record.get(2..).unwrap_or_default()));
            }),
            6 => message(to, 13, |to| {
                let trace = u128::from(get(1)) << 64 | u128::from(get(2));
                bytes(to, 1, &trace.to_be_bytes());
                bytes(to, 2, &get(3).to_be_bytes());
                attribute_list(to, 4, process, &attributes(record.get(5..).unwrap_or_default()));
                fixed32(to, 6, get(4) as u32);
            }),
            _ => {}
        }
    }
    text
}

/// An `ExportLogsServiceRequest`.
pub fn logs(process: &Process, records: &[LogRecord], to: &mut Vec<u8>) {
    message(to, 1, |to| {
        resource(to, process);
        message(to, 2, |to| {
            scope(to);
            for record in records {
                message(to, 2, |to| {
                    let list = attributes(&record.attributes);
                    fixed64(to, 1, record.time_ns);
                    number(to, 2, u64::from(record.severity));
                    if let Some(body) = list.iter().find(|attribute| attribute.key == KEY_BODY) {
                        any_value(to, 5, body);
                    }
                    attribute_list(to, 6, process, &list);
                    if record.span_id != 0 {
                        bytes(to, 9, &record.trace_id.to_be_bytes());
                        bytes(to, 10, &record.span_id.to_be_bytes());
                    }
                    fixed64(to, 11, record.time_ns);
                });
            }
        });
    });
}

/// An `ExportMetricsServiceRequest`.
pub fn metrics(process: &Process, points: &[MetricPoint], to: &mut Vec<u8>) {
    message(to, 1, |to| {
        resource(to, process);
        message(to, 2, |to| {
            scope(to);
            for point in points {
                one_metric(to, process, point);
            }
        });
    });
}

fn one_metric(to: &mut Vec<u8>, process: &Process, point: &MetricPoint) {
    let Some(instrument) = process.instruments.get(usize::from(point.instrument)) else { return };
    let get = |n: usize| point.words.get(n).copied().unwrap_or(0);
    let labels = |to: &mut Vec<u8>, field| {
        for (key, value) in &instrument.attributes {
            text_attribute(to, field, key, value);
        }
    };
    message(to, 2, |to| {
        bytes(to, 1, instrument.name.as_bytes());
        bytes(to, 2, instrument.description.as_bytes());
        bytes(to, 3, instrument.unit.as_bytes());
        let value = |to: &mut Vec<u8>| {
            message(to, 1, |to| {
                labels(to, 7);
                fixed64(to, 2, point.start_ns);
                fixed64(to, 3, point.time_ns);
                fixed64(to, 6, get(0));
            });
        };
        match instrument.kind {
            3 => message(to, 5, value),
            4 => message(to, 10, |to| {
                message(to, 1, |to| {
                    labels(to, 1);
                    fixed64(to, 2, point.start_ns);
                    fixed64(to, 3, point.time_ns);
                    fixed64(to, 4, get(0));
                    fixed64(to, 5, get(1));
                    number(to, 6, 6); // zigzag of scale 3
                    fixed64(to, 7, get(4));
                    message(to, 8, |to| {
                        let offset = get(5) as i64;
                        number(to, 1, ((offset << 1) ^ (offset >> 63)) as u64);
                        message(to, 2, |to| {
                            for count in point.words.iter().skip(6) {
                                varint(to, *count);
                            }
                        });
                    });
                    fixed64(to, 12, get(2));
                    fixed64(to, 13, get(3));
                    fixed64(to, 14, HISTOGRAM_ZERO.to_bits());
                });
                number(to, 2, 2);
            }),
            kind => message(to, 7, |to| {
                value(to);
                number(to, 2, 2);
                number(to, 3, u64::from(kind == 1));
            }),
        }
    });
}

/// A number of a metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// A whole number.
    Integer(u64),
    /// Another number.
    Float(f64),
    /// How many values there were, by bounds: only of histograms.
    Buckets {
        /// Upper bounds of all buckets but the last.
        bounds: Vec<f64>,
        /// Values in each.
        counts: Vec<u64>,
        /// All values together.
        sum: f64,
    },
}

/// What a metric's numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberKind {
    /// A sum since the start that only grows.
    Counter,
    /// A sum that also falls.
    UpDownCounter,
    /// A value of the moment.
    Gauge,
    /// Values since the start, by size.
    Histogram,
}

/// A number with its attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberPoint {
    /// Attributes.
    pub attributes: Vec<(&'static str, String)>,
    /// Since when it counts, in nanoseconds of Unix time.
    pub start_ns: u64,
    /// The number.
    pub value: Number,
}

/// A metric.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberMetric {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What it counts.
    pub description: &'static str,
    /// What its numbers mean.
    pub kind: NumberKind,
    /// Its numbers.
    pub points: Vec<NumberPoint>,
}

impl NumberMetric {
    /// A metric of these numbers.
    pub const fn new(of: MetricKind, points: Vec<NumberPoint>) -> Self {
        let MetricKind { name, unit, description, kind } = of;
        Self { name, unit, description, kind, points }
    }
}

/// A metric without its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricKind {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What it counts.
    pub description: &'static str,
    /// What its numbers mean.
    pub kind: NumberKind,
}

/// The value of a resource's attribute.
#[derive(Debug, Clone, Copy)]
pub enum ResourceValue<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Integer(u64),
}

/// Adds metrics of a resource to an `ExportMetricsServiceRequest`.
pub fn numbers(
    resource: &[(&str, ResourceValue<'_>)],
    metrics: &[NumberMetric],
    time_ns: u64,
    to: &mut Vec<u8>,
) {
    message(to, 1, |to| {
        message(to, 1, |to| {
            for (key, value) in resource {
                match value {
                    ResourceValue::Text(text) => text_attribute(to, 1, key, text),
                    ResourceValue::Integer(value) => message(to, 1, |to| {
                        bytes(to, 1, key.as_bytes());
                        message(to, 2, |to| number(to, 3, *value));
                    }),
                }
            }
        });
        message(to, 2, |to| {
            message(to, 1, |to| bytes(to, 1, b"spanwise-host"));
            for metric in metrics {
                message(to, 2, |to| one_number_metric(to, metric, time_ns));
            }
        });
    });
}

fn one_number_metric(to: &mut Vec<u8>, metric: &NumberMetric, time_ns: u64) {
    bytes(to, 1, metric.name.as_bytes());
    bytes(to, 2, metric.description.as_bytes());
    bytes(to, 3, metric.unit.as_bytes());
    let attributes = if metric.kind == NumberKind::Histogram { 9 } else { 7 };
    let points = |to: &mut Vec<u8>| {
        for point in &metric.points {
            message(to, 1, |to| {
                for (key, value) in &point.attributes {
                    text_attribute(to, attributes, key, value);
                }
                if metric.kind != NumberKind::Gauge {
                    fixed64(to, 2, point.start_ns);
                }
                fixed64(to, 3, time_ns);
                match &point.value {
                    Number::Integer(value) => fixed64(to, 6, *value),
                    Number::Float(value) => fixed64(to, 4, value.to_bits()),
                    Number::Buckets { bounds, counts, sum } => {
                        fixed64(to, 4, counts.iter().sum());
                        fixed64(to, 5, sum.to_bits());
                        let words = |to: &mut Vec<u8>, word: u64| to.extend(word.to_le_bytes());
                        message(to, 6, |to| counts.iter().for_each(|count| words(to, *count)));
                        let bound = |bound: &f64| bound.to_bits();
                        message(to, 7, |to| bounds.iter().map(bound).for_each(|b| words(to, b)));
                    }
                }
            });
        }
    };
    match metric.kind {
        NumberKind::Gauge => message(to, 5, points),
        NumberKind::Histogram => message(to, 9, |to| {
            points(to);
            number(to, 2, 2);
        }),
        kind => message(to, 7, |to| {
            points(to);
            number(to, 2, 2);
            number(to, 3, u64::from(kind == NumberKind::Counter));
        }),
    }
}
