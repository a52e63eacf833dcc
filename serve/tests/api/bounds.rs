//! Queries that are made to hurt end in an error that says why, on every surface.

use super::tempo::encoded;
use super::*;

/// What is wrong with each, as its error says.
async fn refused(api: &Api, path: &str, query: &str, why: &str) {
    let path = format!("{path}{}", encoded(query));
    let request = Request::get(&path).body(Body::empty()).expect("valid");
    let (status, _, body) = api.ask_bare(request).await;
    let body = String::from_utf8_lossy(&body).into_owned();
    let begin: String = path.chars().take(120).collect();
    assert_eq!(status, StatusCode::BAD_REQUEST, "{begin}: {body}");
    assert!(body.contains(why), "{begin}: {body}");
    assert!(body.len() < 1_000, "an error is short: {begin}: {} bytes", body.len());
}

fn many(count: usize, separator: &str, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(separator)
}

#[tokio::test]
async fn queries_in_traceql_that_are_made_to_hurt_are_refused() {
    let api = Api::shop().await;
    let brackets = |count| format!("{{ {}.a = 1{} }}", "(".repeat(count), ")".repeat(count));
    let pattern = |text: &str| format!("{{ .a =~ `{text}` }}");
    let bomb = pattern("((((((a{1,100}){1,100}){1,100}){1,100}){1,100}){1,100})");
    for (query, why) in [
        (brackets(10_000), "nested more than 128 deep"),
        (format!("{}{{}}{}", "(".repeat(10_000), ")".repeat(10_000)), "nested more than 128"),
        (format!("{{ {}.a }}", "!".repeat(10_000)), "nested more than 128 deep"),
        (format!("{{ .a = {}1 }}", "-".repeat(10_000)), "nested more than 128 deep"),
        (format!("{{}}{}", " >> {}".repeat(3_000)), "nested more than 128 deep"),
        (bomb, "regular expression"),
        (pattern(&".*".repeat(3_000)), "regular expression"),
        (pattern(&"(".repeat(10_000)), "regular expression"),
        (format!("{{}} {}", "| select(.a) ".repeat(500)), "100"),
        (format!("{{ {} }}", many(300, "||", |_| ".a =~ `x.`".to_owned())), "100"),
    ] {
        refused(&api, "/tempo/api/search?q=", &query, why).await;
        let metrics = format!("{query} | rate()");
        refused(&api, "/tempo/api/metrics/query_range?q=", &metrics, "").await;
        refused(&api, "/tempo/api/metrics/query?q=", &metrics, "").await;
        // It may be half typed, so nothing of it is an error.
        for path in ["tags", "tag/name/values"] {
            let path = format!("/tempo/api/v2/search/{path}?q={}", encoded(&query));
            let request = Request::get(&path).body(Body::empty()).expect("valid");
            assert_eq!(api.ask_bare(request).await.0, StatusCode::OK);
        }
    }
}

#[tokio::test]
async fn searches_with_too_many_parts_are_refused() {
    let api = Api::shop().await;
    let tags = |count, separator| many(count, separator, |n| format!("k{n}=v"));
    refused(&api, "/tempo/api/search?tags=", &tags(500, " "), "at most 64").await;
    let zipkin = "/zipkin/api/v2/traces?annotationQuery=";
    refused(&api, zipkin, &tags(500, " and "), "more than 32 parts").await;
    let jaeger = "/jaeger/api/traces?service=cart";
    let many_tags = many(500, "&", |n| format!("tag=k{n}:v"));
    refused(&api, &format!("{jaeger}&{many_tags}"), "", "more than 32 tags").await;
    let object = |members: String| format!("{{{members}}}");
    let members = object(many(500, ",", |n| format!(r#""k{n}":"v""#)));
    let deep = object(format!(r#""k":{}{}"#, "[".repeat(10_000), "]".repeat(10_000)));
    refused(&api, &format!("{jaeger}&tags="), &members, "more than 32 tags").await;
    refused(&api, &format!("{jaeger}&tags="), &deep, "recursion limit").await;
    let v3 = "/jaeger/api/v3/traces?query.service_name=cart&query.start_time_min=2026-01-01T00:00:00Z\
              &query.start_time_max=2026-12-31T00:00:00Z&query.attributes=";
    refused(&api, v3, &members, "more than 32 tags").await;
    refused(&api, v3, &deep, "recursion limit").await;
    let conditions = many(500, "&", |n| format!("attribute=k{n}"));
    refused(&api, &format!("/api/v1/search?{conditions}"), "", "16 are taken").await;
}

#[tokio::test]
async fn statements_that_are_made_to_hurt_are_refused() {
    let api = Api::shop().await;
    for statement in [
        format!("SELECT '{}'", "x".repeat(1 << 20)),
        format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("SELECT {}true", "NOT ".repeat(10_000)),
    ] {
        let request = Request::post("/api/v1/sql")
            .header("Spanwise-Request", "test")
            .header(header::CONTENT_TYPE, "text/plain")
            .body(Body::from(statement))
            .expect("valid");
        let (status, _, body) = api.ask_bare(request).await;
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(matches!(status.as_u16(), 400 | 413), "{status}: {body}");
        assert!(body.contains("detail") && body.len() < 1_000, "{body}");
    }
}
