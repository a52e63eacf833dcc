//! The tools that list: services, operations, attributes, and the service graph.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use spanwise_api::{CoveredRange, Graph, GraphEdge};

use super::text::{self, Text};
use crate::Shared;
use crate::native::{Parameters, attributes, brief, graph, services};
use crate::problem::Problem;

/// Entries: where nothing is said, and at most.
pub(super) const DEFAULT_ENTRIES: usize = 100;
pub(super) const MOST_ENTRIES: usize = 500;

pub(super) async fn services(shared: &Shared, parameters: &Parameters) -> Result<String, Problem> {
    let limit = parameters.count("limit", DEFAULT_ENTRIES, MOST_ENTRIES)?;
    let stored = services::all(&shared.queries).await?;
    let graph = graph::answer(&shared.queries, parameters).await?;
    let prefix = parameters.text("prefix").unwrap_or_default().to_lowercase();
    let figures: BTreeMap<&str, _> =
        graph.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let mut wanted: Vec<_> = stored
        .iter()
        .filter(|service| service.name.to_lowercase().starts_with(&prefix))
        .map(|service| (service, figures.get(service.name.as_str())))
        .collect();
    wanted.sort_by_key(|(service, node)| {
        (Reverse(node.map_or(0, |node| node.requests)), &service.name)
    });
    let mut text = Text::default();
    text.line(&format!(
        "{} services; requests are those to the service over {:.0} s",
        wanted.len(),
        graph.window_seconds
    ));
    let lines = wanted.iter().take(limit).map(|(service, node)| {
        let figures = match node {
            Some(node) if node.requests > 0 => format!(
                "{:.2} requests/s ({}), errors {}, p50 {}, p95 {}",
                node.requests as f64 / graph.window_seconds.max(1.0),
                node.requests,
                text::percent(node.errors, node.requests),
                text::duration(node.p50_nano.0),
                text::duration(node.p95_nano.0),
            ),
            _ => "no requests in this time".to_owned(),
        };
        let seen: Vec<&str> = service.kinds.iter().map(|capture| capture.as_str()).collect();
        format!(
            "{}: {figures}; stored {} spans, {} failed, last {}; seen by {}",
            text::name(&service.name),
            service.spans,
            service.errors,
            text::moment(service.last_seen_unix_nano.0),
            seen.join(", "),
        )
    });
    let written = text.lines(lines);
    if written < wanted.len() {
        text.note(&format!(
            "{} further services are left out: ask again with prefix, or with a larger limit",
            wanted.len() - written
        ));
    }
    if wanted.is_empty() {
        text.note(
            "no stored span has such a service; send spans to this server, or start an agent",
        );
    }
    for warning in &graph.warnings {
        text.note(warning);
    }
    Ok(text.finish())
}

pub(super) async fn operations(
    shared: &Shared,
    parameters: &Parameters,
) -> Result<String, Problem> {
    let limit = parameters.count("limit", DEFAULT_ENTRIES, MOST_ENTRIES)?;
    let all = services::operations_of(&shared.queries, parameters).await?;
    let mut text = Text::default();
    text.line("operations, those with most stored spans first (operation, kind, spans):");
    let lines = all.iter().take(limit);
    let written = text.lines(lines.map(|operation| {
        format!("{}, {}, {}", text::name(&operation.name), operation.kind, operation.spans)
    }));
    if written < all.len() {
        text.note(&format!(
            "{} further operations are left out: ask again with a larger limit (at most \
             {MOST_ENTRIES}), or with run_sql",
            all.len() - written
        ));
    }
    if all.is_empty() {
        text.note("there is no such service; list_services has all of them");
    }
    Ok(text.finish())
}

pub(super) async fn attributes(
    shared: &Shared,
    parameters: &Parameters,
) -> Result<String, Problem> {
    let answer = attributes::keys_of(&shared.queries, parameters).await?;
    let mut text = Text::default();
    text.line("keys of attributes (key, what has it, spans):");
    let lines = answer.keys.iter().map(|key| {
        let place = serde_json::to_value(key.on).ok();
        let place = place.as_ref().and_then(|place| place.as_str()).unwrap_or_default();
        format!("{}, {place}, {}", text::name(&key.key), key.spans)
    });
    let written = text.lines(lines);
    listed(&mut text, written, answer.keys.len(), &answer.covered);
    Ok(text.finish())
}

