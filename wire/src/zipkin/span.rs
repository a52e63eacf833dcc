//! Converts a Zipkin version 2 span to a row.

use serde_json::{Map, Value};
use spanwise_model::{
    AttributeValue, Attributes, Capture, Event, Kind, ResourceJson, Span, SpanId, TraceId,
};

use super::json::attribute_value;
use crate::tags::FieldTags;

/// The service of spans without one (OpenTelemetry resource conventions).
const UNKNOWN_SERVICE: &str = "unknown_service";

/// A decoded span.
#[derive(Debug, Clone)]
pub(super) struct ZipkinSpan {
    pub(super) trace_id: TraceId,
    pub(super) id: SpanId,
    pub(super) parent_id: Option<SpanId>,
    pub(super) kind: Option<Kind>,
    pub(super) name: String,
    pub(super) timestamp_micros: Option<i64>,
    pub(super) duration_micros: Option<i64>,
    pub(super) local: Endpoint,
    pub(super) remote: Endpoint,
    pub(super) annotations: Vec<Annotation>,
    pub(super) tags: Attributes,
    pub(super) debug: bool,
    /// The other side of the exchange reports under the same id.
    pub(super) shared: bool,
}

/// A timestamped annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Annotation {
    pub(super) timestamp_micros: i64,
    pub(super) value: String,
}

/// A service and its address. Each part may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) service: Option<String>,
    /// IPv4 or IPv6; the first if a sender has both.
    pub(super) address: Option<String>,
    pub(super) port: Option<u16>,
}

impl Endpoint {
    /// An endpoint. Empty texts and port 0 mean unknown.
    pub(super) fn new(
        service: Option<String>,
        ipv4: Option<String>,
        ipv6: Option<String>,
        port: Option<i64>,
    ) -> Self {
        let known = |text: Option<String>| text.filter(|text| !text.is_empty());
        Self {
            service: known(service),
            address: known(ipv4).or_else(|| known(ipv6)),
            port: port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0),
        }
    }

    /// An endpoint with addresses as bytes. Addresses of another length or of zeros are unknown.
    pub(super) fn of_bytes(
        service: Option<String>,
        ipv4: &[u8],
        ipv6: &[u8],
        port: Option<i64>,
    ) -> Self {
        let v4 = <[u8; 4]>::try_from(ipv4).ok().map(std::net::Ipv4Addr::from);
        let v6 = <[u8; 16]>::try_from(ipv6).ok().map(std::net::Ipv6Addr::from);
        Self::new(
            service,
            v4.filter(|address| !address.is_unspecified()).map(|address| address.to_string()),
            v6.filter(|address| !address.is_unspecified()).map(|address| address.to_string()),
            port,
        )
    }
}

impl ZipkinSpan {
    /// A span with these ids and nothing else.
    pub(super) const fn new(trace_id: TraceId, id: SpanId, parent_id: Option<SpanId>) -> Self {
        Self {
            trace_id,
            id,
            parent_id,
            kind: None,
            name: String::new(),
            timestamp_micros: None,
            duration_micros: None,
            local: Endpoint { service: None, address: None, port: None },
            remote: Endpoint { service: None, address: None, port: None },
            annotations: Vec::new(),
            tags: Attributes::new(),
            debug: false,
            shared: false,
        }
    }

