//! Traces in memory, on which queries are evaluated.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::ast::{Attribute, Field, Intrinsic, Kind, Scope, Status};
use crate::tree::Tree;
use crate::value::Value;

/// All spans of a trace, in any order.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Its id.
    pub id: [u8; 16],
    /// Its spans.
    pub spans: Vec<Span>,
}

/// A span.
#[derive(Debug, Clone)]
pub struct Span {
    /// The span's id. Two spans with one id are the two sides of a call, as Zipkin stores them. If
    /// more than two spans have one id, none of them has children.
    pub id: [u8; 8],
    /// The id of its parent; `None` for a root.
    pub parent_id: Option<[u8; 8]>,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its status.
    pub status: Status,
    /// The text of its status.
    pub status_message: String,
    /// Its start, in nanoseconds of Unix time.
    pub start_unix_nanos: u64,
    /// Its duration.
    pub duration_nanos: u64,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its events.
    pub events: Vec<Event>,
    /// Its links to other spans.
    pub links: Vec<Link>,
    /// Its resource.
    pub resource: Arc<Attributes>,
    /// Its instrumentation scope.
    pub instrumentation: Arc<Instrumentation>,
}

/// Names and values.
pub type Attributes = Vec<(String, AttributeValue)>;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "OpenTelemetry's own")]
pub enum AttributeValue {
    Empty,
    String(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    Array(Vec<AttributeValue>),
    Bytes(Vec<u8>),
    Map(Attributes),
}

/// An event of a span.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "OpenTelemetry's own")]
pub struct Event {
    pub name: String,
    pub unix_nanos: u64,
    pub attributes: Attributes,
}

/// A link of a span.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "OpenTelemetry's own")]
pub struct Link {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    pub attributes: Attributes,
}

/// An instrumentation scope.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "OpenTelemetry's own")]
pub struct Instrumentation {
    pub name: String,
    pub version: String,
    pub attributes: Attributes,
}

impl<'a> From<&'a AttributeValue> for Value<'a> {
    fn from(value: &'a AttributeValue) -> Self {
        match value {
            AttributeValue::Empty => Value::Nil,
            AttributeValue::String(text) => Value::String(Cow::Borrowed(text)),
            AttributeValue::Int(number) => Value::Int(*number),
            AttributeValue::Float(number) => Value::Float(*number),
            AttributeValue::Bool(value) => Value::Bool(*value),
            AttributeValue::Array(values) => Value::Array(values.iter().map(Value::from).collect()),
            AttributeValue::Bytes(_) | AttributeValue::Map(_) => Value::Other,
        }
    }
}

fn find<'a>(attributes: &'a Attributes, name: &str) -> Option<Value<'a>> {
    let (_, value) = attributes.iter().find(|(found, _)| found == name)?;
    Some(Value::from(value)).filter(|value| *value != Value::Nil)
}

/// No value, a single value, or an array.
fn several<'a>(values: impl Iterator<Item = Value<'a>>) -> Option<Value<'a>> {
    let mut all = Vec::new();
    for value in values {
        match value {
            Value::Array(values) => all.extend(values),
            value => all.push(value),
        }
    }
    if all.len() > 1 { Some(Value::Array(all)) } else { all.pop() }
}

fn hex(bytes: &[u8]) -> Value<'static> {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Value::String(Cow::Owned(text))
}

fn nanoseconds(nanoseconds: u64) -> Value<'static> {
    Value::Duration(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// A trace with precomputed properties of the whole trace.
pub struct TraceView<'t> {
    trace: &'t Trace,
    tree: OnceCell<Tree>,
    root: Option<usize>,
    duration_nanos: u64,
}

