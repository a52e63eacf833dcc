//! Views of a request's messages with borrowed texts.

use std::ops::Range;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;

use super::keys::Keys;
use super::value::Pair;

/// A `Span`. One view is reused for all spans of a request, so that its lists are allocated once
/// and keys are known from the previous span.
#[derive(Debug, Default, Clone)]
pub(crate) struct SpanView<'a> {
    pub(crate) trace_id: &'a [u8],
    pub(crate) span_id: &'a [u8],
    pub(crate) parent_span_id: &'a [u8],
    pub(crate) trace_state: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: i32,
    pub(crate) start_time_unix_nano: u64,
    pub(crate) end_time_unix_nano: u64,
    pub(crate) attributes: Vec<Pair<'a>>,
    pub(crate) dropped_attributes_count: u32,
    pub(crate) events: Vec<EventView<'a>>,
    pub(crate) dropped_events_count: u32,
    pub(crate) links: Vec<LinkView<'a>>,
    pub(crate) dropped_links_count: u32,
    /// Number of attributes, events and links beyond the limits, which were not decoded.
    pub(crate) attributes_beyond: usize,
    pub(crate) events_beyond: usize,
    pub(crate) links_beyond: usize,
    pub(crate) status_message: &'a str,
    pub(crate) status_code: i32,
    /// The status of OTLP 0.x: any value but zero is an error, unless the newer field says
    /// otherwise.
    pub(crate) old_status_code: u64,
    /// Attributes of events and links, which refer to them by index.
    pub(crate) inner: Vec<Pair<'a>>,
    pub(crate) keys: Keys<'a>,
}

/// A `Span.Event`.
#[derive(Debug, Default, Clone)]
pub(crate) struct EventView<'a> {
    pub(crate) time_unix_nano: u64,
    pub(crate) name: &'a str,
    pub(crate) attributes: Range<usize>,
    pub(crate) dropped_attributes_count: u32,
}

/// A `Span.Link`.
#[derive(Debug, Default, Clone)]
pub(crate) struct LinkView<'a> {
    pub(crate) trace_id: &'a [u8],
    pub(crate) span_id: &'a [u8],
    pub(crate) trace_state: &'a str,
    pub(crate) attributes: Range<usize>,
    pub(crate) dropped_attributes_count: u32,
}

/// A `Resource`.
#[derive(Debug, Default, Clone)]
pub(crate) struct ResourceView<'a> {
    pub(crate) attributes: Vec<Pair<'a>>,
    pub(crate) dropped_attributes_count: u32,
}

/// An `InstrumentationScope`.
#[derive(Debug, Default, Clone)]
pub(crate) struct ScopeView<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) attributes: Vec<Pair<'a>>,
}

impl SpanView<'_> {
    /// Resets the view to a span without fields.
    pub(crate) fn clear(&mut self) {
        let Self { attributes, events, links, inner, .. } = self;
        attributes.clear();
        events.clear();
        links.clear();
        inner.clear();
        self.trace_id = &[];
        self.span_id = &[];
        self.parent_span_id = &[];
        self.trace_state = "";
        self.name = "";
        self.kind = 0;
        self.start_time_unix_nano = 0;
        self.end_time_unix_nano = 0;
        self.dropped_attributes_count = 0;
        self.dropped_events_count = 0;
        self.dropped_links_count = 0;
        self.attributes_beyond = 0;
        self.events_beyond = 0;
        self.links_beyond = 0;
        self.status_message = "";
        self.status_code = 0;
        self.old_status_code = 0;
    }
}

impl<'a> From<&'a Span> for SpanView<'a> {
    fn from(span: &'a Span) -> Self {
        let mut inner = Vec::new();
        let mut add = |attributes: &'a [_]| {
            let start = inner.len();
            inner.extend(attributes.iter().map(Pair::from));
            start..inner.len()
        };
        let events = span.events.iter().map(|event| EventView {
            time_unix_nano: event.time_unix_nano,
            name: &event.name,
            attributes: add(&event.attributes),
            dropped_attributes_count: event.dropped_attributes_count,
        });
        let events = events.collect();
        let links = span.links.iter().map(|link| LinkView {
            trace_id: &link.trace_id,
            span_id: &link.span_id,
            trace_state: &link.trace_state,
            attributes: add(&link.attributes),
            dropped_attributes_count: link.dropped_attributes_count,
        });
        let links = links.collect();
        let status = span.status.as_ref();
        Self {
            trace_id: &span.trace_id,
            span_id: &span.span_id,
            parent_span_id: &span.parent_span_id,
            trace_state: &span.trace_state,
            name: &span.name,
            kind: span.kind,
            start_time_unix_nano: span.start_time_unix_nano,
            end_time_unix_nano: span.end_time_unix_nano,
            attributes: span.attributes.iter().map(Into::into).collect(),
            dropped_attributes_count: span.dropped_attributes_count,
            events,
            dropped_events_count: span.dropped_events_count,
            links,
            dropped_links_count: span.dropped_links_count,
            attributes_beyond: 0,
            events_beyond: 0,
            links_beyond: 0,
            status_message: status.map_or("", |status| &status.message),
            status_code: status.map_or(0, |status| status.code),
            old_status_code: 0,
            inner,
            keys: Keys::default(),
        }
    }
}

impl<'a> From<&'a Resource> for ResourceView<'a> {
    fn from(resource: &'a Resource) -> Self {
        Self {
            attributes: resource.attributes.iter().map(Into::into).collect(),
            dropped_attributes_count: resource.dropped_attributes_count,
        }
    }
}

impl<'a> From<&'a InstrumentationScope> for ScopeView<'a> {
    fn from(scope: &'a InstrumentationScope) -> Self {
        Self {
            name: &scope.name,
            version: &scope.version,
            attributes: scope.attributes.iter().map(Into::into).collect(),
        }
    }
}
