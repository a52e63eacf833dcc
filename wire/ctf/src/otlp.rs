//! Events to OTLP: records of Spanwise's library, messages of OpenTelemetry's, and other events
//! that carry the ids of spans.

use std::collections::{BTreeMap, HashMap};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event as SpanEvent, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use spanwise_native::fits;

use crate::fields::{any, attribute, id, number, text};
use crate::host::{HostCounts, HostFigures, Report};
use crate::messages::{LogRecord, OfResource, OfScope, Request, points};
use crate::trace::{Event, Trace};

/// Spans that are open at a time; more are an attack, or lack their ends.
const OPEN_MAX: usize = 100_000;
/// Attributes of one span, log record or event, and events of one span.
const PARTS_MAX: usize = 128;
/// A batch is sent when it has so many spans and log records.
const BATCH_ITEMS: usize = 4096;
const BATCH_BYTES: usize = 1 << 20;

/// Messages for an OTLP endpoint.
#[derive(Debug, Default)]
pub struct Batch {
    /// Of traces, logs and metrics.
    pub messages: [Vec<u8>; 3],
    /// Spans, log records and points of metrics in them.
    pub items: [u64; 3],
    /// The first start and the last end.
    pub times_ns: Option<(u64, u64)>,
}

/// What was not sent, and why.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Spans whose end is not in the trace.
    pub open: u64,
    /// Ends without a beginning.
    pub ends: u64,
    /// Events that carry no ids of a span.
    pub other: u64,
    /// Messages of OpenTelemetry that are damaged.
    pub messages: u64,
    /// Spans that were not kept, because too many were open.
    pub crowded: u64,
    /// Attributes and events beyond those that a span may have.
    pub parts: u64,
}

/// Types of attributes that are fields of their span, and the keys of these here.
const MESSAGE: u64 = 6;
const TRACESTATE: u64 = 7;
const MESSAGE_KEY: &str = "\0message";
const TRACESTATE_KEY: &str = "\0tracestate";

type Ids = ([u8; 16], [u8; 8]);

#[derive(Default)]
struct Known {
    service: String,
    resource: Vec<KeyValue>,
}

#[derive(Default)]
struct Group {
    spans: Vec<Span>,
    logs: Vec<LogRecord>,
}

/// Attributes, events and links of a record.
type Parts = (Vec<KeyValue>, Vec<SpanEvent>, Vec<Link>);

/// Makes OTLP of a trace's events.
pub struct Spans {
    trace: Trace,
    filter: Option<String>,
    /// What is known for sure not to be sent.
    pub counts: Counts,
    processes: HashMap<u64, Known>,
    open: HashMap<Ids, (Span, u64)>,
    /// Attributes and events before the record that they belong to.
    parts: HashMap<u64, Parts>,
    groups: BTreeMap<(u64, String), Group>,
    spans: Vec<ResourceSpans>,
    logs: Vec<OfResource>,
    metrics: Vec<OfResource>,
    host: HostFigures,
    report: Option<Report>,
    items: usize,
    bytes: usize,
    points: u64,
    last_ns: u64,
    done: bool,
    batches: u64,
    /// Batches that are not given out, because they were before.
    skipped: u64,
}

impl Spans {
    /// Spans whose names fit the pattern, if there is one.
    pub fn new(trace: Trace, filter: Option<String>) -> Self {
        Self {
            host: HostFigures::new(&trace),
            report: None,
            trace,
            filter,
            counts: Counts::default(),
            processes: HashMap::new(),
            open: HashMap::new(),
            parts: HashMap::new(),
            groups: BTreeMap::new(),
            spans: Vec::new(),
            logs: Vec::new(),
            metrics: Vec::new(),
            items: 0,
            bytes: 0,
            points: 0,
            last_ns: 0,
            done: false,
            batches: 0,
            skipped: 0,
        }
    }

    /// Batches that were given out, with those before.
    pub const fn position(&self) -> u64 {
        self.batches
    }

    /// Does not give out the first batches, as many as `position` said.
    pub const fn go_on(&mut self, position: u64) {
        self.skipped = position;
    }

