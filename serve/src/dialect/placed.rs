//! Spans with their places in their traces, as other tracing systems' APIs show them.
//!
//! What their formats have no field for is said by attributes: where a span was seen, why it
//! hangs below its parent, and whether that is a guess. Spans of SDKs whose parents their own
//! senders named come back as they were sent.

use spanwise_api::exact;
use spanwise_assemble::Node;
use spanwise_model::{
    AttributeValue, Attributes, Capture, Evidence, ModelError, ResourceJson, Span, SpanId, Status,
    TraceId,
};
use spanwise_query::TraceTree;

/// Where the span was seen; see [`Capture`]. Only on spans that no SDK reported.
pub(crate) const CAPTURE: &str = "spanwise.capture";
/// What is spoken. Only on such spans, too.
pub(crate) const PROTOCOL: &str = "spanwise.protocol";
/// Why the span hangs below its parent; see [`Evidence`].
pub(crate) const EVIDENCE: &str = "spanwise.evidence";
/// How sure that is, 0 to 1.
const CONFIDENCE: &str = "spanwise.confidence";
/// Whether it is not certain.
pub(crate) const GUESSED: &str = "spanwise.guessed";

/// The message of a status, outside OTLP.
pub(crate) const STATUS_DESCRIPTION: &str = "otel.status_description";

/// How a trace is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As it was assembled.
    Assembled,
    /// As it was captured and sent: with the parents that senders named, and no others.
    Raw,
}

/// A span with its place.
#[derive(Debug, Clone)]
pub(crate) struct PlacedSpan {
    /// The span, whose attributes say also what formats have no field for.
    pub(crate) span: Span,
    /// Its id, which no other span of the trace has.
    pub(crate) id: SpanId,
    /// Its parent, which may be missing.
    pub(crate) parent: Option<SpanId>,
}

/// The spans of a trace, parents before their children. Each is made when it is asked for: all
/// of a large trace would take much memory.
pub(crate) fn spans(
    tree: &TraceTree,
    reading: Reading,
) -> impl Iterator<Item = Result<PlacedSpan, ModelError>> {
    tree.trace.nodes.iter().map(move |node| {
        let mut span = span_of(tree, node)?;
        if !span.capture.is_reported() {
            add_captured(&mut span);
        }
        if reading == Reading::Assembled {
            add_evidence(&mut span.attributes, node);
        }
        Ok(PlacedSpan { span, id: node.row.span_id, parent: parent_of(tree, node, reading) })
    })
}

/// The span of a node.
///
/// # Errors
/// Where its row is no span.
pub(crate) fn span_of(tree: &TraceTree, node: &Node) -> Result<Span, ModelError> {
    let at = node.row.at;
    tree.batches[at.batch as usize].span(at.row as usize)
}

/// The parent of a node, which may be missing.
pub(crate) fn parent_of(tree: &TraceTree, node: &Node, reading: Reading) -> Option<SpanId> {
    match reading {
        Reading::Raw => node.row.parent_span_id.filter(|parent| *parent != node.row.span_id),
        Reading::Assembled => {
            let above = node.parent.map(|at| tree.trace.nodes[at].row.span_id);
            above.or_else(|| node.missing_parent())
        }
    }
}

/// Adds what columns say of a captured span and its attributes do not.
fn add_captured(span: &mut Span) {
    let is_serving = matches!(span.capture, Capture::ServerProcess | Capture::ServerNic);
    let flow = &span.flow;
    let client = (flow.client_address.clone(), flow.client_port);
    let server = (flow.server_address.clone(), flow.server_port);
    let (local, peer) = if is_serving { (server, client) } else { (client, server) };
    let mut more: Vec<(&str, Option<AttributeValue>)> = vec![
        (CAPTURE, Some(span.capture.as_str().into())),
        (PROTOCOL, span.protocol.clone().map(Into::into)),
    ];
    let ends = [
        ("network.local.address", "network.local.port", local),
        ("network.peer.address", "network.peer.port", peer),
    ];
    for (address_key, port_key, (address, port)) in ends {
        more.push((address_key, address.map(Into::into)));
        more.push((port_key, port.map(|port| AttributeValue::Int(port.into()))));
    }
    for (key, value) in more {
        if let Some(value) = value.filter(|_| span.attribute(key).is_none()) {
            span.attributes.push((key.to_owned(), value));
        }
    }
}

