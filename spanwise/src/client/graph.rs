//! `spanwise graph`

use spanwise_api::endpoints::GRAPH;
use spanwise_api::{Graph, GraphEdge, NodeKind};

use super::http::Request;
use super::search::moment;
use crate::flags::{GraphFlags, GraphFormat};
use crate::terminal::{Align, Paint, Table, brief, counted, duration, harmless};

/// The request for these flags.
pub(super) fn request(flags: &GraphFlags, now_unix_nano: i64) -> Request {
    let mut request = Request::get(&GRAPH.url_path(&[]));
    for (key, value) in [("start", &flags.start), ("end", &flags.end)] {
        if let Some(text) = value {
            request = request.parameter(key, &moment(text, flags.server.zone(), now_unix_nano));
        }
    }
    request
}

/// Formats the graph, or only the edges of one node.
pub(super) fn render(graph: &Graph, flags: &GraphFlags, paint: Paint) -> String {
    let touches = |edge: &&GraphEdge| match &flags.service {
        Some(name) => edge.client == *name || edge.server == *name,
        None => true,
    };
    let mut edges: Vec<&GraphEdge> = graph.edges.iter().filter(touches).collect();
    edges.sort_by(|one, other| {
        let name = |edge: &GraphEdge| (edge.client.clone(), edge.server.clone());
        name(one).cmp(&name(other)).then(one.protocol.cmp(&other.protocol))
    });
    match flags.format {
        GraphFormat::Table => table(graph, &edges, paint),
        GraphFormat::Dot => dot(graph, &edges),
        GraphFormat::Mermaid => mermaid(graph, &edges),
    }
}

fn table(graph: &Graph, edges: &[&GraphEdge], paint: Paint) -> String {
    let mut text = String::new();
    if edges.is_empty() {
        text.push_str("no call was seen in this time; --start -24h looks further back\n");
    } else {
        let mut table = Table::new([
            ("CALLER", Align::Left),
            ("CALLED", Align::Left),
            ("PROTOCOL", Align::Left),
            ("CALLS", Align::Right),
            ("PER SECOND", Align::Right),
            ("ERRORS", Align::Right),
            ("P50", Align::Right),
            ("P95", Align::Right),
            ("P99", Align::Right),
            ("CERTAIN", Align::Right),
        ]);
        for edge in edges {
            table.row(vec![
                brief(&edge.client, 40),
                brief(&edge.server, 40),
                brief(&edge.protocol, 16),
                edge.requests.to_string(),
                format!("{:.2}", edge.requests_per_second),
                percent(edge.error_share),
                duration(edge.p50_nano.0),
                duration(edge.p95_nano.0),
                duration(edge.p99_nano.0),
                percent(edge.certain_share),
            ]);
        }
        text.push_str(&table.render(paint));
        let (calls, minutes) = (edges.len() as u64, graph.window_seconds / 60.0);
        let note = format!("{} in {minutes:.0} minutes\n", counted(calls, "edge", "edges"));
        text.push_str(&paint.dim(&note));
    }
    for warning in &graph.warnings {
        text.push_str(&format!("{} {}\n", paint.yellow("warning:"), harmless(warning)));
    }
    text
}

/// A percentage with a useful number of digits.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.1 => "<0.1 %".to_owned(),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

fn label(edge: &GraphEdge) -> String {
    let errors = match edge.errors {
        0 => String::new(),
        _ => format!(", {} errors", percent(edge.error_share)),
    };
    format!(
        "{} {:.2}/s, p95 {}{errors}",
        edge.protocol,
        edge.requests_per_second,
        duration(edge.p95_nano.0)
    )
}

/// The names of the nodes of these edges, sorted.
fn nodes<'a>(edges: &[&'a GraphEdge]) -> Vec<&'a str> {
    let mut names: Vec<&str> =
        edges.iter().flat_map(|edge| [edge.client.as_str(), &edge.server]).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn kind(graph: &Graph, name: &str) -> NodeKind {
    let node = graph.nodes.iter().find(|node| node.name == name);
    node.map_or(NodeKind::External, |node| node.kind)
}

/// The graph in Graphviz's language.
fn dot(graph: &Graph, edges: &[&GraphEdge]) -> String {
    let quoted =
        |text: &str| format!("\"{}\"", harmless(text).replace('\\', "\\\\").replace('"', "\\\""));
    let mut text = "digraph services {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
    for name in nodes(edges) {
        let shape = match kind(graph, name) {
            NodeKind::Service => "box",
            NodeKind::Database | NodeKind::Cache => "cylinder",
            NodeKind::Broker => "cds",
            NodeKind::External => "ellipse",
        };
        text.push_str(&format!("  {} [shape={shape}];\n", quoted(name)));
    }
    for edge in edges {
        let colour = if edge.errors > 0 { ", color=red" } else { "" };
        text.push_str(&format!(
            "  {} -> {} [label={}{colour}];\n",
            quoted(&edge.client),
            quoted(&edge.server),
            quoted(&label(edge))
        ));
    }
    text + "}\n"
}

