//! Spans as Zipkin's JSON of version 2 (zipkin-api `zipkin2-api.yaml`, `Span`).
//!
//! What OpenTelemetry knows and Zipkin does not is written as "OpenTelemetry to Zipkin
//! Transformation" says, which our receiver reads back: status and resource as tags, events with
//! attributes as annotations of JSON. Links, of which it says nothing, are tags, too.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use spanwise_assemble::Node;
use spanwise_model::{AttributeValue, Event, Kind, ModelError, Span, SpanId, Status, System};
use spanwise_query::TraceTree;

use crate::dialect::placed::{self, PlacedSpan, Reading, STATUS_DESCRIPTION, exact_json, short_id};

/// A span.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ZipkinSpan {
    trace_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// Microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    /// Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<i64>,
    #[serde(skip_serializing_if = "Endpoint::is_unknown")]
    local_endpoint: Endpoint,
    #[serde(skip_serializing_if = "Endpoint::is_unknown")]
    remote_endpoint: Endpoint,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Annotation>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    debug: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(skip_serializing_if = "Option::is_none")]
    service_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

#[derive(Debug, Serialize)]
struct Annotation {
    timestamp: i64,
    value: String,
}

impl Endpoint {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Takes an address; whether it is one that Zipkin knows.
    fn take_address(&mut self, text: &str) -> bool {
        match text.parse() {
            Ok(IpAddr::V4(_)) => self.ipv4 = Some(text.to_owned()),
            Ok(IpAddr::V6(_)) => self.ipv6 = Some(text.to_owned()),
            Err(_) => return false,
        }
        true
    }

    /// Takes a port; whether it is one.
    fn take_port(&mut self, value: &AttributeValue) -> bool {
        let port = value.as_int().and_then(|port| u16::try_from(port).ok());
        self.port = port.filter(|port| *port != 0).or(self.port);
        port.is_some()
    }
}

impl ZipkinSpan {
    /// The name of its own service.
    pub(super) fn service(&self) -> Option<&str> {
        self.local_endpoint.service_name.as_deref()
    }

    /// The name of the service at the other end.
    pub(super) fn remote_service(&self) -> Option<&str> {
        self.remote_endpoint.service_name.as_deref()
    }
}

/// The spans of a trace as a list.
///
/// # Errors
/// Where a row is no span.
pub(super) fn list(tree: &TraceTree) -> Result<Vec<u8>, ModelError> {
    let mut json = vec![b'['];
    for (place, span) in spans(tree).enumerate() {
        if place > 0 {
            json.push(b',');
        }
        // Texts and numbers are always JSON.
        let _ = serde_json::to_writer(&mut json, &span?);
    }
    json.push(b']');
    Ok(json)
}

/// The spans of a trace, each made when it is asked for.
pub(super) fn spans(tree: &TraceTree) -> impl Iterator<Item = Result<ZipkinSpan, ModelError>> {
    let trace_id = short_id(tree.trace.trace_id);
    placed::spans(tree, Reading::Assembled)
        .zip(&tree.trace.nodes)
        .map(move |(span, node)| zipkin_span(&trace_id, &span?, node, tree))
}

/// Of the called half of a span that both sides report under one id, that id.
fn shared_id(tree: &TraceTree, node: &Node) -> Option<SpanId> {
    let above = node.parent.map(|place| tree.trace.nodes[place].row.span_id);
    let named = [above, node.row.parent_span_id];
    named.into_iter().flatten().find(|parent| node.row.span_id == parent.receiving_half())
}

/// Its id: both halves of a shared span have the one of the calling half.
fn id_of(tree: &TraceTree, node: &Node) -> SpanId {
    shared_id(tree, node).unwrap_or(node.row.span_id)
}

/// The id of its parent.
fn parent_of(tree: &TraceTree, node: &Node, span: &Span) -> Option<SpanId> {
    let above = node.parent.map(|place| &tree.trace.nodes[place]);
    let Some(shared) = shared_id(tree, node) else {
        let missing = || placed::parent_of(tree, node, Reading::Assembled);
        return above.map(|above| id_of(tree, above)).or_else(missing);
    };
    match above {
        // The other half: its parent is the one of both.
        Some(other) if other.row.span_id == shared => match other.parent {
            Some(place) => Some(id_of(tree, &tree.trace.nodes[place])),
            None => placed::parent_of(tree, other, Reading::Assembled),
        },
        Some(above) => Some(id_of(tree, above)),
        // The other half never came; the sender said what is above it.
        None => span.attribute("zipkin.parent_id").and_then(|id| id.as_str()?.parse().ok()),
    }
}