impl<'t> TraceView<'t> {
    /// A view of `trace`.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        let spans = &trace.spans;
        let start = spans.iter().map(|span| span.start_unix_nanos).min().unwrap_or(0);
        let end = spans
            .iter()
            .map(|span| span.start_unix_nanos.saturating_add(span.duration_nanos))
            .max()
            .unwrap_or(0);
        let root = (0..spans.len())
            .filter(|span| spans[*span].parent_id.is_none())
            .min_by_key(|span| (spans[*span].start_unix_nanos, *span));
        TraceView { trace, tree: OnceCell::new(), root, duration_nanos: end - start }
    }

    /// The trace.
    #[must_use]
    pub fn trace(&self) -> &'t Trace {
        self.trace
    }

    /// The tree of its spans.
    pub(crate) fn tree(&self) -> &Tree {
        self.tree.get_or_init(|| Tree::new(&self.trace.spans))
    }

    /// The value of a field of the span with index `span`. Ids are hexadecimal text in lower case.
    #[must_use]
    pub fn field(&self, span: usize, field: &Field) -> Value<'t> {
        match field {
            Field::Attribute(attribute) => self.attribute(span, attribute).unwrap_or(Value::Nil),
            Field::Intrinsic(intrinsic) => self.intrinsic(span, *intrinsic),
        }
    }

    fn attribute(&self, span: usize, attribute: &Attribute) -> Option<Value<'t>> {
        let span = if attribute.parent { self.tree().parent(span)? } else { span };
        let (span, name) = (&self.trace.spans[span], attribute.name.as_str());
        let scoped = |scope| match scope {
            Scope::Span | Scope::Any => find(&span.attributes, name),
            Scope::Resource => find(&span.resource, name),
            Scope::Event => {
                several(span.events.iter().filter_map(|event| find(&event.attributes, name)))
            }
            Scope::Link => {
                several(span.links.iter().filter_map(|link| find(&link.attributes, name)))
            }
            Scope::Instrumentation => find(&span.instrumentation.attributes, name),
        };
        match attribute.scope {
            Scope::Any => {
                [Scope::Span, Scope::Resource, Scope::Event, Scope::Link, Scope::Instrumentation]
                    .into_iter()
                    .find_map(scoped)
            }
            scope => scoped(scope),
        }
    }

    fn intrinsic(&self, index: usize, intrinsic: Intrinsic) -> Value<'t> {
        let span = &self.trace.spans[index];
        let text = |text: &'t str| Value::String(Cow::Borrowed(text));
        match intrinsic {
            Intrinsic::Duration => nanoseconds(span.duration_nanos),
            Intrinsic::Name => text(&span.name),
            Intrinsic::Status => Value::Status(span.status),
            Intrinsic::StatusMessage => text(&span.status_message),
            Intrinsic::Kind => Value::Kind(span.kind),
            Intrinsic::SpanId => hex(&span.id),
            Intrinsic::ParentId => span.parent_id.map_or(Value::Nil, |id| hex(&id)),
            Intrinsic::ChildCount => Value::Int(self.tree().child_count(index)),
            Intrinsic::TraceDuration => nanoseconds(self.duration_nanos),
            Intrinsic::RootName => {
                self.root.map_or(Value::Nil, |root| text(&self.trace.spans[root].name))
            }
            Intrinsic::RootService => self
                .root
                .and_then(|root| find(&self.trace.spans[root].resource, "service.name"))
                .unwrap_or(Value::Nil),
            Intrinsic::TraceId => hex(&self.trace.id),
            Intrinsic::EventName => {
                several(span.events.iter().map(|event| text(&event.name))).unwrap_or(Value::Nil)
            }
            Intrinsic::EventTimeSinceStart => several(span.events.iter().map(|event| {
                let since = i128::from(event.unix_nanos) - i128::from(span.start_unix_nanos);
                Value::Duration(i64::try_from(since).unwrap_or(i64::MAX))
            }))
            .unwrap_or(Value::Nil),
            Intrinsic::LinkTraceId => {
                several(span.links.iter().map(|link| hex(&link.trace_id))).unwrap_or(Value::Nil)
            }
            Intrinsic::LinkSpanId => {
                several(span.links.iter().map(|link| hex(&link.span_id))).unwrap_or(Value::Nil)
            }
            Intrinsic::InstrumentationName => text(&span.instrumentation.name),
            Intrinsic::InstrumentationVersion => text(&span.instrumentation.version),
            Intrinsic::NestedSetLeft => Value::Int(self.tree().left(index)),
            Intrinsic::NestedSetRight => Value::Int(self.tree().right(index)),
            Intrinsic::NestedSetParent => Value::Int(self.tree().parent_number(index)),
        }
    }

    /// Calls `each` for every field of a span whose values can be counted: not for durations, ids
    /// and numbers of the tree.
    pub(crate) fn countable_fields(&self, index: usize, mut each: impl FnMut(Field, Value<'t>)) {
        let span = &self.trace.spans[index];
        for intrinsic in [
            Intrinsic::Name,
            Intrinsic::Kind,
            Intrinsic::Status,
            Intrinsic::StatusMessage,
            Intrinsic::RootName,
            Intrinsic::RootService,
            Intrinsic::EventName,
            Intrinsic::InstrumentationName,
            Intrinsic::InstrumentationVersion,
        ] {
            each(Field::Intrinsic(intrinsic), self.intrinsic(index, intrinsic));
        }
        let scopes = [
            (Scope::Span, &span.attributes),
            (Scope::Resource, span.resource.as_ref()),
            (Scope::Instrumentation, &span.instrumentation.attributes),
        ];
        let events = span.events.iter().map(|event| (Scope::Event, &event.attributes));
        let links = span.links.iter().map(|link| (Scope::Link, &link.attributes));
        for (scope, attributes) in scopes.into_iter().chain(events).chain(links) {
            for (name, value) in attributes {
                let attribute = Attribute { parent: false, scope, name: name.clone() };
                each(Field::Attribute(attribute), Value::from(value));
            }
        }
    }
}
