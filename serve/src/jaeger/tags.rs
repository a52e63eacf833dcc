//! What Jaeger has tags and references for ("OpenTelemetry to Jaeger Transformation").

use serde_json::Value;
use spanwise_model::{AttributeValue, Attributes, Event, Link, SpanId, Status, TraceId};

use crate::dialect::placed::{PlacedSpan, STATUS_DESCRIPTION};

/// What kind of reference a link is, as OpenTracing knows it.
const REFERENCE_TYPE: &str = "opentracing.ref_type";

/// A reference to another span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) trace_id: TraceId,
    pub(super) span_id: SpanId,
    /// Whether the span is a child of it, and does not only follow from it.
    pub(super) is_parent: bool,
}

/// The references of a span of this trace: its parent, and its links.
pub(super) fn references(placed: &PlacedSpan, trace_id: TraceId) -> Vec<Reference> {
    let parent = placed.parent.map(|span_id| Reference { trace_id, span_id, is_parent: true });
    let link = |link: &Link| {
        let named = link.attributes.iter().find(|(key, _)| key == REFERENCE_TYPE);
        let is_parent = named.and_then(|(_, value)| value.as_str()) == Some("child_of");
        Reference { trace_id: link.trace_id, span_id: link.span_id, is_parent }
    };
    parent.into_iter().chain(placed.span.links.iter().map(link)).collect()
}

/// What a span says besides its tags.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) flags: u32,
    pub(super) warnings: Option<Value>,
}

/// The tags of a span, made of its attributes, which it no longer has then.
pub(super) fn tags(placed: &mut PlacedSpan) -> (Attributes, Said) {
    let message = placed.status_message().map(str::to_owned);
    let mut tags = std::mem::take(&mut placed.span.attributes);
    let span = &placed.span;
    let mut said = Said::default();
    tags.retain(|(key, value)| {
        match (key.as_str(), value) {
            // Sampled, and asked for by hand.
            ("jaeger.debug", AttributeValue::Bool(true)) => said.flags = 3,
            ("jaeger.warnings", AttributeValue::Json(text)) => {
                said.warnings = serde_json::from_str(text).ok();
            }
            (STATUS_DESCRIPTION, _) => {}
            _ => return true,
        }
        false
    });
    let mut put = |key: &str, value: AttributeValue| {
        if !tags.iter().any(|(known, _)| known == key) {
            tags.push((key.to_owned(), value));
        }
    };
    put("span.kind", span.kind.as_str().into());
    match span.status {
        Status::Unset => {}
        Status::Ok => put("otel.status_code", "OK".into()),
        Status::Error => put("otel.status_code", "ERROR".into()),
    }
    if let Some(message) = message {
        put(STATUS_DESCRIPTION, message.into());
    }
    if let Some(state) = &span.trace_state {
        put("w3c.tracestate", state.as_str().into());
    }
    if span.status == Status::Error {
        // Jaeger's UI looks for it, also where there is another one with a text.
        tags.push(("error".to_owned(), true.into()));
    }
    (tags, said)
}

/// The fields of a log.
pub(super) fn fields(event: Event) -> Attributes {
    let mut fields = Attributes::with_capacity(event.attributes.len() + 1);
    if !event.name.is_empty() {
        fields.push(("event".to_owned(), event.name.into()));
    }
    fields.extend(event.attributes);
    fields
}
