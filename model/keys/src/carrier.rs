//! What may carry a key.

use std::borrow::Cow;

use spanwise_model::AttributeRef;

use crate::body;

/// A request, a message or a span, as far as keys are looked for in it. What it does not have is
/// `None`.
pub trait Carrier {
    /// The value of a header. Its name is in lower case.
    fn header(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// The path, as it was sent.
    fn path(&self) -> Option<&str> {
        None
    }

    /// The query after the question mark, as it was sent.
    fn query(&self) -> Option<&str> {
        None
    }

    /// Bodies, which may be cut off.
    fn bodies(&self) -> Vec<&[u8]> {
        Vec::new()
    }

    /// A baggage entry, if they are not in a header.
    fn baggage(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// A span attribute.
    fn attribute(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// The key of a message.
    fn message_key(&self) -> Option<Cow<'_, str>> {
        None
    }
}

/// The attributes of a span that an SDK sent.
#[derive(Debug, Clone, Copy)]
pub struct SpanAttributes<'a>(pub &'a [(&'a str, AttributeRef<'a>)]);

impl<'a> SpanAttributes<'a> {
    fn find(self, name: &str) -> Option<AttributeRef<'a>> {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn text(self, name: &str) -> Option<&'a str> {
        match self.find(name)? {
            AttributeRef::String(text) => Some(text),
            _ => None,
        }
    }

    fn any_text(self, name: &str) -> Option<Cow<'a, str>> {
        as_text(self.find(name)?)
    }

    /// The attribute with this name after a prefix.
    fn with(self, prefix: &str, name: &str) -> Option<Cow<'a, str>> {
        let is = |key: &str| {
            key.strip_prefix(prefix).is_some_and(|rest| rest.eq_ignore_ascii_case(name))
        };
        self.0.iter().find(|(key, _)| is(key)).and_then(|(_, value)| as_text(*value))
    }

    /// A path with its query, and where the path begins in it.
    fn target(self) -> Option<&'a str> {
        self.text("http.target").or_else(|| {
            let url = self.text("url.full").or_else(|| self.text("http.url"))?;
            let after = url.split_once("://").map_or(url, |(_, after)| after);
            after.find(['/', '?']).map(|start| &after[start..])
        })
    }
}

fn as_text(value: AttributeRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        AttributeRef::String(text) => Some(Cow::Borrowed(text)),
        AttributeRef::Int(number) => Some(Cow::Owned(number.to_string())),
        // A header is an array of values.
        AttributeRef::Json(json) => body::first(json.as_bytes()).map(Cow::Owned),
        AttributeRef::Double(_) | AttributeRef::Bool(_) | AttributeRef::Bytes(_) => None,
    }
}

impl Carrier for SpanAttributes<'_> {
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.with("http.request.header.", name)
            // An older form.
            .or_else(|| self.with("http.request.header.", &name.replace('-', "_")))
            .or_else(|| self.with("rpc.grpc.request.metadata.", name))
            .or_else(|| self.with("messaging.header.", name))
    }

    fn path(&self) -> Option<&str> {
        let target = || self.target()?.split(['?', '#']).next();
        self.text("url.path").or_else(target)
    }

    fn query(&self) -> Option<&str> {
        let target = || Some(self.target()?.split_once('?')?.1);
        let query = self.text("url.query").or_else(target)?;
        query.trim_start_matches('?').split('#').next()
    }

    fn bodies(&self) -> Vec<&[u8]> {
        let names = ["http.request.body", "http.request.body.content", "messaging.message.body"];
        names.iter().filter_map(|name| self.text(name)).map(str::as_bytes).collect()
    }

    fn baggage(&self, name: &str) -> Option<Cow<'_, str>> {
        self.with("baggage.", name)
    }

    fn attribute(&self, name: &str) -> Option<Cow<'_, str>> {
        self.any_text(name)
    }

    fn message_key(&self) -> Option<Cow<'_, str>> {
        ["messaging.kafka.message.key", "messaging.message.conversation_id"]
            .iter()
            .find_map(|name| self.any_text(name))
    }
}
