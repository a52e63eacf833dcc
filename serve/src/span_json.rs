//! A span as JSON, written as it is read: of a page of ten thousand spans, an
//! object tree would be most of the work.

use std::fmt::Display;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use spanwise_assemble::{Node, Trace};
use spanwise_model::{AttributeValue, Event, Link, Span, schema::column};

/// A span with its place in the tree: every column that is not null by its
/// name, then `parent`, `depth`, `self_nano`, `children`.
pub(crate) struct SpanInTree<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) node: &'a Node,
    pub(crate) span: &'a Span,
    /// The span's resource; `None` where it is no JSON.
    pub(crate) resource: Option<&'a RawValue>,
}

/// Anything as a JSON text.
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// What a column holds, where it is not null.
fn put<M: SerializeMap>(
    object: &mut M,
    name: &str,
    value: Option<impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| object.serialize_entry(name, &value))
}

impl Serialize for SpanInTree<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { trace, node, span, resource } = self;
        let (flow, network, found) = (&span.flow, &span.network, &node.assembled);
        let mut object = to.serialize_map(None)?;
        let to = &mut object;
        put(to, column::SPAN_ID, Some(Text(span.span_id)))?;
        put(to, column::TRACE_ID, span.trace_id.map(Text))?;
        put(to, column::PARENT_SPAN_ID, span.parent_span_id.map(Text))?;
        put(to, column::TRACE_STATE, span.trace_state.as_ref())?;
        put(to, column::START_UNIX_NANO, Some(Text(span.start_unix_nano)))?;
        put(to, column::DURATION_NANO, Some(Text(span.duration_nano)))?;
        put(to, column::SERVICE, Some(&span.service))?;
        put(to, column::INSTANCE, span.instance.as_ref())?;
        put(to, column::OPERATION, Some(&span.operation))?;
        put(to, column::KIND, Some(span.kind.as_str()))?;
        put(to, column::PROTOCOL, span.protocol.as_ref())?;
        put(to, column::STATUS, Some(span.status.as_str()))?;
        put(to, column::STATUS_CODE, span.status_code)?;
        put(to, column::ERROR, span.error.as_ref())?;
        put(to, column::CAPTURE, Some(span.capture.as_str()))?;
        put(to, column::FRAGMENT_ID, span.fragment_id.map(|id| Text(format!("{id:016x}"))))?;
        put(to, column::REQUEST_TCP_SEQ, span.request_tcp_seq)?;
        put(to, column::RESPONSE_TCP_SEQ, span.response_tcp_seq)?;
        put(to, column::CLIENT_ADDRESS, flow.client_address.as_ref())?;
        put(to, column::CLIENT_PORT, flow.client_port)?;
        put(to, column::SERVER_ADDRESS, flow.server_address.as_ref())?;
        put(to, column::SERVER_PORT, flow.server_port)?;
        put(to, column::NETWORK_NAMESPACE, flow.network_namespace)?;
        put(to, column::X_REQUEST_ID, span.x_request_id.as_ref())?;
        put(to, column::LOGICAL_KEY, span.logical_key.as_ref())?;
        put(to, column::ASSEMBLED_TRACE_ID, Some(Text(trace.trace_id)))?;
        put(to, column::ASSEMBLED_PARENT, found.parent.map(Text))?;
        put(to, column::EVIDENCE, found.evidence.map(|evidence| evidence.as_str()))?;
        put(to, column::CONFIDENCE, found.confidence)?;
        put(to, column::HOST, span.host.as_ref())?;
        put(to, column::PROCESS_ID, span.process_id)?;
        put(to, column::RESOURCE, *resource)?;
        put(to, column::CONNECT_NANO, network.connect_nano.map(Text))?;
        put(to, column::RTT_NANO, network.rtt_nano.map(Text))?;
        put(to, column::RETRANSMITS, network.retransmits)?;
        put(to, column::ZERO_WINDOWS, network.zero_windows)?;
        put(to, column::RESETS, network.resets)?;
        put(to, column::REQUEST_BYTES, network.request_bytes.map(Text))?;
        put(to, column::RESPONSE_BYTES, network.response_bytes.map(Text))?;
        put(to, column::ATTRIBUTES, Some(List(&span.attributes, OneAttribute)))?;
        put(to, column::EVENTS, Some(List(&span.events, OneEvent)))?;
        put(to, column::LINKS, Some(List(&span.links, OneLink)))?;
        let id = |position: &usize| Text(trace.nodes[*position].row.span_id);
        to.serialize_entry("parent", &node.parent.as_ref().map(id))?;
        to.serialize_entry("depth", &node.depth)?;
        to.serialize_entry("self_nano", &Text(node.self_nano))?;
        to.serialize_entry("children", &List(&node.children, id))?;
        object.end()
    }
}

/// Each of these as what the function makes of it.
struct List<'a, T, F>(&'a [T], F);

impl<'a, T, F, V> Serialize for List<'a, T, F>
where
    F: Fn(&'a T) -> V,
    V: Serialize,
{
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(&self.1))
    }
}

struct OneEvent<'a>(&'a Event);

impl Serialize for OneEvent<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Event { time_unix_nano, name, attributes } = self.0;
        let mut object = to.serialize_map(Some(3))?;
        object.serialize_entry("time_unix_nano", &Text(time_unix_nano))?;
        object.serialize_entry("name", name)?;
        object.serialize_entry("attributes", &List(attributes, OneAttribute))?;
        object.end()
    }
}

struct OneLink<'a>(&'a Link);

impl Serialize for OneLink<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Link { trace_id, span_id, trace_state, attributes } = self.0;
        let mut object = to.serialize_map(Some(4))?;
        object.serialize_entry("trace_id", &Text(trace_id))?;
        object.serialize_entry("span_id", &Text(span_id))?;
        object.serialize_entry("trace_state", trace_state)?;
        object.serialize_entry("attributes", &List(attributes, OneAttribute))?;
        object.end()
    }
}

struct OneAttribute<'a>(&'a (String, AttributeValue));

impl Serialize for OneAttribute<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (key, value) = self.0;
        let kind = match value {
            AttributeValue::String(_) => "string",
            AttributeValue::Int(_) => "int",
            AttributeValue::Double(_) => "double",
            AttributeValue::Bool(_) => "bool",
            AttributeValue::Bytes(_) => "bytes",
            AttributeValue::Json(_) => "json",
        };
        let mut object = to.serialize_map(Some(3))?;
        object.serialize_entry("key", key)?;
        object.serialize_entry("type", kind)?;
        match value {
            AttributeValue::String(text) => object.serialize_entry("value", text)?,
            // As exact as the text that is stored.
            AttributeValue::Int(number) if number.unsigned_abs() > 1 << 53 => {
                object.serialize_entry("value", &Text(number))?;
            }
            other => object.serialize_entry("value", &other.to_json())?,
        }
        object.end()
    }
}
