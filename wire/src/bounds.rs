//! Limits of one span: the number of attributes, events and links, and the length of texts.
//! Anything beyond is left out, counted, and marked on the span, as OpenTelemetry's own limits
//! require ("Common concepts", "Attribute limits").

use std::borrow::Cow;

use spanwise_model::{AttributeRef, AttributeValue, Attributes, Span};

/// Maximum bytes of a name: of a service, a host, an operation, an event, or an attribute key.
pub(crate) const NAME_BYTES: usize = 1024;
/// Maximum bytes of any other text.
pub(crate) const TEXT_BYTES: usize = 256 << 10;
/// Maximum attributes of one resource, scope, event or link.
pub(crate) const SHARED_ATTRIBUTES: usize = 1024;
/// The end of a truncated text.
const MARK: &str = "…";

/// Names of the attributes that report what was left out.
pub(crate) mod dropped {
    pub(crate) const ATTRIBUTES: &str = "otel.dropped_attributes_count";
    pub(crate) const EVENTS: &str = "otel.dropped_events_count";
    pub(crate) const LINKS: &str = "otel.dropped_links_count";
}

/// What was left out of accepted spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Links with invalid ids.
    pub invalid_links: u64,
    /// Attributes beyond the limit of a span, an event, a link or a resource.
    pub attributes: u64,
    /// Events beyond the limit of a span.
    pub events: u64,
    /// Links beyond the limit of a span.
    pub links: u64,
    /// Truncated texts.
    pub texts: u64,
}

impl LeftOut {
    /// The names of the counters.
    pub const NAMES: [&'static str; 5] = [
        "links_dropped_invalid_id",
        "attributes_dropped_limit",
        "events_dropped_limit",
        "links_dropped_limit",
        "texts_cut",
    ];