    /// What metrics of the host are made of.
    pub const fn host_counts(&self) -> HostCounts {
        self.host.counts
    }

    /// The trace that is read.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The next messages; `None` at the end.
    pub fn next_batch(&mut self) -> Option<Batch> {
        loop {
            let batch = self.batch()?;
            self.batches += 1;
            if self.batches > self.skipped {
                return Some(batch);
            }
        }
    }

    fn batch(&mut self) -> Option<Batch> {
        // `step` borrows the trace, and the events' owner is to be changed.
        let mut trace = std::mem::replace(&mut self.trace, Trace::empty());
        while !self.done
            && self.items < BATCH_ITEMS
            && self.bytes < BATCH_BYTES
            && self.host.ready.is_empty()
        {
            match trace.step() {
                Some(Some(event)) => {
                    self.last_ns = self.last_ns.max(event.time_ns);
                    self.event(&event);
                    self.host.report_if_due(&trace);
                }
                Some(None) => {}
                None => {
                    self.done = true;
                    self.host.finish(&trace);
                    self.end_open();
                }
            }
        }
        self.trace = trace;
        self.report = self.host.ready.pop_front();
        if let Some(report) = &self.report {
            self.items += report.points as usize;
            self.points += report.points;
        }
        (self.items > 0).then(|| self.flush())
    }