/// Adds why a span hangs where it does, unless its sender said so itself.
fn add_evidence(attributes: &mut Attributes, node: &Node) {
    let is_ambiguous = node.assembled.evidence == Some(Evidence::Ambiguous);
    let evidence = node.assembled.evidence.filter(|evidence| {
        *evidence != Evidence::SpanContext && (node.parent.is_some() || is_ambiguous)
    });
    let Some(evidence) = evidence else { return };
    attributes.push((EVIDENCE.to_owned(), evidence.as_str().into()));
    let Some(confidence) = node.assembled.confidence.filter(|_| node.parent.is_some()) else {
        return;
    };
    // As it is written with few digits, not as the next double.
    let confidence_text = confidence.to_string();
    let value = confidence_text.parse().unwrap_or_else(|_| f64::from(confidence));
    attributes.push((CONFIDENCE.to_owned(), AttributeValue::Double(value)));
    if confidence < Evidence::CERTAIN {
        attributes.push((GUESSED.to_owned(), true.into()));
    }
}

impl PlacedSpan {
    /// The message of its status; `None` where what is known of its error came from elsewhere.
    pub(crate) fn status_message(&self) -> Option<&str> {
        let span = &self.span;
        if let Some(text) = span.attribute(STATUS_DESCRIPTION).and_then(AttributeValue::as_str) {
            return Some(text);
        }
        let error = span.error.as_deref()?;
        let mut of_events = span.events.iter().flat_map(|event| &event.attributes);
        let is_name = |(key, value): &(String, AttributeValue)| {
            matches!(key.as_str(), "error.type" | "exception.type" | "error.kind")
                && value.as_str() == Some(error)
        };
        let is_named = span.attributes.iter().any(is_name) || of_events.any(is_name);
        (!is_named).then_some(error)
    }

    /// What failed, for people; `None` where nothing did.
    pub(crate) fn failure(&self) -> Option<&str> {
        let is_failed = self.span.status == Status::Error;
        is_failed.then(|| self.status_message().or(self.span.error.as_deref()).unwrap_or("true"))
    }
}

/// The attributes of a resource, with the name of the service.
pub(crate) fn resource(json: &ResourceJson, service: &str) -> Attributes {
    let members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json.as_str()).unwrap_or_default();
    let mut attributes: Attributes = members
        .into_iter()
        .filter(|(key, _)| key != "service.name")
        .map(|(key, value)| (key, value_of(value)))
        .collect();
    attributes.insert(0, ("service.name".to_owned(), service.into()));
    attributes
}

/// A JSON value as an attribute's.
fn value_of(value: serde_json::Value) -> AttributeValue {
    match value {
        serde_json::Value::String(text) => AttributeValue::String(text),
        serde_json::Value::Bool(flag) => AttributeValue::Bool(flag),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => AttributeValue::Int(number),
            (None, Some(number)) => AttributeValue::Double(number),
            (None, None) => AttributeValue::String(number.to_string()),
        },
        other => AttributeValue::Json(other.to_string()),
    }
}

/// A value as JSON that every reader takes exactly: large integers are texts.
pub(crate) fn exact_json(value: &AttributeValue) -> serde_json::Value {
    match value {
        AttributeValue::Int(number) if !exact::is_exact(*number) => number.to_string().into(),
        other => other.to_json(),
    }
}

/// A trace id as Zipkin and Jaeger write it: 16 digits where it has 64 bits.
pub(crate) fn short_id(id: TraceId) -> String {
    let text = id.to_string();
    match text.strip_prefix("0000000000000000") {
        Some(short) => short.to_owned(),
        None => text,
    }
}
