//! Rows and answers as JSON. Nanoseconds and other 64-bit integers are texts,
//! since JSON numbers stop being exact at 2^53.

use arrow::array::RecordBatch;
use serde_json::{Map, Value, json};
use spanwise_analyze::{Figures, Graph, Labels, ServiceShare, TraceSummary};
use spanwise_assemble::{Node, Trace};
use spanwise_model::{AttributeValue, ModelError, Span, SpanBatch, schema::column};

/// A span with its place in the tree: every column that is not null by its
/// name, then `parent`, `depth`, `self_nano`, `children`.
fn span(trace: &Trace, node: &Node, mut span: Span) -> Value {
    span.assembled_trace_id = Some(trace.trace_id);
    span.assembled_parent = node.assembled.parent;
    span.evidence = node.assembled.evidence;
    span.confidence = node.assembled.confidence;
    let id = |position: &usize| trace.nodes[*position].row.span_id.to_string();
    let mut object = columns(&span);
    let parent = node.parent.as_ref().map(id);
    let children: Vec<String> = node.children.iter().map(id).collect();
    object.insert("parent".into(), json!(parent));
    object.insert("depth".into(), json!(node.depth));
    object.insert("self_nano".into(), json!(node.self_nano.to_string()));
    object.insert("children".into(), json!(children));
    Value::Object(object)
}

fn columns(span: &Span) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(name.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    let nano = |nano: Option<i64>| nano.map(|nano| Value::from(nano.to_string()));
    let (flow, network) = (&span.flow, &span.network);
    put(column::SPAN_ID, Some(span.span_id.to_string().into()));
    put(column::TRACE_ID, span.trace_id.map(|id| id.to_string().into()));
    put(column::PARENT_SPAN_ID, span.parent_span_id.map(|id| id.to_string().into()));
    put(column::TRACE_STATE, text(&span.trace_state));
    put(column::START_UNIX_NANO, nano(Some(span.start_unix_nano)));
    put(column::DURATION_NANO, nano(Some(span.duration_nano)));
    put(column::SERVICE, Some(span.service.as_str().into()));
    put(column::INSTANCE, text(&span.instance));
    put(column::OPERATION, Some(span.operation.as_str().into()));
    put(column::KIND, Some(span.kind.as_str().into()));
    put(column::PROTOCOL, text(&span.protocol));
    put(column::STATUS, Some(span.status.as_str().into()));
    put(column::STATUS_CODE, span.status_code.map(Value::from));
    put(column::ERROR, text(&span.error));
    put(column::CAPTURE, Some(span.capture.as_str().into()));
    put(column::FRAGMENT_ID, span.fragment_id.map(|id| format!("{id:016x}").into()));
    put(column::REQUEST_TCP_SEQ, span.request_tcp_seq.map(Value::from));
    put(column::RESPONSE_TCP_SEQ, span.response_tcp_seq.map(Value::from));
    put(column::CLIENT_ADDRESS, text(&flow.client_address));
    put(column::CLIENT_PORT, flow.client_port.map(Value::from));
    put(column::SERVER_ADDRESS, text(&flow.server_address));
    put(column::SERVER_PORT, flow.server_port.map(Value::from));
    put(column::NETWORK_NAMESPACE, flow.network_namespace.map(Value::from));
    put(column::X_REQUEST_ID, text(&span.x_request_id));
    put(column::LOGICAL_KEY, text(&span.logical_key));
    put(column::ASSEMBLED_TRACE_ID, span.assembled_trace_id.map(|id| id.to_string().into()));
    put(column::ASSEMBLED_PARENT, span.assembled_parent.map(|id| id.to_string().into()));
    put(column::EVIDENCE, span.evidence.map(|evidence| evidence.as_str().into()));
    put(column::CONFIDENCE, span.confidence.map(Value::from));
    put(column::HOST, text(&span.host));
    put(column::PROCESS_ID, span.process_id.map(Value::from));
    put(column::RESOURCE, serde_json::from_str(span.resource.as_str()).ok());
    put(column::CONNECT_NANO, nano(network.connect_nano));
    put(column::RTT_NANO, nano(network.rtt_nano));
    put(column::RETRANSMITS, network.retransmits.map(Value::from));
    put(column::ZERO_WINDOWS, network.zero_windows.map(Value::from));
    put(column::RESETS, network.resets.map(Value::from));
    put(column::REQUEST_BYTES, network.request_bytes.map(|n| n.to_string().into()));
    put(column::RESPONSE_BYTES, network.response_bytes.map(|n| n.to_string().into()));
    put(column::ATTRIBUTES, Some(attributes(&span.attributes)));
    let events = span.events.iter().map(|event| {
        json!({
            "time_unix_nano": event.time_unix_nano.to_string(),
            "name": event.name,
            "attributes": attributes(&event.attributes),
        })
    });
    put(column::EVENTS, Some(events.collect()));
    let links = span.links.iter().map(|link| {
        json!({
            "trace_id": link.trace_id.to_string(),
            "span_id": link.span_id.to_string(),
            "trace_state": link.trace_state,
            "attributes": attributes(&link.attributes),
        })
    });
    put(column::LINKS, Some(links.collect()));
    object
}