    fn keeps(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|pattern| fits(pattern, name))
    }

    fn event(&mut self, event: &Event<'_>) {
        if self.host.event(event) {
            return;
        }
        match event.class.name.as_str() {
            "opentelemetry:resource_spans" => self.message(event, "resource_spans", 0),
            "opentelemetry:resource_logs" => self.message(event, "resource_logs", 1),
            "opentelemetry:resource_metrics" => self.message(event, "resource_metrics", 2),
            name if name.starts_with("lttng_ust_") => {}
            name => match name.strip_prefix("spanwise:") {
                Some(record) if self.own(record, event) => {}
                _ => self.generic(event),
            },
        }
    }

    // ---- messages of OpenTelemetry --------------------------------------------------------

    fn message(&mut self, event: &Event<'_>, field: &str, signal: usize) {
        let bytes = event.bytes(field).unwrap_or_default();
        let read = match signal {
            0 => self.message_of_spans(bytes),
            _ => self.message_of_others(bytes, signal == 2),
        };
        match read {
            Ok(items) if !bytes.is_empty() => {
                self.items += items;
                self.bytes += bytes.len();
            }
            _ => self.counts.messages += 1,
        }
    }

    fn message_of_spans(&mut self, bytes: &[u8]) -> Result<usize, prost::DecodeError> {
        let mut spans = ResourceSpans::decode(bytes)?;
        let mut count = 0;
        for scope in &mut spans.scope_spans {
            scope.spans.retain(|span| self.keeps(&span.name));
            count += scope.spans.len();
        }
        if count > 0 {
            self.spans.push(spans);
        }
        Ok(count)
    }

    fn message_of_others(
        &mut self,
        bytes: &[u8],
        is_metrics: bool,
    ) -> Result<usize, prost::DecodeError> {
        let of = OfResource::decode(bytes)?;
        let items = || of.scopes.iter().flat_map(|scope| &scope.items);
        if is_metrics {
            let count = items().map(|metric| points(metric)).sum::<Result<usize, _>>()?;
            self.points += count as u64;
            self.metrics.push(of);
            return Ok(count);
        }
        let count = items().count();
        self.logs.push(of);
        Ok(count)
    }

    // ---- records of Spanwise's library ------------------------------------------------------

    /// Whether it was such a record.
    fn own(&mut self, record: &str, event: &Event<'_>) -> bool {
        let number = |name| event.number(name);
        match record {
            "process" => {
                let Some(pid) = number("pid") else { return false };
                let known = Known {
                    service: event.text("service").unwrap_or_default().to_owned(),
                    resource: pairs(event.bytes("resource").unwrap_or_default()),
                };
                if self.processes.len() < OPEN_MAX {
                    self.processes.insert(pid, known);
                }
            }
            "attribute" => {
                let (Some(of), Some(key)) = (number("of"), event.text("key")) else { return false };
                let Some(value) = own_value(event) else { return false };
                let key = match number("type") {
                    Some(MESSAGE) => MESSAGE_KEY,
                    Some(TRACESTATE) => TRACESTATE_KEY,
                    _ => key,
                };
                self.add_part(of, |parts| &mut parts.0, attribute(key, value));
            }
            "event" => {
                let (Some(of), Some(id)) = (number("of"), number("id")) else { return false };
                let parts = self.parts.remove(&id).unwrap_or_default();
                let made = SpanEvent {
                    time_unix_nano: event.time_ns,
                    name: event.text("name").unwrap_or_default().to_owned(),
                    attributes: parts.0,
                    ..SpanEvent::default()
                };
                self.add_part(of, |parts| &mut parts.1, made);
            }
            "link" => {
                let (Some(of), Some(id)) = (number("of"), number("id")) else { return false };
                let parts = self.parts.remove(&id).unwrap_or_default();
                let made = Link {
                    trace_id: trace_id(event),
                    span_id: number("span_id").unwrap_or(0).to_be_bytes().to_vec(),
                    attributes: parts.0,
                    flags: number("flags").unwrap_or(0) as u32,
                    ..Link::default()
                };
                self.add_part(of, |parts| &mut parts.2, made);
            }
            "span" => return self.own_span(event).is_some(),
            "log" => return self.own_log(event).is_some(),
            _ => return false,
        }
        true
    }

    fn add_part<T>(
        &mut self,
        of: u64,
        list: impl FnOnce(&mut (Vec<KeyValue>, Vec<SpanEvent>, Vec<Link>)) -> &mut Vec<T>,
        part: T,
    ) {
        if self.parts.len() >= OPEN_MAX && !self.parts.contains_key(&of) {
            self.counts.parts += 1;
            return;
        }
        let list = list(self.parts.entry(of).or_default());
        if list.len() < PARTS_MAX {
            list.push(part);
        } else {
            self.counts.parts += 1;
        }
    }

    fn own_span(&mut self, event: &Event<'_>) -> Option<()> {
        let id = event.number("span_id")?;
        let (mut attributes, events, links) = self.parts.remove(&id).unwrap_or_default();
        let trace_state = take_text(&mut attributes, TRACESTATE_KEY).unwrap_or_default();
        let message = take_text(&mut attributes, MESSAGE_KEY);
        let parent = event.number("parent_id").unwrap_or(0);
        let flags = event.number("flags").unwrap_or(0) as u32;
        let span = Span {
            trace_id: trace_id(event),
            span_id: id.to_be_bytes().to_vec(),
            parent_span_id: if parent == 0 { Vec::new() } else { parent.to_be_bytes().to_vec() },
            name: event.text("name")?.to_owned(),
            kind: event.number("kind").unwrap_or(0).min(5) as i32,
            start_time_unix_nano: event.time_ns.saturating_sub(event.number("duration")?),
            end_time_unix_nano: event.time_ns,
            flags: flags & 0x3ff,
            ..Span::default()
        };
        let code = event.number("status").unwrap_or(0).min(2) as i32;
        let status = (code > 0 || message.is_some())
            .then(|| Status { code, message: message.unwrap_or_default() });
        let span = Span { attributes, events, links, trace_state, status, ..span };
        self.keep(event.number("pid").unwrap_or(0), procname(event), span);
        Some(())
    }

    fn own_log(&mut self, event: &Event<'_>) -> Option<()> {
        let parts = self.parts.remove(&event.number("id")?).unwrap_or_default();
        let span = event.number("span_id")?;
        let body = AnyValue { value: Some(Any::StringValue(event.text("body")?.to_owned())) };
        let has_span = span != 0;
        let record = LogRecord {
            time_unix_nano: event.time_ns,
            observed_time_unix_nano: event.time_ns,
            severity_number: event.number("severity").unwrap_or(0).min(24) as i32,
            body: Some(body),
            attributes: parts.0,
            trace_id: if has_span { trace_id(event) } else { Vec::new() },
            span_id: if has_span { span.to_be_bytes().to_vec() } else { Vec::new() },
        };
        let key = (event.number("pid").unwrap_or(0), procname(event));
        self.bytes += 128;
        self.items += 1;
        self.groups.entry(key).or_default().logs.push(record);
        Some(())
    }

    // ---- events of others -------------------------------------------------------------------

    fn generic(&mut self, event: &Event<'_>) {
        let trace = event.field(&["traceid"]).and_then(id::<16>);
        let span = event.field(&["spanid"]).and_then(id::<8>);
        let (Some(trace), Some(span)) = (trace, span) else {
            self.counts.other += 1;
            return;
        };
        let name = &event.class.name;
        let pid = event.field(&["vpid", "pid"]).and_then(number).unwrap_or(0);
        if let Some(name) = without(name, &["begin", "start", "entry", "enter"]) {
            if let Some((before, pid)) = self.open.remove(&(trace, span)) {
                self.finish_open(pid, before);
            }
            if self.open.len() >= OPEN_MAX {
                self.counts.crowded += 1;
                return;
            }
            let parent = event.field(&["parentspanid", "parentid"]).and_then(id::<8>);
            let mut made = Span {
                trace_id: trace.to_vec(),
                span_id: span.to_vec(),
                parent_span_id: parent.map(|id| id.to_vec()).unwrap_or_default(),
                name: name.to_owned(),
                kind: 1,
                start_time_unix_nano: event.time_ns,
                attributes: attributes(event),
                ..Span::default()
            };
            // Until it ends this is where it comes from.
            made.trace_state = procname(event);
            self.open.insert((trace, span), (made, pid));
        } else if without(name, &["end", "stop", "exit", "finish", "leave"]).is_some() {
            let Some((mut made, pid)) = self.open.remove(&(trace, span)) else {
                self.counts.ends += 1;
                return;
            };
            let known: Vec<String> = made.attributes.iter().map(|pair| pair.key.clone()).collect();
            let new = attributes(event).into_iter().filter(|pair| !known.contains(&pair.key));
            made.attributes.extend(new);
            made.end_time_unix_nano = event.time_ns.max(made.start_time_unix_nano);
            self.finish_of(pid, made);
        } else if let Some((made, _)) = self.open.get_mut(&(trace, span)) {
            if made.events.len() < PARTS_MAX {
                made.events.push(SpanEvent {
                    time_unix_nano: event.time_ns,
                    name: name.clone(),
                    attributes: attributes(event),
                    ..SpanEvent::default()
                });
            } else {
                self.counts.parts += 1;
            }
        } else {
            // The span is not of this trace: a moment below it.
            let own = mix(u64::from_be_bytes(span) ^ event.time_ns, event.stream as u64);
            let made = Span {
                trace_id: trace.to_vec(),
                span_id: own.to_be_bytes().to_vec(),
                parent_span_id: span.to_vec(),
                name: name.clone(),
                kind: 1,
                start_time_unix_nano: event.time_ns,
                end_time_unix_nano: event.time_ns,
                attributes: attributes(event),
                trace_state: procname(event),
                ..Span::default()
            };
            self.finish_of(pid, made);
        }
    }

    fn finish_of(&mut self, pid: u64, mut span: Span) {
        let process = std::mem::take(&mut span.trace_state);
        self.keep(pid, process, span);
    }

    fn keep(&mut self, pid: u64, process: String, span: Span) {
        if self.keeps(&span.name) {
            self.items += 1;
            self.bytes += span.encoded_len();
            self.groups.entry((pid, process)).or_default().spans.push(span);
        }
    }

    fn finish_open(&mut self, pid: u64, mut span: Span) {
        span.end_time_unix_nano = self.last_ns.max(span.start_time_unix_nano);
        span.attributes.push(attribute("spanwise.open", Any::BoolValue(true)));
        self.counts.open += 1;
        self.finish_of(pid, span);
    }

    fn end_open(&mut self) {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_by_key(|(ids, (span, _))| (span.start_time_unix_nano, *ids));
        for (_, (span, pid)) in open {
            self.finish_open(pid, span);
        }
    }

    // ---- messages ----------------------------------------------------------------------------

    fn resource(&self, pid: u64, process: &str) -> Resource {
        let environment = self.trace.environment();
        let of_environment = |key: &str| environment.get(key).filter(|text| !text.is_empty());
        let known = self.processes.get(&pid);
        let service = known
            .map(|known| known.service.as_str())
            .filter(|service| !service.is_empty())
            .or(Some(process).filter(|process| !process.is_empty()))
            .or_else(|| of_environment("procname").map(String::as_str))
            .unwrap_or("lttng");
        let mut attributes = vec![attribute("service.name", Any::StringValue(service.to_owned()))];
        let pid =
            if pid > 0 { Some(pid) } else { of_environment("vpid").and_then(|p| p.parse().ok()) };
        if let Some(pid) = pid.and_then(|pid| i64::try_from(pid).ok()) {
            attributes.push(attribute("process.pid", Any::IntValue(pid)));
        }
        if let Some(host) = of_environment("hostname") {
            attributes.push(attribute("host.name", Any::StringValue(host.clone())));
        }
        let own = known.map(|known| known.resource.clone()).unwrap_or_default();
        attributes.extend(own.into_iter().filter(|pair| pair.key != "service.name"));
        Resource { attributes, ..Resource::default() }
    }

    fn flush(&mut self) -> Batch {
        let scope = || {
            let name = "lttng".to_owned();
            Some(InstrumentationScope { name, ..InstrumentationScope::default() })
        };
        let (mut spans, mut logs) =
            (std::mem::take(&mut self.spans), std::mem::take(&mut self.logs));
        for ((pid, process), group) in std::mem::take(&mut self.groups) {
            let resource = Some(self.resource(pid, &process));
            if !group.spans.is_empty() {
                let inner =
                    ScopeSpans { scope: scope(), spans: group.spans, ..ScopeSpans::default() };
                let resource = resource.clone();
                let scope_spans = vec![inner];
                spans.push(ResourceSpans { resource, scope_spans, ..ResourceSpans::default() });
            }
            if !group.logs.is_empty() {
                let items = group.logs.iter().map(prost::Message::encode_to_vec).collect();
                let scope = scope().as_ref().map(InstrumentationScope::encode_to_vec);
                let scope = scope.unwrap_or_default();
                let scopes = vec![OfScope { scope, items, schema_url: String::new() }];
                let resource = resource.map(|it| it.encode_to_vec()).unwrap_or_default();
                logs.push(OfResource { resource, scopes, schema_url: String::new() });
            }
        }
        let metrics = std::mem::take(&mut self.metrics);
        let all = || spans.iter().flat_map(|of| &of.scope_spans).flat_map(|scope| &scope.spans);
        let report = self.report.take();
        let of_report = report.as_ref().map(|report| report.times_ns);
        let starts = all().map(|span| span.start_time_unix_nano);
        let first = starts.chain(of_report.map(|times| times.0)).min();
        let ends = all().map(|span| span.end_time_unix_nano);
        let last = ends.chain(of_report.map(|times| times.1)).max();
        let mut points = Request { resources: metrics }.encode_to_vec();
        // Messages of the same kind are joined by writing one after the other.
        points.extend(report.into_iter().flat_map(|report| report.message));
        let records: usize =
            logs.iter().flat_map(|of| &of.scopes).map(|scope| scope.items.len()).sum();
        let batch = Batch {
            items: [all().count() as u64, records as u64, std::mem::take(&mut self.points)],
            times_ns: first.zip(last),
            messages: [
                ExportTraceServiceRequest { resource_spans: spans }.encode_to_vec(),
                Request { resources: logs }.encode_to_vec(),
                points,
            ],
        };
        (self.items, self.bytes) = (0, 0);
        batch
    }
}

