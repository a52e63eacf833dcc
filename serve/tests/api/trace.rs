//! One trace, by its ids and in pages.

use std::io::Read;

use super::*;

#[tokio::test]
async fn a_trace_comes_in_pages() {
    let api = Api::shop().await;
    let path = format!("traces/{HEADER_TRACE}");
    let whole = api.get(&path).await;
    assert_eq!((&whole["span_count"], &whole["next_after"]), (&json!(4), &json!(null)));
    let (mut spans, mut roots, mut after) = (Vec::new(), Vec::new(), Some(0));
    while let Some(from) = after {
        let page = api.get(&format!("{path}?limit=3&after={from}")).await;
        for same in ["trace_id", "start_unix_nano", "duration_nano", "services", "warnings"] {
            assert_eq!(page[same], whole[same], "is said of the whole trace");
        }
        spans.extend(page["spans"].as_array().expect("a list").clone());
        roots.extend(page["roots"].as_array().expect("a list").clone());
        after = page["next_after"].as_u64();
        assert_eq!(after, (from == 0).then_some(3));
    }
    assert_eq!((json!(spans), json!(roots)), (whole["spans"].clone(), whole["roots"].clone()));
    let beyond = api.get(&format!("{path}?after=99")).await;
    assert_eq!((&beyond["spans"], &beyond["next_after"]), (&json!([]), &json!(null)));
}

#[tokio::test]
async fn pages_are_of_one_tree_and_say_where_they_are_not() {
    let api = Api::shop().await;
    let path = format!("traces/{HEADER_TRACE}");
    let first = api.get(&format!("{path}?limit=2")).await;
    let snapshot = first["snapshot"].as_str().expect("a text");
    let next = format!("{path}?limit=2&after=2&snapshot={snapshot}");
    let second = api.get(&next).await;
    for same in ["snapshot", "warnings"] {
        assert_eq!(second[same], first[same]);
    }

    // A span arrives. Paging continues with the old tree, while a new request gets the new one.
    let mut late = span(999, Capture::App, "late", "comes", now(), 1);
    late.trace_id = Some(HEADER_TRACE);
    api.add(&[late]).await;
    assert_eq!(api.get(&next).await, second);
    let anew = api.get(&format!("{path}?limit=2")).await;
    assert_eq!((&first["span_count"], &anew["span_count"]), (&json!(4), &json!(5)));
    assert_ne!(anew["snapshot"], first["snapshot"]);
    let plain = api.get(&format!("{path}?limit=2&after=2")).await;
    assert_eq!(plain["span_count"], json!(5), "who names no tree is shown what there is");

    // A tree that is not cached any more is not confused with the current one.
    let other = api.get(&format!("{path}?limit=2&after=2&snapshot=0123")).await;
    assert_eq!(other["span_count"], json!(5));
    let warnings = other["warnings"].to_string();
    assert!(warnings.contains("has changed"), "{warnings}");
    let right = anew["snapshot"].as_str().expect("a text");
    let same = api.get(&format!("{path}?limit=3&after=2&snapshot={right}")).await;
    assert!(!same["warnings"].to_string().contains("has changed"), "{same}");

    // Deleted spans are not shown in any tree.
    let deletion = Request::delete("/api/v1/services/late").body(Body::empty());
    assert_eq!(api.ask(deletion.expect("a request")).await.0, StatusCode::OK);
    for snapshot in [snapshot, right] {
        let page = api.get(&format!("{path}?limit=2&after=2&snapshot={snapshot}")).await;
        assert_eq!(page["span_count"], json!(4));
        let warned = page["warnings"].to_string().contains("has changed");
        assert_eq!(warned, snapshot == right, "four spans are the tree that was first");
    }
}

#[tokio::test]
async fn a_trace_by_any_of_its_ids() {
    let api = Api::shop().await;
    let by_header = api.get(&format!("traces/{HEADER_TRACE}")).await;
    assert_eq!(by_header, api.get("traces/000000000000012f").await, "span 303");
    let spans = by_header["spans"].as_array().expect("a list");
    let shape: Vec<_> = spans
        .iter()
        .map(|span| {
            (span["span_id"].as_str().expect("text"), span["parent"].as_str(), &span["depth"])
        })
        .collect();
    assert_eq!(
        shape,
        [
            ("000000000000012c", None, &json!(0)),
            ("000000000000012d", Some("000000000000012c"), &json!(1)),
            ("000000000000012e", Some("000000000000012d"), &json!(2)),
            ("000000000000012f", Some("000000000000012e"), &json!(3)),
        ]
    );
    assert_eq!(by_header["roots"], json!(["000000000000012c"]));
    assert_eq!(spans[1]["children"], json!(["000000000000012e"]));
    assert_eq!(spans[2]["evidence"], "tcp_sequence");
    assert_eq!(spans[2]["confidence"], 1.0);
    assert_eq!(spans[2]["self_nano"], (15 * MS).to_string());
    assert_eq!(spans[3]["evidence"], "sole_request");
    assert_eq!(spans[3]["error"], "23505");
    assert_eq!(spans[3].get("trace_state"), None, "nulls are left out");
    assert_eq!(
        spans[2]["attributes"],
        json!([
            {"key": "url.path", "type": "string", "value": "/cart"},
            {"key": "big", "type": "int", "value": i64::MAX.to_string()},
        ])
    );
    // The caller's span, which the header names, is missing.
    let warning = by_header["warnings"][0].as_str().expect("a text");
    assert!(warning.contains("00000000000003e7"), "{warning}");

    let detail = api.refused(&format!("traces/{}", TraceId([1; 16])), StatusCode::NOT_FOUND).await;
    assert!(detail.contains("retention"), "{detail}");
}

#[tokio::test]
async fn rows_that_nothing_has_assembled_are_joined_when_asked_for() {
    let api = Api::empty().await;
    let spans = request(100, now(), 20, false);
    // In two batches that assembly has not seen.
    api.append(&spans[2..]).await;
    api.append(&spans[..2]).await;
    let trace = api.get("traces/0000000000000067").await;
    assert_eq!(trace["spans"].as_array().expect("a list").len(), 4);
    assert_eq!(trace["roots"], json!(["0000000000000064"]));
    let id = trace["trace_id"].as_str().expect("a text").to_owned();
    // The generated id leads back to the trace, although no row contains it.
    assert_eq!(api.get(&format!("traces/{id}")).await, trace);
}

#[tokio::test]
async fn answers_are_compressed_for_those_who_ask() {
    let api = Api::shop().await;
    let request = Request::get(format!("/api/v1/traces/{HEADER_TRACE}"))
        .header(header::ACCEPT_ENCODING, "gzip")
        .body(Body::empty())
        .expect("valid");
    let (_, headers, body) = api.ask(request).await;
    assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
    let mut text = String::new();
    flate2::read::GzDecoder::new(body.as_slice()).read_to_string(&mut text).expect("gzip");
    assert!(text.contains("tcp_sequence"));
}