fn attributes(attributes: &[(String, AttributeValue)]) -> Value {
    attributes
        .iter()
        .map(|(key, value)| {
            let (kind, value) = match value {
                // As exact as the text that is stored.
                AttributeValue::Int(number) if number.unsigned_abs() > 1 << 53 => {
                    ("int", number.to_string().into())
                }
                AttributeValue::Int(_) => ("int", value.to_json()),
                AttributeValue::String(_) => ("string", value.to_json()),
                AttributeValue::Double(_) => ("double", value.to_json()),
                AttributeValue::Bool(_) => ("bool", value.to_json()),
                AttributeValue::Bytes(_) => ("bytes", value.to_json()),
                AttributeValue::Json(_) => ("json", value.to_json()),
            };
            json!({"key": key, "type": kind, "value": value})
        })
        .collect()
}

/// Which spans of a trace, in their depth-first order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// How many come before.
    pub(crate) after: usize,
    /// The most spans of the page.
    pub(crate) limit: usize,
}

/// A page of a trace whose rows stand in these batches. What is said of the
/// trace is said of all of it; `roots` and `spans` are those of the page.
pub(crate) fn trace(
    trace: &Trace,
    batches: &[RecordBatch],
    page: Page,
    further_warnings: Vec<String>,
) -> Result<Value, ModelError> {
    let labels = Labels::of(batches)?;
    let name = |at| (labels.operation(at).to_owned(), labels.service(at).to_owned());
    let mut warnings = trace.warnings(name);
    warnings.extend(further_warnings);
    let readers: Vec<SpanBatch> =
        batches.iter().cloned().map(SpanBatch::try_from).collect::<Result<_, _>>()?;
    let count = trace.nodes.len();
    let from = page.after.min(count);
    let to = page.after.saturating_add(page.limit).min(count);
    let nodes = &trace.nodes[from..to];
    let spans: Vec<Value> = nodes
        .iter()
        .map(|node| {
            // The batches are those that the rows were read from.
            let at = node.row.at;
            Ok(span(trace, node, readers[at.batch as usize].span(at.row as usize)?))
        })
        .collect::<Result<_, ModelError>>()?;
    let roots = nodes.iter().filter(|node| node.parent.is_none());
    let start = trace.start_unix_nano();
    Ok(json!({
        "trace_id": trace.trace_id.to_string(),
        "start_unix_nano": start.to_string(),
        "duration_nano": trace.end_unix_nano().saturating_sub(start).to_string(),
        "roots": roots.map(|node| node.row.span_id.to_string()).collect::<Vec<_>>(),
        "services": services(&TraceSummary::of(trace, &labels).services),
        "warnings": warnings,
        "spans": spans,
        "span_count": count,
        "next_after": (to < count).then_some(to),
    }))
}

fn services(shares: &[ServiceShare]) -> Value {
    shares
        .iter()
        .map(|share| {
            json!({
                "name": share.name,
                "spans": share.spans,
                "errors": share.errors,
                "busy_nano": share.busy_nano.to_string(),
            })
        })
        .collect()
}

/// A search result.
pub(crate) fn summary(summary: &TraceSummary) -> Value {
    json!({
        "trace_id": summary.trace_id.to_string(),
        "root": summary.root,
        "start_unix_nano": summary.start_unix_nano.to_string(),
        "duration_nano": summary.duration_nano.to_string(),
        "spans": summary.spans,
        "errors": summary.errors,
        "services": services(&summary.services),
        "protocols": summary.protocols,
        "status": if summary.errors > 0 { "error" } else { "ok" },
        "uncertain_links": summary.uncertain_links,
        "complete": summary.complete,
    })
}

/// The service graph over a window of this many seconds.
pub(crate) fn graph(graph: &Graph, window_seconds: f64, warnings: &[String]) -> Value {
    let nodes = graph.nodes.iter().map(|node| {
        let Figures { requests, errors, p50_nano, p95_nano, .. } = node.figures;
        json!({
            "name": node.name,
            "kind": node.kind,
            "protocols": node.protocols,
            "requests": requests,
            "errors": errors,
            "p50_nano": p50_nano.to_string(),
            "p95_nano": p95_nano.to_string(),
        })
    });
    let edges = graph.edges.iter().map(|edge| {
        let Figures { requests, errors, p50_nano, p95_nano, p99_nano } = edge.figures;
        json!({
            "client": edge.client,
            "server": edge.server,
            "protocol": edge.protocol,
            "requests": requests,
            "errors": errors,
            "requests_per_second": requests as f64 / window_seconds.max(1.0),
            "error_share": errors as f64 / (requests as f64).max(1.0),
            "p50_nano": p50_nano.to_string(),
            "p95_nano": p95_nano.to_string(),
            "p99_nano": p99_nano.to_string(),
            "certain_share": edge.certain_share,
        })
    });
    json!({
        "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
        "window_seconds": window_seconds,
        "warnings": warnings,
    })
}
