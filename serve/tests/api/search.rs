//! Searches for traces.

use super::*;

#[tokio::test]
async fn search_by_everything() {
    let api = Api::shop().await;
    assert_eq!(api.found("").await, [-20, 300, 20], "newest first");
    assert_eq!(api.found("limit=2").await, [-20, 300]);
    assert_eq!(api.found("service=cart").await.len(), 3);
    assert_eq!(api.found("service=nobody").await.len(), 0);
    assert_eq!(api.found("operation=SELECT&service=cart").await.len(), 3);
    assert_eq!(api.found("status=error").await, [-20]);
    assert_eq!(api.found("status=ok").await, [300, 20]);
    assert_eq!(api.found("status=ok&service=cart&limit=1").await, [300]);
    // Applies to the trace if no span is named, else to the span.
    assert_eq!(api.found("min_duration=100ms").await, [300]);
    assert_eq!(api.found("max_duration=0.1s").await, [-20, 20]);
    assert_eq!(api.found("status=error&min_duration=15ms").await, [-20]);
    assert_eq!(api.found("operation=SELECT&min_duration=15ms").await.len(), 0);
    assert_eq!(api.found("attribute=url.path%3D%2Fcart").await.len(), 3);
    assert_eq!(api.found("attribute=url.path%3D%2Fcart&attribute=url.path%3D%2Fx").await.len(), 0);
    assert_eq!(api.found("start=-2h&end=-1h").await.len(), 0);

    let answer = api.get("search?status=error").await;
    let trace = &answer["traces"][0];
    assert_eq!(trace["trace_id"], HEADER_TRACE.to_string());
    assert_eq!(
        trace["root"],
        json!({"service": "web", "operation": "GET /", "kind": "server", "capture": "server-process"})
    );
    assert_eq!((&trace["spans"], &trace["errors"]), (&json!(4), &json!(1)));
    assert_eq!(trace["protocols"], json!(["http", "postgresql"]));
    assert_eq!((&trace["uncertain_links"], &trace["doubtful"]), (&json!(1), &json!(false)));
    assert_eq!(trace["complete"], false, "the caller's span, which the header names, is not here");
    assert_eq!(
        trace["error"],
        json!({"service": "cart", "operation": "SELECT", "status_code": null, "text": "23505",
               "side": "client"})
    );
    assert_eq!(answer["older_end_unix_nano"], json!(null));
}

#[tokio::test]
async fn a_search_goes_on_where_the_last_answer_stopped() {
    let api = Api::empty().await;
    let start = now() - 60_000 * MS;
    for number in 1..=12u32 {
        let mut spans =
            request(u64::from(number) * 100, start + i64::from(number) * MS, 20, number % 4 == 0);
        if number % 3 == 0 {
            // Another host's clock is wrong: the trace begins before rows of older traces.
            spans[3].start_unix_nano -= 7 * MS;
        }
        api.add(&spans).await;
    }
    for (search, all) in
        [("limit=1", 12), ("limit=2", 12), ("limit=5", 12), ("limit=2&status=ok", 9)]
    {
        let (mut found, mut end) = (std::collections::BTreeSet::new(), "now".to_owned());
        for _ in 0..40 {
            let answer = api.get(&format!("search?{search}&end={end}")).await;
            let traces = answer["traces"].as_array().expect("a list").iter();
            found.extend(traces.map(|trace| trace["trace_id"].to_string()));
            match answer["older_end_unix_nano"].as_str() {
                Some(older) => end = older.to_owned(),
                None => break,
            }
        }
        assert_eq!(found.len(), all, "{search}");
    }
}

#[tokio::test]
async fn an_answer_says_when_it_passes_over_company_of_one_nanosecond() {
    let api = Api::empty().await;
    let start = now() - 60_000 * MS;
    for number in 1..=12u64 {
        api.add(&[span(number * 100, Capture::ServerProcess, "web", "GET /", start, 20)]).await;
    }
    let older = |answer: &serde_json::Value| {
        answer["older_end_unix_nano"].as_str().expect("more").to_owned()
    };
    let first = api.get("search?limit=5").await;
    assert_eq!(first["covered"]["complete"], true, "it goes on with the same nanosecond");
    let second = api.get(&format!("search?limit=5&end={}", older(&first))).await;
    assert_eq!(second["covered"]["complete"], false);
    let warning = second["warnings"][0].as_str().expect("a warning");
    assert!(
        warning.contains("the very same nanosecond") && warning.contains("`limit`"),
        "{warning}"
    );
    // Paging ends anyway, and with a sufficient limit nothing is skipped.
    let third = api.get(&format!("search?limit=5&end={}", older(&second))).await;
    assert_eq!((&third["older_end_unix_nano"], &third["traces"]), (&json!(null), &json!([])));
    let all = api.get("search?limit=20").await;
    assert_eq!((all["traces"].as_array().map(Vec::len), &all["warnings"]), (Some(12), &json!([])));
}

/// All traces of an answer in lines, and what follows them.
async fn lines(api: &Api, search: &str) -> (Vec<String>, Value) {
    let request = Request::get(format!("/api/v1/search?{search}"))
        .header(header::ACCEPT, "application/x-ndjson, */*")
        .body(Body::empty())
        .expect("valid");
    let (status, headers, body) = api.ask_bare(request).await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
    assert_eq!(headers[header::CONTENT_TYPE], "application/x-ndjson");
    let text = String::from_utf8(body).expect("text");
    assert!(text.ends_with('\n'), "{text}");
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in &lines {
        serde_json::from_value::<spanwise_api::SearchLine>(line.clone()).expect("a line");
    }
    let end = lines.pop().expect("an end")["end"].take();
    let ids = lines.iter().map(|line| line["trace"]["trace_id"].to_string()).collect();
    (ids, end)
}

