//! The service graph.

use spanwise_model::Network;

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

#[tokio::test]
async fn a_service_has_the_network_of_its_calls_over_time() {
    let api = Api::empty().await;
    let start = now() - 60_000 * MS;
    let seen = |retransmits| Network {
        retransmits: Some(retransmits),
        rtt_nano: Some(40_000),
        ..Network::default()
    };
    // A call in each ten seconds. Something of the second is sent again, by both sides.
    for (place, again) in [0, 3, 0].into_iter().enumerate() {
        let place = place as u64;
        let at = start + i64::try_from(place).expect("few") * 10_000 * MS;
        let mut spans = request(100 * (place + 1), at, 20, false);
        for span in &mut spans[1..3] {
            span.network = seen(again);
        }
        spans[1].network.connect_nano = (place == 1).then_some(MS);
        api.add(&spans).await;
    }
    let range = format!("start={start}&end={}", start + 30_000 * MS);
    let graph = api.get(&format!("graph?service=web&steps=3&{range}")).await;
    let edges = graph["edges"].as_array().expect("a list");
    assert_eq!(edges.len(), 1, "only its own: {edges:?}");
    let network = &edges[0]["network"];
    let counts = |it: &Value| json!([it["calls"], it["resent_calls"], it["retransmits"]]);
    assert_eq!(counts(network), json!([3, 1, 6]));
    assert_eq!(network["rtt_p50_nano"], "40000");
    let steps = network["steps"].as_array().expect("a list");
    let each: Vec<_> = steps.iter().map(counts).collect();
    assert_eq!(each, [json!([1, 0, 0]), json!([1, 1, 6]), json!([1, 0, 0])]);
    assert_eq!(steps[1]["connect_p95_nano"], MS.to_string());
    assert_eq!(steps[0].get("connect_p95_nano"), None, "none was opened");
    assert_eq!(steps[2]["start_unix_nano"], (start + 20_000 * MS).to_string());
    let example = network["examples"][0]["span_id"].as_str().expect("an id");
    let trace = api.get(&format!("traces/{example}")).await;
    assert_eq!(trace["spans"].as_array().expect("a list").len(), 4);

    let whole = api.get(&format!("graph?{range}")).await;
    let edges = whole["edges"].as_array().expect("a list");
    let of = |client: &str| edges.iter().find(|edge| edge["client"] == client).expect("there");
    assert_eq!(counts(&of("web")["network"]), json!([3, 1, 6]));
    assert_eq!(of("web")["network"].get("steps"), None);
    assert_eq!(of("cart").get("network"), None, "no kernel saw its statements");
    let query = "%7B%20span.spanwise.retransmits%20%3E%202%20%26%26%20kind%20%3D%20client%20%7D";
    let (status, found) = api.other(&format!("/tempo/api/search?q={query}")).await;
    assert_eq!((status, found["traces"].as_array().map(Vec::len)), (StatusCode::OK, Some(1)));
    let refused = api.refused("graph?steps=3", StatusCode::BAD_REQUEST).await;
    assert!(refused.contains("`service`"), "{refused}");
    api.refused("graph?service=web&steps=5000", StatusCode::BAD_REQUEST).await;
}
