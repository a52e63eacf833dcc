//! Converts query answers to types of the API.

use spanwise_analyze::{
    ErrorSide, ErrorSummary, Figures, GraphNode, NetworkFigures, ResentCall, RootSummary,
    ServiceShare, Steps,
};
use spanwise_api as api;
use spanwise_api::{Nano, NodeKind, Outcome};
use spanwise_assemble::ClockDifference;
use spanwise_model::ServiceKind;
use spanwise_query::GraphAnswer;

/// A service's share of a trace.
pub(super) fn service(share: ServiceShare) -> api::ServiceShare {
    let ServiceShare { name, spans, errors, busy_nano } = share;
    api::ServiceShare {
        busy_nano: Nano(busy_nano),
        errors: errors as u64,
        name,
        spans: spans as u64,
    }
}

/// The clock difference of two hosts.
pub(super) fn clock(clock: &ClockDifference<String>) -> api::ClockDifference {
    api::ClockDifference {
        ahead_nano: Nano(clock.ahead_nano),
        exchanges: clock.exchanges,
        host: clock.host.clone(),
        notable: clock.is_notable(),
        reference: clock.reference.clone(),
        uncertainty_nano: Nano(clock.uncertainty_nano),
    }
}

/// A trace in a list.
pub(super) fn summary(summary: spanwise_analyze::TraceSummary) -> api::TraceSummary {
    let root = |RootSummary { service, operation, kind, capture }| api::RootSpan {
        capture,
        kind,
        operation,
        service,
    };
    let error = |ErrorSummary { service, operation, status_code, text, side }| {
        let side = side.map(|side| match side {
            ErrorSide::Client => api::ErrorSide::Client,
            ErrorSide::Server => api::ErrorSide::Server,
        });
        api::TraceError { operation, service, side, status_code, text }
    };
    api::TraceSummary {
        complete: summary.complete,
        doubtful: summary.doubtful,
        duration_nano: Nano(summary.duration_nano),
        error: summary.error.map(error),
        errors: summary.errors as u64,
        protocols: summary.protocols,
        root: summary.root.map(root),
        services: summary.services.into_iter().map(service).collect(),
        spans: summary.spans as u64,
        start_unix_nano: Nano(summary.start_unix_nano),
        status: if summary.errors > 0 { Outcome::Error } else { Outcome::Ok },
        trace_id: summary.trace_id.to_string(),
        uncertain_links: summary.uncertain_links as u64,
    }
}

/// The service graph.
pub(super) fn graph(answer: GraphAnswer) -> api::Graph {
    let GraphAnswer { graph, window_seconds, steps, warnings } = answer;
    let node = |GraphNode { name, kind, system, protocols, figures }| {
        let Figures { requests, errors, p50_nano, p95_nano, .. } = figures;
        api::GraphNode {
            errors,
            kind: match kind {
                ServiceKind::Service => NodeKind::Service,
                ServiceKind::Database => NodeKind::Database,
                ServiceKind::Cache => NodeKind::Cache,
                ServiceKind::Broker => NodeKind::Broker,
                ServiceKind::External => NodeKind::External,
            },
            name,
            p50_nano: Nano(p50_nano),
            p95_nano: Nano(p95_nano),
            protocols,
            requests,
            system: system.map(str::to_owned),
        }
    };
    let edge = |edge: spanwise_analyze::GraphEdge| {
        let Figures { requests, errors, p50_nano, p95_nano, p99_nano } = edge.figures;
        api::GraphEdge {
            certain_share: edge.certain_share,
            client: edge.client,
            error_share: errors as f64 / (requests as f64).max(1.0),
            errors,
            network: edge.network.map(|it| network(it, steps)),
            p50_nano: Nano(p50_nano),
            p95_nano: Nano(p95_nano),
            p99_nano: Nano(p99_nano),
            protocol: edge.protocol,
            requests,
            requests_per_second: requests as f64 / window_seconds.max(1.0),
            server: edge.server,
        }
    };
    api::Graph {
        edges: graph.edges.into_iter().map(edge).collect(),
        nodes: graph.nodes.into_iter().map(node).collect(),
        warnings,
        window_seconds,
    }
}

fn network(network: spanwise_analyze::EdgeNetwork, steps: Option<Steps>) -> api::EdgeNetwork {
    let example = |call: ResentCall| api::ResentCall {
        duration_nano: Nano(call.duration_nano),
        retransmits: call.retransmits,
        span_id: call.span_id.to_string(),
        start_unix_nano: Nano(call.start_unix_nano),
    };
    let step = |(at, figures): (usize, NetworkFigures)| {
        let NetworkFigures { calls, resent_calls, retransmits, .. } = figures;
        api::NetworkStep {
            calls,
            connect_p95_nano: figures.connect_p95_nano.map(Nano),
            resent_calls,
            retransmits,
            rtt_p50_nano: figures.rtt_p50_nano.map(Nano),
            start_unix_nano: Nano(steps.map_or(0, |steps| steps.start_unix_nano(at))),
        }
    };
    let NetworkFigures { calls, resent_calls, retransmits, connects, .. } = network.figures;
    api::EdgeNetwork {
        calls,
        connect_p95_nano: network.figures.connect_p95_nano.map(Nano),
        connects,
        examples: network.examples.into_iter().map(example).collect(),
        resent_calls,
        retransmits,
        rtt_p50_nano: network.figures.rtt_p50_nano.map(Nano),
        steps: network.steps.into_iter().enumerate().map(step).collect(),
    }
}