pub(super) async fn values(shared: &Shared, parameters: &Parameters) -> Result<String, Problem> {
    let answer = attributes::values_of(&shared.queries, parameters).await?;
    let mut text = Text::default();
    text.line(&format!(
        "values of {} (value, spans):",
        text::name(parameters.text("key").unwrap_or_default())
    ));
    let lines = answer.values.iter();
    let written =
        text.lines(lines.map(|value| format!("{}, {}", text::name(&value.value), value.spans)));
    listed(&mut text, written, answer.values.len(), &answer.covered);
    Ok(text.finish())
}

fn listed(text: &mut Text, written: usize, all: usize, covered: &CoveredRange) {
    if written < all {
        text.note(&format!("{} entries are left out: ask again with prefix", all - written));
    }
    if all == 0 {
        text.note(
            "nothing has that in this time; choose an earlier `start`, or leave `prefix` out",
        );
    }
    if !covered.complete {
        text.note(&format!(
            "only the newest spans were counted, back to {}",
            text::moment(covered.start_unix_nano.0)
        ));
    }
}

pub(super) async fn graph(shared: &Shared, parameters: &Parameters) -> Result<String, Problem> {
    let limit = parameters.count("limit", DEFAULT_ENTRIES, MOST_ENTRIES)?;
    let hops = parameters.count("hops", 1, 10)?;
    let graph = graph::answer(&shared.queries, parameters).await?;
    let service = parameters.text("service");
    if let Some(service) = service
        && !graph.nodes.iter().any(|node| node.name == service)
    {
        return Err(Problem::not_found(format!(
            "the graph of this time has no `{}`; list_services has the names, or choose an earlier \
             `start`",
            brief(service)
        )));
    }
    let mut edges = around(&graph, service, hops);
    edges.sort_by_key(|edge| (Reverse(edge.requests), &edge.client, &edge.server));
    let mut text = Text::default();
    text.line(&format!(
        "{} edges of {}, over {:.0} s; caller -> called (protocol): requests",
        edges.len(),
        graph.edges.len(),
        graph.window_seconds
    ));
    let written = text.lines(edges.iter().take(limit).map(|edge| line(edge)));
    if written < edges.len() {
        text.note(&format!(
            "{} edges with fewer requests are left out: ask again with service, fewer hops or a \
             larger limit (at most {MOST_ENTRIES})",
            edges.len() - written
        ));
    }
    for warning in &graph.warnings {
        text.note(warning);
    }
    Ok(text.finish())
}

/// The edges within so many hops of a service, in either direction.
fn around<'g>(graph: &'g Graph, service: Option<&str>, hops: usize) -> Vec<&'g GraphEdge> {
    let Some(service) = service else { return graph.edges.iter().collect() };
    let mut near: BTreeSet<&str> = BTreeSet::from([service]);
    let mut edges: Vec<&GraphEdge> = Vec::new();
    for hop in 0..hops {
        let touches = |edge: &&GraphEdge| {
            near.contains(edge.client.as_str()) || near.contains(edge.server.as_str())
        };
        edges = graph.edges.iter().filter(touches).collect();
        if hop + 1 < hops {
            let before = near.len();
            near.extend(edges.iter().flat_map(|edge| [edge.client.as_str(), edge.server.as_str()]));
            if near.len() == before {
                break;
            }
        }
    }
    edges
}

fn line(edge: &GraphEdge) -> String {
    let protocol = match edge.protocol.as_str() {
        "" => String::new(),
        protocol => format!(" ({protocol})"),
    };
    let guessed = match edge.certain_share {
        1.0.. => String::new(),
        share => {
            format!("; of {:.0}% the called side was not seen for certain", (1.0 - share) * 100.0)
        }
    };
    format!(
        "{} -> {}{protocol}: {} ({:.2}/s), errors {}, p50 {}, p95 {}, p99 {}{guessed}",
        text::name(&edge.client),
        text::name(&edge.server),
        edge.requests,
        edge.requests_per_second,
        text::percent(edge.errors, edge.requests),
        text::duration(edge.p50_nano.0),
        text::duration(edge.p95_nano.0),
        text::duration(edge.p99_nano.0),
    )
}
