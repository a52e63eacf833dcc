//! What the spans of messages have in common, whatever the broker
//! (OpenTelemetry semantic conventions for messaging).

use spanwise_model::AttributeValue;

use crate::bytes::{json_list, text};
use crate::formats::http::operation::is_identifier;
use crate::redaction;
use crate::sessions::{Attributes, Manner, Request};

/// Longest destination that is shown.
const MAX_NAME_BYTES: usize = 256;

/// Parts of a name that spans are named after.
const MAX_PARTS: usize = 8;

/// Where messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    /// Its full name.
    name: String,
    /// The name with what looks like an identifier taken out.
    template: String,
    /// The broker or a library made the name up.
    anonymous: bool,
}

impl Destination {
    /// A destination whose names are few, as those of queues that people make.
    pub(crate) fn plain(name: &[u8]) -> Self {
        let name = shown(name);
        Self { template: name.clone(), name, anonymous: false }
    }

    /// A destination whose name has parts, any of which may be an identifier.
    pub(crate) fn of_parts(name: &[u8], separator: char) -> Self {
        Self::folded(name, separator, is_identifier)
    }

    /// A destination whose name has levels, as MQTT's topics and the subjects of
    /// NATS do. They are there to hold what tells things apart, so what looks
    /// numbered is folded, too, and so is what lies deep.
    pub(crate) fn of_levels(name: &[u8], separator: char) -> Self {
        let numbered = |part: &str| part.bytes().filter(u8::is_ascii_digit).count() >= 2;
        Self::folded(name, separator, |part| is_identifier(part) || numbered(part))
    }

    fn folded(name: &[u8], separator: char, folds: impl Fn(&str) -> bool) -> Self {
        let name = shown(name);
        let mut template = String::with_capacity(name.len());
        for (index, part) in name.split(separator).enumerate() {
            if index > 0 {
                template.push(separator);
            }
            if index >= MAX_PARTS {
                template.push_str("...");
                break;
            }
            template.push_str(if folds(part) { "{id}" } else { part });
        }
        Self { name, template, anonymous: false }
    }

    /// A destination with a name that nobody chose.
    pub(crate) fn anonymous(name: &[u8]) -> Self {
        let name = text(name, MAX_NAME_BYTES);
        Self { name, template: "(anonymous)".to_owned(), anonymous: true }
    }

    /// Both, one after the other, where each has a name; the same twice is one.
    pub(crate) fn then(self, other: Self) -> Self {
        if other.name.is_empty() || other.name == self.name {
            return self;
        }
        if self.name.is_empty() {
            return other;
        }
        Self {
            name: format!("{}:{}", self.name, other.name),
            template: format!("{}:{}", self.template, other.template),
            anonymous: self.anonymous && other.anonymous,
        }
    }

    /// What spans say of it.
    pub(crate) fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::new();
        let mut add = |key: &'static str, value: AttributeValue| attributes.push((key, value));
        if !self.is_empty() {
            add("messaging.destination.name", self.name.as_str().into());
        }
        if self.anonymous {
            add("messaging.destination.anonymous", AttributeValue::Bool(true));
        } else if self.template != self.name {
            add("messaging.destination.template", self.template.as_str().into());
        }
        attributes
    }

    /// Whether it has no name.
    pub(crate) fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

/// Says where the messages of one request or answer go, or come from, where that is not one place:
/// the names of all, or `several`.
pub(crate) const DESTINATIONS: &str = "spanwise.destinations";

/// The value of [`DESTINATIONS`]; `None` where not all names are known.
pub(crate) fn destinations(names: Option<&[String]>) -> AttributeValue {
    names.map_or_else(
        || "several".into(),
        |names| json_list(&names.iter().map(|name| shown(name.as_bytes())).collect::<Vec<_>>()),
    )
}

/// A name as it is shown.
fn shown(name: &[u8]) -> String {
    redaction::owned(text(name, MAX_NAME_BYTES), redaction::keyed_name)
}

/// A request of this operation on a destination, which may have no name.
/// `kind` is the conventions' operation type, where there is one for it.
pub(crate) fn request(
    system: &str,
    operation: &str,
    kind: Option<&str>,
    destination: &Destination,
    manner: Manner,
) -> Request {
    let mut request = if destination.template.is_empty() {
        Request::new(operation)
    } else {
        Request::new(format!("{operation} {}", destination.template))
    };
    request.manner = manner;
    let mut add = |key: &'static str, value: &str| request.attributes.push((key, value.into()));
    add("messaging.system", system);
    add("messaging.operation.name", operation);
    if let Some(kind) = kind {
        add("messaging.operation.type", kind);
    }
    request.attributes.extend(destination.attributes());
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_in_parts_are_taken_out_of_the_operation_only() {
        let topic = Destination::of_parts(b"devices/4711/temperature", '/');
        let request = request("mqtt", "publish", Some("send"), &topic, Manner::Publish);
        assert_eq!(request.operation, "publish devices/{id}/temperature");
        let value = |key: &str| {
            let found = request.attributes.iter().find(|(known, _)| *known == key);
            found.map(|(_, value)| value.to_string())
        };
        assert_eq!(value("messaging.destination.name").unwrap(), "devices/4711/temperature");
        assert_eq!(value("messaging.destination.template").unwrap(), "devices/{id}/temperature");
    }

    #[test]
    fn levels_that_are_numbered_or_deep_are_folded() {
        let template = |name: &str| Destination::of_levels(name.as_bytes(), '/').template;
        assert_eq!(template("home/floor1/sensor42/temp"), "home/floor1/{id}/temp");
        assert_eq!(template("zigbee2mqtt/0x00158d/set"), "zigbee2mqtt/{id}/set");
        assert_eq!(template("/a/b/c/d/e/f/g/h/i"), "/a/b/c/d/e/f/g/...");
        assert_eq!(template("+/temp/#"), "+/temp/#");
    }

    #[test]
    fn names_follow_each_other_and_empty_ones_do_not_count() {
        let plain = |name: &str| Destination::plain(name.as_bytes());
        assert_eq!(plain("a").then(plain("b")).name, "a:b");
        assert_eq!(plain("").then(plain("b")).name, "b");
        assert_eq!(plain("a").then(plain("")).name, "a");
        assert_eq!(plain("a").then(plain("a")).name, "a");
    }
}