/// Takes the attribute out whose text is a span's own field.
fn take_text(attributes: &mut Vec<KeyValue>, key: &str) -> Option<String> {
    let index = attributes.iter().rposition(|pair| pair.key == key)?;
    match attributes.remove(index).value?.value? {
        Any::StringValue(text) => Some(text),
        _ => None,
    }
}

fn trace_id(event: &Event<'_>) -> Vec<u8> {
    let word = |name| event.number(name).unwrap_or(0).to_be_bytes();
    [word("trace_hi"), word("trace_lo")].concat()
}

/// `key\0value\0` of a process's resource.
fn pairs(bytes: &[u8]) -> Vec<KeyValue> {
    let text = String::from_utf8_lossy(bytes);
    let mut words = text.split('\0');
    let mut found = Vec::new();
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        if found.len() < PARTS_MAX && !key.is_empty() {
            found.push(attribute(key, Any::StringValue(value.to_owned())));
        }
    }
    found
}

/// The value of an attribute, by the library's types.
fn own_value(event: &Event<'_>) -> Option<Any> {
    let bytes = event.bytes("value")?;
    let word = bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    Some(match event.number("type")? {
        1 => Any::IntValue(word as i64),
        2 => Any::DoubleValue(f64::from_bits(word)),
        3 => Any::BoolValue(word != 0),
        // A span's own fields are texts, too.
        4 | MESSAGE | TRACESTATE => Any::StringValue(String::from_utf8_lossy(bytes).into_owned()),
        5 => Any::BytesValue(bytes.to_vec()),
        _ => return None,
    })
}