    /// The row. Attributes keep their names. Endpoints become OpenTelemetry's attributes.
    pub(super) fn into_row(self, arrived_unix_nano: i64) -> Span {
        let kind = self.kind.unwrap_or(Kind::Internal);
        let is_receiving_half = self.is_receiving_half();
        let mut said = FieldTags::default();
        let mut attributes: Attributes = Vec::with_capacity(self.tags.len() + 4);
        for (key, value) in self.tags {
            attributes.extend(said.take(key, value));
        }
        // A client's own port is that of its service, not that of the connection.
        let local_port = self.local.port.filter(|_| kind != Kind::Client);
        put_text(&mut attributes, "network.local.address", self.local.address);
        put_port(&mut attributes, "network.local.port", local_port);
        put_text(&mut attributes, "network.peer.address", self.remote.address);
        put_port(&mut attributes, "network.peer.port", self.remote.port);
        put_text(&mut attributes, "peer.service", self.remote.service);
        if self.debug {
            attributes.push(("zipkin.debug".to_owned(), true.into()));
        }

        let first_annotation = self.annotations.iter().map(|one| one.timestamp_micros).min();
        let start_unix_nano = match self.timestamp_micros.or(first_annotation) {
            Some(micros) => nanoseconds(micros),
            None => {
                attributes.push(("zipkin.timestamp_missing".to_owned(), true.into()));
                arrived_unix_nano
            }
        };
        let (span_id, parent_span_id) = if is_receiving_half {
            // The other half knows the parent's parent. If that half never arrives, this attribute
            // does.
            let above = self.parent_id.map(|id| id.to_string());
            put_text(&mut attributes, "zipkin.parent_id", above);
            (self.id.receiving_half(), Some(self.id))
        } else {
            (self.id, self.parent_id)
        };
        let service = self.local.service.unwrap_or_else(|| UNKNOWN_SERVICE.to_owned());
        let name = AttributeValue::from(service.as_str());
        let mut row = Span {
            trace_id: Some(self.trace_id),
            parent_span_id,
            resource: ResourceJson::from_attributes([("service.name", &name)]),
            attributes,
            events: self.annotations.into_iter().map(Event::from).collect(),
            ..Span::new(
                span_id,
                Capture::App,
                kind,
                service,
                self.name,
                start_unix_nano,
                nanoseconds(self.duration_micros.unwrap_or(0)),
            )
        };
        said.fill(&mut row);
        row
    }

    /// Whether this is the called side's half of a shared span.
    fn is_receiving_half(&self) -> bool {
        // The calling side began the span, whatever its tracer says.
        self.shared && !matches!(self.kind, Some(Kind::Client | Kind::Producer))
    }
}

impl From<Annotation> for Event {
    fn from(annotation: Annotation) -> Self {
        let time_unix_nano = nanoseconds(annotation.timestamp_micros);
        let (name, attributes) = match opentelemetry_event(&annotation.value) {
            Some(event) => event,
            None => (annotation.value, Attributes::new()),
        };
        Self { time_unix_nano, name, attributes }
    }
}

/// An OpenTelemetry event. Its exporters write it as an annotation `"name":{"key":"value"}`, some
/// with additional braces ("OpenTelemetry to Zipkin Transformation", "Events").
fn opentelemetry_event(annotation: &str) -> Option<(String, Attributes)> {
    let read: Map<String, Value> = match annotation.as_bytes().first() {
        Some(b'"') => serde_json::from_str(&format!("{{{annotation}}}")).ok()?,
        Some(b'{') => serde_json::from_str(annotation).ok()?,
        _ => return None,
    };
    let mut entries = read.into_iter();
    match (entries.next(), entries.next()) {
        (Some((name, Value::Object(attributes))), None) => {
            let attributes = attributes.into_iter();
            Some((name, attributes.map(|(key, value)| (key, attribute_value(value))).collect()))
        }
        _ => None,
    }
}

/// Times after the year 2262 are capped.
pub(super) const fn nanoseconds(micros: i64) -> i64 {
    micros.saturating_mul(1000)
}

fn put_text(attributes: &mut Attributes, key: &str, text: Option<String>) {
    if let Some(text) = text {
        attributes.push((key.to_owned(), text.into()));
    }
}

fn put_port(attributes: &mut Attributes, key: &str, port: Option<u16>) {
    if let Some(port) = port {
        attributes.push((key.to_owned(), AttributeValue::Int(port.into())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_opentelemetry_are_read_as_such() {
        let event = |value: &str| {
            let annotation = Annotation { timestamp_micros: 1, value: value.to_owned() };
            let event = Event::from(annotation);
            (event.name, event.attributes)
        };
        let plain = |name: &str| (name.to_owned(), Attributes::new());
        assert_eq!(event(r#""cache miss":{}"#), plain("cache miss"));
        assert_eq!(event(r#"{"cache miss": {}}"#), plain("cache miss"));
        let (name, attributes) = event(r#""retry":{"count":2,"why":"slow"}"#);
        assert_eq!(name, "retry");
        assert_eq!(
            attributes,
            [("count".to_owned(), 2_i64.into()), ("why".to_owned(), "slow".into())]
        );
        for other in ["cache miss", r#""quoted""#, r#"{"a":1}"#, r#"{"a":{},"b":{}}"#, "{", ""] {
            assert_eq!(event(other), plain(other));
        }
    }
}
