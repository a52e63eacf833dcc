//! Derives columns from a span's attributes, for formats without fields for them: Zipkin's tags,
//! and OpenTracing's as Jaeger's clients send them.
//!
//! Besides OpenTelemetry's names, it knows the conventions of Zipkin, of OpenTracing, and of
//! OpenTelemetry's exporters to both ("OpenTelemetry to Jaeger/Zipkin Transformation").

use std::net::{IpAddr, Ipv4Addr};

use spanwise_model::{AttributeValue, Attributes, Event, Kind, Span, Status};

use crate::otlp::known::Known;

const STATUS_CODE: &str = "otel.status_code";
const STATUS_DESCRIPTION: &str = "otel.status_description";
const TRACE_STATE: &str = "w3c.tracestate";
const ERROR: &str = "error";

/// Attributes that replace missing fields of a format. They are removed from the other attributes.
#[derive(Debug, Default)]
pub(crate) struct FieldTags {
    status: Option<Status>,
    /// Whether a tag says that the span failed.
    failed: bool,
    /// The error message.
    message: Option<String>,
    trace_state: Option<String>,
    kind: Option<Kind>,
}

impl FieldTags {
    /// Consumes an attribute, or returns it if it is an ordinary one.
    pub(crate) fn take(
        &mut self,
        key: String,
        value: AttributeValue,
    ) -> Option<(String, AttributeValue)> {
        match (key.as_str(), value.as_str()) {
            (STATUS_CODE, Some(code)) => {
                self.status = match code.to_ascii_uppercase().as_str() {
                    "ERROR" => Some(Status::Error),
                    "OK" => Some(Status::Ok),
                    "UNSET" => Some(Status::Unset),
                    _ => return Some((key, value)),
                };
            }
            (STATUS_DESCRIPTION, Some(text)) => self.message = Some(text.to_owned()),
            (TRACE_STATE, Some(text)) => self.trace_state = Some(text.to_owned()),
            ("span.kind", Some(kind)) => match kind.to_ascii_lowercase().parse() {
                Ok(kind) => self.kind = Some(kind),
                Err(_) => return Some((key, value)),
            },
            (ERROR, _) => match failure(&value) {
                Failure::No => {}
                Failure::Yes => self.failed = true,
                Failure::Told(text) => {
                    self.failed = true;
                    self.message.get_or_insert(text);
                    return Some((key, value));
                }
            },
            _ => return Some((key, value)),
        }
        None
    }

    /// The span kind from a tag.
    pub(crate) const fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Fills the columns that are derived from the consumed tags and the span's current attributes.
    pub(crate) fn fill(self, span: &mut Span) {
        span.trace_state = self.trace_state.filter(|state| !state.is_empty());
        span.status =
            self.status.unwrap_or(if self.failed { Status::Error } else { Status::Unset });
        let known = Known::new(&span.attributes);
        let protocol = known.protocol().map(str::to_owned);
        let status_code = known.status_code();
        let mut flow = known.flow(span.kind);
        let name = error_name(&known, span.status, &span.events).map(str::to_owned);
        span.x_request_id = known.x_request_id;
        if let Some((address, port)) = opentracing_peer(&span.attributes) {
            let sides = match span.kind {
                Kind::Server => Some((&mut flow.client_address, &mut flow.client_port)),
                Kind::Client => Some((&mut flow.server_address, &mut flow.server_port)),
                Kind::Internal | Kind::Producer | Kind::Consumer => None,
            };
            if let Some((known_address, known_port)) = sides
                && known_address.is_none()
            {
                *known_address = Some(address);
                *known_port = known_port.or(port);
            }
        }
        span.protocol = protocol;
        span.status_code = status_code;
        span.flow = flow;
        // The message becomes the error if there is no more specific one. Otherwise it is stored
        // under OpenTelemetry's name for other formats.
        let message = self.message.filter(|message| !message.is_empty());
        span.error = match (name, message) {
            (Some(name), Some(message)) => {
                let told = (ERROR.to_owned(), AttributeValue::String(message));
                if !span.attributes.contains(&told) {
                    span.attributes.push((STATUS_DESCRIPTION.to_owned(), told.1));
                }
                Some(name)
            }
            (Some(name), None) => Some(name),
            (None, message) => message,
        };
    }
}

enum Failure {
    No,
    Yes,
    /// The span failed, and the value is the message.
    Told(String),
}

/// The meaning of an `error` tag. Zipkin sets it only on failed spans, with a message as its value.
/// OpenTracing's value is true or false.
fn failure(value: &AttributeValue) -> Failure {
    match value {
        AttributeValue::Bool(true) => Failure::Yes,
        AttributeValue::Bool(false) => Failure::No,
        AttributeValue::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "false" => Failure::No,
            "" | "true" => Failure::Yes,
            _ => Failure::Told(text.clone()),
        },
        other => Failure::Told(other.to_string()),
    }
}

/// The name of the error: from the span, or from its last exception. A recorded exception is no
/// error if the span did not fail, because it was handled.
fn error_name<'a>(known: &Known<'a>, status: Status, events: &'a [Event]) -> Option<&'a str> {
    if status != Status::Error {
        return known.error_type;
    }
    let thrown = || {
        let kinds = events.iter().rev().flat_map(|event| &event.attributes);
        let mut kinds = kinds.filter(|(key, _)| key == "exception.type" || key == "error.kind");
        kinds.find_map(|(_, value)| value.as_str().filter(|text| !text.is_empty()))
    };
    known.exception_type.or_else(thrown).or(known.error_type)
}

/// OpenTracing's `peer.*` tags: the peer's address and port.
fn opentracing_peer(attributes: &Attributes) -> Option<(String, Option<u16>)> {
    let (mut address, mut name, mut port) = (None, None, None);
    for (key, value) in attributes {
        match key.as_str() {
            "peer.ipv4" | "peer.ipv6" => address = address.or_else(|| ip(value)),
            "peer.hostname" => name = name.or_else(|| value.as_str().map(str::to_owned)),
            "peer.port" => port = port.or_else(|| value.to_string().parse::<u16>().ok()),
            // `ip:port`, or many other forms.
            "peer.address" => {
                if let Some(socket) =
                    value.as_str().and_then(|text| text.parse::<std::net::SocketAddr>().ok())
                {
                    address = address.or_else(|| Some(socket.ip().to_canonical().to_string()));
                    port = port.or(Some(socket.port()));
                }
            }
            _ => {}
        }
    }
    address.or(name).map(|address| (address, port))
}

/// An IP address as text, or IPv4 as a number, which OpenTracing also allows.
fn ip(value: &AttributeValue) -> Option<String> {
    let address = match value {
        AttributeValue::Int(number) => {
            // Java's int is signed.
            let number = u32::try_from(*number)
                .ok()
                .or_else(|| i32::try_from(*number).ok().map(i32::cast_unsigned))?;
            IpAddr::V4(Ipv4Addr::from(number))
        }
        other => other.as_str()?.parse().ok()?,
    };
    Some(address.to_canonical().to_string())
}