    /// The counters by name.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = [self.invalid_links, self.attributes, self.events, self.links, self.texts];
        Self::NAMES.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.invalid_links += other.invalid_links;
        self.attributes += other.attributes;
        self.events += other.events;
        self.links += other.links;
        self.texts += other.texts;
    }

    /// A name, truncated if it is too long.
    pub(crate) fn name<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        self.text_of(text, NAME_BYTES)
    }

    /// Any other text, truncated if it is too long.
    pub(crate) fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        self.text_of(text, TEXT_BYTES)
    }

    fn text_of<'a>(&mut self, text: &'a str, most_bytes: usize) -> Cow<'a, str> {
        if text.len() <= most_bytes {
            return text.into();
        }
        self.texts += 1;
        let end = text.floor_char_boundary(most_bytes - MARK.len());
        format!("{}{MARK}", &text[..end]).into()
    }

    /// Passes an attribute on, with truncated texts. A truncated JSON or base64 value becomes a
    /// plain text.
    #[inline]
    pub(crate) fn attribute(
        &mut self,
        key: &str,
        value: AttributeRef<'_>,
        put: impl FnOnce(&str, AttributeRef<'_>),
    ) {
        let bytes = match value {
            AttributeRef::String(text) | AttributeRef::Bytes(text) | AttributeRef::Json(text) => {
                text.len()
            }
            _ => 0,
        };
        if key.len() <= NAME_BYTES && bytes <= TEXT_BYTES {
            return put(key, value);
        }
        let key = self.name(key);
        match value {
            AttributeRef::String(text) | AttributeRef::Bytes(text) | AttributeRef::Json(text)
                if bytes > TEXT_BYTES =>
            {
                put(&key, AttributeRef::String(&self.text(text)));
            }
            value => put(&key, value),
        }
    }

    /// Limits the number of attributes and the length of their texts. Returns the number of removed
    /// ones.
    fn attributes(&mut self, attributes: &mut Attributes, most: usize) -> usize {
        let gone = attributes.len().saturating_sub(most);
        attributes.truncate(most);
        self.attributes += gone as u64;
        for (key, value) in attributes {
            let mut cut = None;
            let before = self.texts;
            self.attribute(key, value.as_ref(), |key, value| {
                cut = Some((key.to_owned(), value.to_value()));
            });
            if self.texts > before
                && let Some(cut) = cut
            {
                (*key, *value) = cut;
            }
        }
        gone
    }

    fn own_name(&mut self, text: &mut String) {
        if let Cow::Owned(cut) = self.name(text) {
            *text = cut;
        }
    }

    fn own_text(&mut self, text: &mut Option<String>) {
        if let Some(text) = text
            && let Cow::Owned(cut) = self.text(text)
        {
            *text = cut;
        }
    }

    /// Limits the contents of a row that is not stored yet.
    pub(crate) fn row(&mut self, row: &mut Span, most: &crate::otlp::Limits) {
        let marked = |count: usize| AttributeValue::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let events = row.events.len().saturating_sub(most.span_events);
        row.events.truncate(most.span_events);
        let links = row.links.len().saturating_sub(most.span_links);
        row.links.truncate(most.span_links);
        self.events += events as u64;
        self.links += links as u64;
        let attributes = self.attributes(&mut row.attributes, most.span_attributes);
        for (key, gone) in
            [(dropped::ATTRIBUTES, attributes), (dropped::EVENTS, events), (dropped::LINKS, links)]
        {
            if gone > 0 {
                row.attributes.push((key.to_owned(), marked(gone)));
            }
        }
        for event in &mut row.events {
            self.own_name(&mut event.name);
            let gone = self.attributes(&mut event.attributes, SHARED_ATTRIBUTES);
            if gone > 0 {
                event.attributes.push((dropped::ATTRIBUTES.to_owned(), marked(gone)));
            }
        }
        for link in &mut row.links {
            self.own_text(&mut link.trace_state);
            let gone = self.attributes(&mut link.attributes, SHARED_ATTRIBUTES);
            if gone > 0 {
                link.attributes.push((dropped::ATTRIBUTES.to_owned(), marked(gone)));
            }
        }
        self.own_name(&mut row.service);
        self.own_name(&mut row.operation);
        let names = [
            &mut row.instance,
            &mut row.host,
            &mut row.protocol,
            &mut row.x_request_id,
            &mut row.flow.client_address,
            &mut row.flow.server_address,
        ];
        for name in names.into_iter().flatten() {
            self.own_name(name);
        }
        self.own_text(&mut row.trace_state);
        self.own_text(&mut row.error);
    }

    /// Limits attributes that many spans share.
    pub(crate) fn shared(&mut self, attributes: &mut Attributes) {
        let gone = self.attributes(attributes, SHARED_ATTRIBUTES);
        if gone > 0 {
            let gone = AttributeValue::Int(i64::try_from(gone).unwrap_or(i64::MAX));
            attributes.push((dropped::ATTRIBUTES.to_owned(), gone));
        }
    }
}

/// An error message of limited length, for responses and logs. It may quote what was sent.
pub(crate) fn said(reason: impl ToString) -> String {
    const BYTES: usize = 500;
    let mut reason = reason.to_string();
    if reason.len() > BYTES {
        reason.truncate(reason.floor_char_boundary(BYTES));
        reason.push_str(MARK);
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters_and_marked() {
        let mut left_out = LeftOut::default();
        let fits = "ä".repeat(NAME_BYTES / 2);
        assert_eq!(left_out.name(&fits), fits);
        let long = format!("x{fits}");
        let cut = left_out.name(&long);
        assert!(cut.len() <= NAME_BYTES && cut.ends_with("ä…") && long.starts_with(&cut[..9]));
        assert_eq!(left_out.texts, 1);
        let json = format!("[\"{}\"]", "x".repeat(TEXT_BYTES));
        left_out.attribute("key", AttributeRef::Json(&json), |key, value| {
            let AttributeRef::String(text) = value else { panic!("{value:?}") };
            assert_eq!((key, text.len()), ("key", TEXT_BYTES));
        });
        let counts: Vec<_> = left_out.counts().collect();
        assert_eq!(counts, [("texts_cut", 2)]);
    }
}