/// The name of the process, if the trace has it in a context.
fn procname(event: &Event<'_>) -> String {
    event.field(&["procname"]).and_then(text).unwrap_or_default().to_owned()
}

/// All fields that are no ids, and the thread.
fn attributes(event: &Event<'_>) -> Vec<KeyValue> {
    let is_id = |name: &str| {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        let plain: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        ["traceid", "spanid", "parentspanid", "parentid", "vpid", "pid", "procname"]
            .contains(&plain.as_str())
    };
    // The length of a sequence is there twice.
    let is_length = |name: &str| name.starts_with('_') && name.ends_with("_length");
    let all = event.fields.iter().chain(&event.context).chain(&event.common);
    all.filter(|(name, _)| !is_id(name) && !is_length(name))
        .take(PARTS_MAX)
        .map(|(name, value)| match *name {
            "vtid" | "tid" => attribute("thread.id", any(value)),
            name => attribute(name, any(value)),
        })
        .collect()
}

/// The name without one of these last words.
fn without<'n>(name: &'n str, words: &[&str]) -> Option<&'n str> {
    words.iter().find_map(|word| {
        let at = name.len().checked_sub(word.len())?;
        let (rest, last) = (name.get(..at)?, name.get(at..)?);
        let before = rest.strip_suffix(['_', ':', '.', '-'])?;
        (last.eq_ignore_ascii_case(word) && !before.is_empty()).then_some(before)
    })
}

/// An id that is the same whenever the trace is read.
const fn mix(value: u64, salt: u64) -> u64 {
    let mut mixed = value ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Value;

    #[test]
    fn names_lose_their_last_word() {
        assert_eq!(without("shop:request_begin", &["begin"]), Some("shop:request"));
        assert_eq!(without("shop:Start", &["start"]), Some("shop"));
        assert_eq!(without("begin", &["begin"]), None);
        assert_eq!(without("shop:restart", &["start"]), None);
    }

    #[test]
    fn ids_have_several_forms() {
        let one = [0, 0, 0, 0, 0, 0, 1, 2];
        for value in [
            Value::Text("102".into()),
            Value::Text("0000000000000102".into()),
            Value::Bytes(one.to_vec().into()),
            Value::Integer(258),
            Value::List(vec![Value::Integer(258)]),
        ] {
            assert_eq!(id::<8>(&value), Some(one), "{value:?}");
        }
        assert_eq!(id::<8>(&Value::Integer(0)), None);
        assert_eq!(id::<8>(&Value::Text("+1".into())), None);
    }
}
