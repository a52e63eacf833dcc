//! Lists: their orders, what they cover, and that they agree with the traces' own pages.

use super::*;

/// An SDK's span of the trace with this number.
fn app(trace: u8, number: u64, parent: u64, start: i64, ms: i64) -> Span {
    let mut span = span(number, Capture::App, "shop", "work", start, ms);
    (span.trace_id, span.parent_span_id) = (Some(TraceId([trace; 16])), SpanId::from_u64(parent));
    span.kind = Kind::Internal;
    span
}

async fn traces(api: &Api, search: &str) -> (Vec<String>, Value) {
    let answer = api.get(&format!("search?{search}")).await;
    let ids = answer["traces"].as_array().expect("a list").iter();
    let ids = ids.map(|trace| trace["trace_id"].as_str().expect("an id")[..2].to_owned());
    (ids.collect(), answer)
}

/// Older traces that are slower, larger and have more errors than 300 newer ones.
async fn unequal() -> Api {
    let api = Api::empty().await;
    let start = now() - 600_000 * MS;
    let mut spans = Vec::new();
    // aa: the slowest, because of work after its root.
    spans.push(app(0xaa, 1, 0, start, 5));
    spans.push(app(0xaa, 2, 1, start + MS, 900));
    // bb: the largest.
    spans.push(app(0xbb, 10, 0, start + 2 * MS, 40));
    spans.extend((11..40).map(|number| app(0xbb, number, 10, start + 3 * MS, 1)));
    // cc: the most errors.
    spans.push(app(0xcc, 50, 0, start + 4 * MS, 50));
    for number in 51..55 {
        let mut failed = app(0xcc, number, 50, start + 5 * MS, 2);
        (failed.status, failed.error) = (Status::Error, Some("boom".into()));
        spans.push(failed);
    }
    // dd: one error, and the slowest failed trace.
    let mut failed = app(0xdd, 60, 0, start + 6 * MS, 700);
    failed.status = Status::Error;
    failed.service = "other".into();
    spans.push(failed);
    api.add(&spans).await;
    let newer: Vec<Span> = (0..300_u16)
        .map(|n| {
            let mut span = app(1, 1_000 + u64::from(n), 0, now() - (5_000 - i64::from(n)) * MS, 10);
            let [high, low] = n.to_be_bytes();
            span.trace_id = Some(TraceId([0x11, high, low, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]));
            span
        })
        .collect();
    api.add(&newer).await;
    api
}

#[tokio::test]
async fn orders_are_of_all_traces_of_the_time() {
    let api = unequal().await;
    for (search, expected) in [
        ("sort=slowest&limit=4", ["aa", "dd", "cc", "bb"].as_slice()),
        ("sort=errors&limit=2", &["cc", "dd"]),
        ("sort=largest&limit=3", &["bb", "cc", "aa"]),
        ("sort=slowest&limit=2&status=error", &["dd", "cc"]),
        ("sort=slowest&limit=2&status=ok", &["aa", "bb"]),
        // Durations of the named span.
        ("sort=slowest&limit=2&service=other", &["dd"]),
        ("sort=errors&limit=2&service=shop", &["cc", "11"]),
        ("sort=largest&service=other", &["dd"]),
        ("sort=slowest&limit=2&max_duration=100ms", &["cc", "bb"]),
        ("sort=newest&limit=1", &["11"]),
    ] {
        let (found, answer) = traces(&api, search).await;
        assert_eq!(found, expected, "{search}");
        let sort = search[5..].split('&').next().expect("an order");
        assert_eq!((&answer["sort"], &answer["covered"]["complete"]), (&json!(sort), &json!(true)));
        if sort != "newest" {
            assert_eq!(answer["older_end_unix_nano"], json!(null));
            assert_eq!(answer["covered"]["start_unix_nano"], answer["searched"]["start_unix_nano"]);
        }
    }
    // Traces without errors follow those with errors.
    let (found, _) = traces(&api, "sort=errors&limit=500").await;
    assert_eq!((found.len(), found[0].as_str(), found[1].as_str()), (304, "cc", "dd"));
    // A list of the newest traces only covers part of the time range.
    let (_, answer) = traces(&api, "limit=10").await;
    let older: i64 = answer["older_end_unix_nano"].as_str().expect("more").parse().expect("digits");
    let from: i64 =
        answer["covered"]["start_unix_nano"].as_str().expect("a text").parse().expect("digits");
    assert_eq!((from, &answer["covered"]["complete"]), (older - 1, &json!(true)));
}

