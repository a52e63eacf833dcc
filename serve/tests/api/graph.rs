//! The service graph.

use super::*;

#[tokio::test]
async fn the_graph_has_rates_errors_and_durations() {
    let api = Api::shop().await;
    let graph = api.get("graph?start=-10m").await;
    let edges = graph["edges"].as_array().expect("a list");
    let edge = |client: &str| edges.iter().find(|edge| edge["client"] == client).expect("there");
    assert_eq!(edges.len(), 2);
    assert_eq!((&edge("web")["server"], &edge("web")["requests"]), (&json!("cart"), &json!(3)));
    assert_eq!(edge("web")["certain_share"], 1.0);
    assert_eq!(edge("web")["p99_nano"], (298 * MS).to_string());
    assert_eq!(edge("cart")["server"], "postgresql 10.0.0.9:5432");
    assert_eq!(edge("cart")["errors"], 1);
    let nodes = graph["nodes"].as_array().expect("a list");
    let kinds: Vec<_> =
        nodes.iter().map(|node| json!([node["name"], node["kind"], node["system"]])).collect();
    let database = json!(["postgresql 10.0.0.9:5432", "database", "postgresql"]);
    assert!(
        kinds.contains(&database) && kinds.contains(&json!(["web", "service", null])),
        "{kinds:?}"
    );
    assert!(graph["window_seconds"].as_f64().expect("a number") >= 50.0);
}