/// The graph as a Mermaid flowchart.
fn mermaid(graph: &Graph, edges: &[&GraphEdge]) -> String {
    // Mermaid's escapes are those of HTML.
    let quoted = |text: &str| {
        let safe = harmless(text).replace('&', "&amp;").replace('"', "&quot;");
        format!("\"{}\"", safe.replace('<', "&lt;").replace('>', "&gt;"))
    };
    let names = nodes(edges);
    let mut text = "flowchart LR\n".to_owned();
    for (index, name) in names.iter().enumerate() {
        let (open, close) = match kind(graph, name) {
            NodeKind::Service => ("[", "]"),
            NodeKind::Database | NodeKind::Cache => ("[(", ")]"),
            NodeKind::Broker => ("[[", "]]"),
            NodeKind::External => ("([", "])"),
        };
        text.push_str(&format!("  n{index}{open}{}{close}\n", quoted(name)));
    }
    let position = |name: &str| names.binary_search(&name).unwrap_or_default();
    for edge in edges {
        text.push_str(&format!(
            "  n{} -->|{}| n{}\n",
            position(&edge.client),
            quoted(&label(edge)),
            position(&edge.server)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::{Command, Flags};

    fn flags(typed: &[&str]) -> GraphFlags {
        let typed = ["spanwise", "graph"].iter().chain(typed);
        match Flags::try_parse_from(typed).unwrap_or_else(|error| panic!("{error}")).command {
            Command::Graph(flags) => flags,
            _ => unreachable!(),
        }
    }

    fn graph() -> Graph {
        let edge = |client: &str, server: &str, errors: u64| {
            serde_json::json!({
                "client": client, "server": server, "protocol": "http", "requests": 40,
                "errors": errors, "error_share": errors as f64 / 40.0, "certain_share": 1.0,
                "requests_per_second": 2.0, "p50_nano": "1000000", "p95_nano": "2000000",
                "p99_nano": "3000000",
            })
        };
        let node = |name: &str, kind: &str| {
            serde_json::json!({
                "name": name, "kind": kind, "errors": 0, "requests": 40, "p50_nano": "1",
                "p95_nano": "1", "protocols": [], "system": null,
            })
        };
        serde_json::from_value(serde_json::json!({
            "edges": [edge("web", "a \"b\"", 1), edge("web", "db", 0), edge("cart", "db", 0)],
            "nodes": [node("web", "service"), node("cart", "service"), node("db", "database")],
            "warnings": ["not all"], "window_seconds": 3600.0,
        }))
        .expect("a graph")
    }

    #[test]
    fn tables_are_in_order_and_say_how_sure_edges_are() {
        let text = render(&graph(), &flags(&[]), Paint::off());
        let expected = "\
CALLER  CALLED  PROTOCOL  CALLS  PER SECOND  ERRORS      P50      P95      P99  CERTAIN
cart    db      http         40        2.00     0 %  1.00 ms  2.00 ms  3.00 ms    100 %
web     a \"b\"   http         40        2.00   2.5 %  1.00 ms  2.00 ms  3.00 ms    100 %
web     db      http         40        2.00     0 %  1.00 ms  2.00 ms  3.00 ms    100 %
3 edges in 60 minutes
warning: not all
";
        assert_eq!(text, expected);
        let text = render(&graph(), &flags(&["--service", "cart"]), Paint::off());
        assert!(text.contains("cart") && !text.contains("web"), "{text}");
        let none = render(&graph(), &flags(&["--service", "nobody"]), Paint::off());
        assert!(none.starts_with("no call was seen"), "{none}");
    }

    #[test]
    fn names_are_quoted_in_drawings() {
        let text = render(&graph(), &flags(&["--format", "dot"]), Paint::off());
        assert!(text.contains("  \"db\" [shape=cylinder];\n"), "{text}");
        assert!(
            text.contains(
                "  \"web\" -> \"a \\\"b\\\"\" [label=\"http 2.00/s, p95 2.00 ms, 2.5 % errors\", color=red];\n"
            ),
            "{text}"
        );
        let text = render(&graph(), &flags(&["--format", "mermaid"]), Paint::off());
        assert!(text.contains("  n0([\"a &quot;b&quot;\"])\n"), "{text}");
        assert!(text.contains("  n3 -->|\"http 2.00/s, p95 2.00 ms\"| n2\n"), "{text}");
    }

    #[test]
    fn flags_reach_the_api() {
        let typed = flags(&["--start", "-2h", "--end", "now"]);
        assert_eq!(request(&typed, 0), Request::get("/api/v1/graph?start=-2h&end=now"));
    }
}
