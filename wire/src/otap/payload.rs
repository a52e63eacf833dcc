//! The tables of a batch.

/// A table's type (`ArrowPayloadType` in `arrow_service.proto`), without those of metrics and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    ResourceAttributes,
    ScopeAttributes,
    Spans,
    SpanAttributes,
    SpanEvents,
    SpanLinks,
    EventAttributes,
    LinkAttributes,
}

impl Payload {
    pub(super) const COUNT: usize = 8;

    pub(super) const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::ResourceAttributes,
            2 => Self::ScopeAttributes,
            40 => Self::Spans,
            41 => Self::SpanAttributes,
            42 => Self::SpanEvents,
            43 => Self::SpanLinks,
            44 => Self::EventAttributes,
            45 => Self::LinkAttributes,
            _ => return None,
        })
    }

    /// Its name in the protocol.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ResourceAttributes => "RESOURCE_ATTRS",
            Self::ScopeAttributes => "SCOPE_ATTRS",
            Self::Spans => "SPANS",
            Self::SpanAttributes => "SPAN_ATTRS",
            Self::SpanEvents => "SPAN_EVENTS",
            Self::SpanLinks => "SPAN_LINKS",
            Self::EventAttributes => "SPAN_EVENT_ATTRS",
            Self::LinkAttributes => "SPAN_LINK_ATTRS",
        }
    }
}
