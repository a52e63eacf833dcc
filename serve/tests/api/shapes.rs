//! Responses have the types of `spanwise-api`, from which the UI's types and the reference are
//! generated.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use spanwise_api as api;
use spanwise_api::endpoints::{self, Endpoint, Method};

use super::*;

/// The parsed response. It must match the type exactly.
async fn answer<T: DeserializeOwned + Serialize + Debug>(api: &Api, path: &str) -> T {
    let answer = api.get(path).await;
    let typed: T = serde_json::from_value(answer.clone()).expect(path);
    // Compared as text, because converting 32-bit floats in memory changes them.
    let written = serde_json::to_string(&typed).expect("JSON");
    assert_eq!(serde_json::from_str::<Value>(&written).expect("JSON"), answer, "{path}");
    typed
}

#[tokio::test]
async fn every_answer_is_what_its_type_says() {
    let api = Api::shop().await;
    let found: api::SearchAnswer = answer(&api, "search").await;
    assert_eq!(found.traces.len(), 3);
    let trace: api::TracePage = answer(&api, &format!("traces/{HEADER_TRACE}")).await;
    assert_eq!(trace.spans.len(), 4);
    answer::<api::SearchAnswer>(&api, "search?service=nobody").await;
    answer::<api::Services>(&api, "services").await;
    answer::<api::Operations>(&api, "operations").await;
    answer::<api::Graph>(&api, "graph").await;
    answer::<api::AttributeKeys>(&api, "attributes").await;
    answer::<api::AttributeValues>(&api, "attributes/values?key=url.path").await;
    answer::<api::SqlAnswer>(&api, "sql?query=SELECT%20*%20FROM%20spans").await;
    answer::<api::Status>(&api, "status").await;
}

#[tokio::test]
async fn every_endpoint_of_the_table_is_there() {
    let api = Api::shop().await;
    for endpoint in endpoints::ALL {
        let Endpoint { method, path, needs_header, .. } = endpoint;
        let examples: Vec<&str> =
            endpoint.path_parameters.iter().map(|parameter| parameter.example).collect();
        let query: Vec<String> = endpoint
            .parameters
            .iter()
            .filter(|parameter| parameter.required)
            .map(|parameter| format!("{}={}", parameter.name, parameter.example.replace(' ', "+")))
            .collect();
        let method = match method {
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
            Method::Delete => http::Method::DELETE,
        };
        let uri = format!("{}?{}", endpoint.url_path(&examples), query.join("&"));
        let request = || {
            let body = Body::from(json!({"query": "SELECT 1"}).to_string());
            Request::builder().method(method.clone()).uri(&uri).body(body).expect("valid")
        };
        let (status, ..) = api.ask_bare(request()).await;
        assert_eq!(status == StatusCode::FORBIDDEN, *needs_header, "{method} {path}");
        let (status, _, body) = api.ask(request()).await;
        let text = String::from_utf8_lossy(&body);
        let says_what_is_missing =
            ["is stored", "no run of this time"].iter().any(|words| text.contains(words));
        let is_there =
            status == StatusCode::OK || (status == StatusCode::NOT_FOUND && says_what_is_missing);
        assert!(is_there, "{method} {path}: {status} {text}");
    }
}

#[tokio::test]
async fn the_api_describes_itself() {
    let api = Api::empty().await;
    let document = api.get("openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    let schema = &document["components"]["schemas"]["SearchAnswer"];
    assert!(schema["properties"]["older_end_unix_nano"].is_object(), "{schema}");
}
