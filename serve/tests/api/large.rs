//! Traces with more spans than one page.

use super::*;

/// A root with many children, each with a chain of three below. Every tenth failed.
async fn large(children: u64) -> (Api, TraceId) {
    let api = Api::empty().await;
    let (id, start) = (TraceId([0xcd; 16]), now() - 1_000 * MS);
    let app = |number: u64, parent: u64| {
        let at = start + i64::try_from(number).expect("small");
        let mut span = span(number, Capture::App, "big", "work", at, 1);
        (span.trace_id, span.parent_span_id) = (Some(id), SpanId::from_u64(parent));
        span.kind = Kind::Internal;
        if number.is_multiple_of(10) {
            span.status = Status::Error;
        }
        span
    };
    let mut spans = vec![app(1, 0)];
    for child in 0..children {
        let first = 2 + child * 2;
        spans.extend([app(first, 1), app(first + 1, first)]);
    }
    api.add(&spans).await;
    (api, id)
}

#[tokio::test]
async fn totals_are_of_the_whole_trace_and_any_span_is_found() {
    let (api, id) = large(600).await;
    for page in ["limit=100", "limit=100&after=700", "around=00000000000001f5&limit=100"] {
        let page = api.get(&format!("traces/{id}?{page}")).await;
        assert_eq!((&page["span_count"], &page["error_count"]), (&json!(1_201), &json!(120)));
        assert_eq!((&page["depth"], &page["complete"]), (&json!(3), &json!(true)));
    }
    // Span 501 is at position 500, because parents are ordered by number.
    let page = api.get(&format!("traces/{id}?around=00000000000001f5&limit=100")).await;
    assert_eq!((&page["first"], &page["next_after"]), (&json!(500), &json!(600)));
    let spans = page["spans"].as_array().expect("a list");
    assert!(spans.iter().any(|span| span["span_id"] == "00000000000001f5"));
    let next = api.get(&format!("traces/{id}?after=600&limit=100")).await;
    assert_eq!(next["first"], 600);
    let path = format!("traces/{id}?around=00000000ffffffff");
    let detail = api.refused(&path, StatusCode::NOT_FOUND).await;
    assert!(detail.contains("no span 00000000ffffffff"), "{detail}");
}

#[tokio::test]
async fn a_whole_trace_is_one_document_to_be_kept() {
    let (api, id) = large(600).await;
    let get = Request::get(format!("/api/v1/traces/{id}?download=1")).body(Body::empty());
    let (status, headers, body) = api.ask(get.expect("a request")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        headers[header::CONTENT_DISPOSITION],
        format!("attachment; filename=\"trace-{id}.json\"").as_str()
    );
    let whole: Value = serde_json::from_slice(&body).expect("one document");
    assert_eq!(whole["spans"].as_array().expect("a list").len(), 1_201);
    assert_eq!((&whole["next_after"], &whole["first"]), (&json!(null), &json!(0)));
    let pages = api.get(&format!("traces/{id}?limit=2000")).await;
    assert_eq!(whole, pages);
}

#[tokio::test]
async fn answers_that_nobody_reads_take_bounded_memory_and_keep_nobody_out() {
    let (api, id) = large(1_500).await;
    let ask = |query: &str| {
        let get = Request::get(format!("/api/v1/traces/{id}?{query}")).body(Body::empty());
        let answer = api.router.clone().oneshot(get.expect("a request"));
        async move { answer.await.expect("an answer") }
    };
    let mut unread = Vec::new();
    for _ in 0..2 {
        let answer = ask("download=1").await;
        assert_eq!(answer.status(), StatusCode::OK);
        unread.push(answer);
    }
    assert_eq!(ask("download=1").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let mut bytes = 0;
    loop {
        let answer = ask("limit=20000").await;
        if answer.status() != StatusCode::OK {
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            break;
        }
        let length = answer.headers()[header::CONTENT_LENGTH].to_str().expect("digits");
        bytes += length.parse::<usize>().expect("a number");
        assert!(bytes <= 256 << 20, "{bytes}");
        unread.push(answer);
    }
    assert!(bytes > 64 << 20, "{bytes}");
    assert_eq!(ask("limit=10").await.status(), StatusCode::OK);
    unread.clear();
    assert_eq!(ask("limit=20000").await.status(), StatusCode::OK);
}
