//! Answers as JSON. Nanoseconds and other 64-bit integers are texts,
//! since JSON numbers stop being exact at 2^53.

use serde_json::{Value, json};
use spanwise_analyze::{Figures, Graph, ServiceShare, TraceSummary};
use spanwise_assemble::ClockDifference;

/// Services and what they did.
pub(crate) fn services(shares: &[ServiceShare]) -> Value {
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

/// How far the clocks of two hosts are apart.
pub(crate) fn clock(clock: &ClockDifference<String>) -> Value {
    json!({
        "host": clock.host,
        "reference": clock.reference,
        "ahead_nano": clock.ahead_nano.to_string(),
        "uncertainty_nano": clock.uncertainty_nano.to_string(),
        "exchanges": clock.exchanges,
        "notable": clock.is_notable(),
    })
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
        "doubtful": summary.doubtful,
        "complete": summary.complete,
        "error": summary.error,
    })
}

/// The service graph over a window of this many seconds.
pub(crate) fn graph(graph: &Graph, window_seconds: f64, warnings: &[String]) -> Value {
    let nodes = graph.nodes.iter().map(|node| {
        let Figures { requests, errors, p50_nano, p95_nano, .. } = node.figures;
        json!({
            "name": node.name,
            "kind": node.kind.as_str(),
            "system": node.system,
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