#[tokio::test]
async fn cursors_lead_through_all_traces_and_lines_bring_them_at_once() {
    for step_ms in [1, 0] {
        let api = Api::empty().await;
        let start = now() - 60_000 * MS;
        for number in 1..=250u64 {
            let at = start + number as i64 * step_ms * MS;
            api.add(&[span(number * 100, Capture::ServerProcess, "web", "GET /", at, 20)]).await;
        }
        for (limit, most) in [(20, 13), (100, 3), (500, 1)] {
            let (mut found, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
            loop {
                let answer = api.get(&format!("search?limit={limit}&cursor={cursor}")).await;
                let traces = answer["traces"].as_array().expect("a list").iter();
                found.extend(traces.map(|trace| trace["trace_id"].to_string()));
                pages += 1;
                let Some(next) = answer["next_cursor"].as_str() else { break };
                cursor = next.to_owned();
            }
            let distinct: std::collections::BTreeSet<_> = found.iter().collect();
            // So many of one nanosecond that a cursor does not name them all.
            let lost = if step_ms == 0 && limit < 250 { 250 - distinct.len() } else { 0 };
            assert!(lost <= 50, "{lost} of them were lost");
            assert_eq!((distinct.len() + lost, found.len() + lost), (250, 250), "{limit}");
            assert!(pages <= most + 1, "{pages} pages of {limit}");
        }
        if step_ms == 0 {
            continue;
        }
        let (found, end) = lines(&api, "limit=100000").await;
        assert_eq!((found.len(), &end["traces"]), (250, &json!(250)));
        assert_eq!((&end["next_cursor"], &end["warnings"]), (&json!(null), &json!([])));
        let (first, end) = lines(&api, "limit=130").await;
        let cursor = end["next_cursor"].as_str().expect("there are more");
        let (rest, end) = lines(&api, &format!("limit=130&cursor={cursor}")).await;
        assert_eq!(([first, rest].concat(), &end["next_cursor"]), (found, &json!(null)));
        let (slowest, _) = lines(&api, "sort=slowest&limit=7").await;
        assert_eq!(slowest.len(), 7);
        let (none, end) = lines(&api, "service=nobody").await;
        assert_eq!((none.len(), end["advice"].as_array().map(Vec::len)), (0, Some(1)));
    }
}

#[tokio::test]
async fn a_cursor_of_no_answer_is_refused() {
    let api = Api::shop().await;
    for path in [
        "search?cursor=x",
        "search?cursor=1:xyz",
        "search?cursor=1:&sort=slowest",
        "services?cursor=web",
        "operations?cursor=web",
        "attributes?cursor=-1:a",
        "attributes/values?key=url.path&cursor=a",
    ] {
        let why = api.refused(path, StatusCode::BAD_REQUEST).await;
        assert!(why.contains("`next_cursor`"), "{path}: {why}");
    }
    let first = api.get("operations?limit=1").await;
    let cursor = first["next_cursor"].as_str().expect("there are more").replace(' ', "+");
    let second = api.get(&format!("operations?limit=1&cursor={cursor}")).await;
    assert_ne!(first["operations"], second["operations"]);
}

#[tokio::test]
async fn impossible_times_break_no_answer() {
    let api = Api::shop().await;
    let mark = |span: &mut Span, fault: ClockFault| {
        span.attributes.push((ClockFault::ATTRIBUTE.into(), fault.as_str().into()));
    };
    let start = now();
    let mut spans = Vec::new();
    for (number, from, length, fault) in [
        (1001, i64::MIN, i64::MAX, ClockFault::Past),
        (1002, 0, start, ClockFault::Past),
        (1003, i64::MAX, i64::MAX, ClockFault::Future),
        (1004, start, i64::MAX, ClockFault::Future),
    ] {
        let mut span = span(number, Capture::App, "odd", "op", from, 1);
        span.duration_nano = length;
        span.trace_id = Some(TraceId([u8::try_from(number - 900).expect("small"); 16]));
        mark(&mut span, fault);
        spans.push(span);
    }
    // A span with a plausible time determines the trace's time.
    let mut right = span(1005, Capture::App, "odd", "right", start - 50 * MS, 20);
    right.trace_id = Some(TraceId([102; 16]));
    spans.push(right);
    api.add(&spans).await;
    let trace = api.get(&format!("traces/{}", TraceId([102; 16]))).await;
    assert_eq!(trace["spans"].as_array().expect("spans").len(), 2);
    assert_eq!(trace["start_unix_nano"], (start - 50 * MS).to_string());
    assert_eq!(trace["duration_nano"], (20 * MS).to_string());
    assert!(trace["warnings"][0].as_str().expect("a warning").contains("before the year 2000"));
    // Paging through all of time finds every trace, and ends.
    let mut end = i64::MAX.to_string();
    let mut found = std::collections::BTreeSet::new();
    for _ in 0..30 {
        let path = format!("search?start={}&end={end}&limit=1", i64::MIN);
        let page = api.get(&path).await;
        for trace in page["traces"].as_array().expect("a list") {
            found.insert(trace["trace_id"].as_str().expect("an id").to_owned());
        }
        match page["older_end_unix_nano"].as_str() {
            Some(older) => end = older.to_owned(),
            None => break,
        }
    }
    assert_eq!(found.len(), 3 + 4, "{found:?}");
    api.get("graph").await;
    api.get("services").await;
}