fn zipkin_span(
    trace_id: &str,
    placed: &PlacedSpan,
    node: &Node,
    tree: &TraceTree,
) -> Result<ZipkinSpan, ModelError> {
    let span = &placed.span;
    let mut result = ZipkinSpan {
        trace_id: trace_id.to_owned(),
        parent_id: parent_of(tree, node, span).map(|id| id.to_string()),
        id: id_of(tree, node).to_string(),
        kind: kind(span.kind),
        name: span.operation.clone(),
        timestamp: Some(span.start_unix_nano / 1_000).filter(|micros| *micros > 0),
        // One that is shorter than a microsecond took some time all the same.
        duration: (span.duration_nano > 0).then(|| (span.duration_nano / 1_000).max(1)),
        shared: shared_id(tree, node).is_some(),
        ..ZipkinSpan::default()
    };
    result.local_endpoint.service_name = Some(span.service.clone());
    for (key, value) in &span.attributes {
        result.take(key, value);
    }
    if result.remote_service().is_none() {
        result.remote_endpoint.service_name = remote_service(span, node, tree)?;
    }
    result.add_status(placed);
    if let Some(state) = &span.trace_state {
        result.add_tag("w3c.tracestate", state);
    }
    for (place, link) in span.links.iter().enumerate() {
        let other = format!("{}/{}", short_id(link.trace_id), link.span_id);
        result.add_tag(&format!("otel.link.{place}"), &other);
    }
    for (key, value) in placed::resource(&span.resource, &span.service).iter().skip(1) {
        result.add_tag(key, &value.to_string());
    }
    result.annotations = span.events.iter().map(annotation).collect();
    result.annotations.sort_by_key(|annotation| annotation.timestamp);
    Ok(result)
}

const fn kind(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Internal => None,
        Kind::Server => Some("SERVER"),
        Kind::Client => Some("CLIENT"),
        Kind::Producer => Some("PRODUCER"),
        Kind::Consumer => Some("CONSUMER"),
    }
}

impl ZipkinSpan {
    /// Takes an attribute: to where Zipkin has it, or among the tags.
    fn take(&mut self, key: &str, value: &AttributeValue) {
        let text = value.as_str().unwrap_or_default();
        let is_taken = match key {
            "peer.service" if !text.is_empty() && self.remote_service().is_none() => {
                self.remote_endpoint.service_name = Some(text.to_owned());
                true
            }
            "network.local.address" => self.local_endpoint.take_address(text),
            "network.peer.address" => self.remote_endpoint.take_address(text),
            "network.local.port" => self.local_endpoint.take_port(value),
            "network.peer.port" => self.remote_endpoint.take_port(value),
            "zipkin.debug" => {
                self.debug = *value == AttributeValue::Bool(true);
                self.debug
            }
            "zipkin.timestamp_missing" => {
                self.timestamp = None;
                true
            }
            "zipkin.parent_id" | STATUS_DESCRIPTION => true,
            _ => false,
        };
        if !is_taken {
            self.add_tag(key, &value.to_string());
        }
    }

    /// Adds a tag. The first of several values counts.
    fn add_tag(&mut self, key: &str, value: &str) {
        if !self.tags.contains_key(key) {
            self.tags.insert(key.to_owned(), value.to_owned());
        }
    }

    fn add_status(&mut self, placed: &PlacedSpan) {
        if let Some(text) = placed.failure() {
            self.add_tag("error", text);
        } else if placed.span.status == Status::Ok {
            self.add_tag("otel.status_code", "OK");
        }
    }
}

/// The service at the other end of a span that nobody sent, as far as its trace shows it.
fn remote_service(
    span: &Span,
    node: &Node,
    tree: &TraceTree,
) -> Result<Option<String>, ModelError> {
    let is_calling = |kind: Kind| matches!(kind, Kind::Client | Kind::Producer);
    let is_answering = |kind: Kind| matches!(kind, Kind::Server | Kind::Consumer);
    if span.capture.is_reported() || span.kind == Kind::Internal {
        return Ok(None);
    }
    let nodes = &tree.trace.nodes;
    let is_call = is_calling(span.kind);
    let is_elsewhere = |other: &Node| other.row.service != node.row.service;
    let other = if is_call {
        let mut children = node.children.iter().map(|place| &nodes[*place]);
        children.find(|child| is_answering(child.row.kind) && is_elsewhere(child))
    } else {
        let parent = node.parent.map(|place| &nodes[place]);
        parent.filter(|parent| is_calling(parent.row.kind) && is_elsewhere(parent))
    };
    if let Some(other) = other {
        return Ok(Some(placed::span_of(tree, other)?.service));
    }
    let system = span.protocol.as_deref().filter(|name| is_call && System::named(name).is_some());
    Ok(system.map(str::to_owned))
}

/// An event. One with attributes is `"name":{"key":"value"}`.
fn annotation(event: &Event) -> Annotation {
    let value = if event.attributes.is_empty() {
        event.name.clone()
    } else {
        let mut attributes = serde_json::Map::new();
        for (key, value) in &event.attributes {
            attributes.entry(key.as_str()).or_insert_with(|| exact_json(value));
        }
        let name = serde_json::Value::from(event.name.as_str());
        format!("{name}:{}", serde_json::Value::Object(attributes))
    };
    Annotation { timestamp: event.time_unix_nano / 1_000, value }
}