#[tokio::test]
async fn a_parent_that_comes_late_makes_one_tree_of_what_was_incomplete() {
    let api = Api::empty().await;
    let start = now() - 80_000 * MS;
    api.add(&[app(0xaa, 2, 1, start + MS, 20)]).await;
    let id = TraceId([0xaa; 16]);
    let complete = async |expected: bool, count: usize| {
        let list = api.get("search").await;
        assert_eq!(list["traces"].as_array().expect("a list").len(), 1);
        let page = api.get(&format!("traces/{id}")).await;
        for (what, complete, spans) in [
            ("list", &list["traces"][0]["complete"], &list["traces"][0]["spans"]),
            ("page", &page["complete"], &page["span_count"]),
        ] {
            assert_eq!((complete, spans), (&json!(expected), &json!(count)), "{what}");
        }
        (list, page)
    };
    complete(false, 1).await;
    // The assembly window has forgotten the child.
    api.add(&[app(0xaa, 1, 0, start, 75_000)]).await;
    let (list, page) = complete(true, 2).await;
    assert_eq!(page["roots"], json!(["0000000000000001"]));
    assert_eq!(list["traces"][0]["duration_nano"], page["duration_nano"]);
    assert_eq!(list["traces"][0]["root"]["operation"], "work");
}

#[tokio::test]
async fn a_list_joins_what_came_too_late_to_be_one_trace() {
    let api = Api::empty().await;
    let spans = request(100, now() - 50 * MS, 20, false);
    // The request for the service's own call arrives later.
    let mut called = spans[2..].to_vec();
    called[0].parent_span_id = Some(spans[1].span_id);
    called[0].trace_id = Some(HEADER_TRACE);
    api.add(&called).await;
    api.add(&spans[..2]).await;
    let list = api.get("search").await;
    let page = api.get("traces/0000000000000067").await;
    assert_eq!((&page["span_count"], &page["complete"]), (&json!(4), &json!(true)), "{page}");
    let joined =
        list["traces"].as_array().expect("a list").iter().find(|trace| trace["spans"] == 4);
    let joined = joined.unwrap_or_else(|| panic!("{list}"));
    assert_eq!((&joined["trace_id"], &joined["complete"]), (&page["trace_id"], &json!(true)));
}

#[tokio::test]
async fn what_was_sent_twice_counts_once() {
    let api = Api::empty().await;
    let spans = [app(0xaa, 1, 0, now() - 30 * MS, 20), app(0xaa, 2, 1, now() - 20 * MS, 5)];
    api.add(&spans).await;
    let again = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
    let again = api.store.append(again.into(), None).await.expect("taken");
    assert!(matches!(again, Appended::Duplicate), "{again:?}");
    // A faulty program repeats ids. It is another span, in the list and on the page.
    let other = app(0xaa, 2, 1, now() - 10 * MS, 5);
    api.add(&[other]).await;
    let list = api.get("search").await;
    let page = api.get(&format!("traces/{}", TraceId([0xaa; 16]))).await;
    assert_eq!((&list["traces"][0]["spans"], &page["span_count"]), (&json!(3), &json!(3)));
}

#[tokio::test]
async fn who_finds_nothing_is_told_what_is_true() {
    let api = Api::empty().await;
    let advice = async |search: &str| {
        let answer = api.get(&format!("search?{search}")).await;
        assert_eq!(answer["traces"], json!([]), "{search}");
        answer["advice"].to_string()
    };
    assert!(advice("").await.contains("no spans are stored yet"));
    let mut old = app(0xaa, 1, 0, now() - 7_200_000 * MS, 5);
    old.attributes = vec![("old".into(), "yes".into())];
    let mut new = app(0xbb, 2, 0, now() - 5 * MS, 5);
    new.attributes = vec![("color".into(), "red".into()), ("old".into(), "no".into())];
    api.add(&[old, new]).await;
    let no_key = advice("attribute=colour%3Dred").await;
    assert!(no_key.contains("no span of this time has an attribute `colour`"), "{no_key}");
    assert!(!no_key.contains("further back"), "{no_key}");
    let further = advice("attribute=old%3Dyes").await;
    assert!(further.contains("`old` that is so") && further.contains("further back"), "{further}");
    let service = advice("service=nobody").await;
    assert!(service.contains("has this service") && !service.contains("further"), "{service}");
    let both = advice("service=shop&attribute=color%3Dred&attribute=old%3Dyes").await;
    assert!(!both.contains("has this service"), "{both}");
    // Stored, but not assigned to its trace yet.
    api.append(&[app(0xcc, 3, 0, now() - 5 * MS, 5)]).await;
    let fresh = advice("operation=work&attribute=%21color").await;
    assert!(fresh.contains("came just now") && !fresh.contains("by none"), "{fresh}");
    let empty = advice("start=-2m&end=-1m").await;
    assert!(empty.contains("no span at all") && empty.contains("further back"), "{empty}");
}
