//! SQL in every format.

use super::*;

#[tokio::test]
async fn sql_by_get_and_post() {
    let api = Api::shop().await;
    let query = "SELECT service, count(*) AS n FROM spans GROUP BY service ORDER BY service";
    let post = Request::post("/api/v1/sql")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(json!({ "query": query }).to_string()))
        .expect("valid");
    let (status, _, body) = api.ask(post).await;
    assert_eq!(status, StatusCode::OK);
    let posted: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(posted["rows"], json!([["cart", 6], ["web", 6]]));
    assert_eq!(posted["columns"][1]["name"], "n");
    let got = api.get(&format!("sql?query={}", query.replace(' ', "+").replace('=', "%3D"))).await;
    assert_eq!(got["rows"], posted["rows"]);
}

#[tokio::test]
async fn sql_in_every_format() {
    let api = Api::shop().await;
    let query = "SELECT service, count(*) AS n FROM spans GROUP BY service ORDER BY service";
    let post = |path: &str, kind: &'static str, accept: &'static str, body: String| {
        let request = Request::post(format!("/api/v1/sql{path}"))
            .header(header::CONTENT_TYPE, kind)
            .header(header::ACCEPT, accept)
            .body(Body::from(body))
            .expect("valid");
        api.ask(request)
    };
    let (status, headers, body) = post("", "text/plain", "text/csv", query.to_owned()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CONTENT_TYPE], "text/csv; charset=utf-8; header=present");
    assert_eq!(String::from_utf8_lossy(&body), "service,n\r\ncart,6\r\nweb,6\r\n");
    let (_, headers, body) =
        post("?format=table", "application/json", "*/*", json!({"query": query}).to_string()).await;
    assert_eq!(headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    assert_eq!(String::from_utf8_lossy(&body), "service  n\ncart     6\nweb      6\n(2 rows)\n");

    let whole = json!({"query": "SELECT * FROM spans ORDER BY span_id", "format": "arrow"});
    let (status, headers, body) = post("", "application/json", "*/*", whole.to_string()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CONTENT_TYPE], "application/vnd.apache.arrow.stream");
    let reader = arrow::ipc::reader::StreamReader::try_new(body.as_slice(), None).expect("Arrow");
    assert_eq!(reader.schema().fields(), spanwise_model::schema::span_schema().fields());
    let rows: usize = reader.map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(rows, 12);

    let many = "SELECT a.span_id FROM spans a, spans b, spans c, spans d";
    let (_, headers, body) =
        post("", "application/json", "*/*", json!({"query": many}).to_string()).await;
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(answer["rows"].as_array().expect("rows").len(), 10_000);
    assert_eq!(
        (&answer["truncated"], &headers["spanwise-truncated-rows"]),
        (&json!(true), &"10000".parse().expect("a value"))
    );
    let (_, headers, body) = post("?format=csv", "text/plain", "*/*", many.to_owned()).await;
    assert!(!headers.contains_key("spanwise-truncated-rows"));
    assert_eq!(body.iter().filter(|byte| **byte == b'\n').count(), 12 * 12 * 12 * 12 + 1);

    for (path, kind, body, said) in [
        ("?format=xml", "text/plain", query, "json, csv, arrow or table"),
        ("?fromat=csv", "text/plain", query, "no parameter `fromat`"),
        ("", "application/json", "", "there is no statement"),
        ("", "application/json", "{\"qurey\": \"\"}", "unknown field `qurey`"),
        ("", "text/plain", " ", "there is no statement"),
        ("", "text/plain", "DROP TABLE spans", "One SELECT"),
    ] {
        let (status, _, answer) = post(path, kind, "*/*", body.to_owned()).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {body}: {answer}");
        assert!(answer.contains(said), "{path} {body}: {answer}");
    }
}

#[tokio::test]
async fn sql_answers_are_bounded_in_bytes_in_every_format() {
    const MOST: usize = spanwise_store::MAX_ANSWER_BYTES;
    let api = Api::shop().await;
    let ask = |format: &str, query: &str| {
        let request = Request::post(format!("/api/v1/sql?format={format}"))
            .header(header::CONTENT_TYPE, "text/plain")
            .body(Body::from(query.to_owned()))
            .expect("valid");
        api.ask(request)
    };
    // Twenty rows of three megabytes. As JSON, each takes six times as much.
    let query = "SELECT repeat(chr(1), 3000000) AS t FROM spans a, spans b LIMIT 20";
    let (status, headers, body) = ask("json", query).await;
    assert_eq!(
        (status, &headers["spanwise-truncated-rows"]),
        (StatusCode::OK, &"3".parse().unwrap())
    );
    assert!(body.len() <= MOST + 1024, "{}", body.len());
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (answer["rows"].as_array().expect("rows").len(), &answer["truncated"]),
        (3, &json!(true))
    );
    let (_, headers, body) = ask("csv", query).await;
    assert!(!headers.contains_key("spanwise-truncated-rows"), "all of it has room");
    assert_eq!(body.len(), 3 + 20 * 3_000_002);
    let more = "SELECT repeat('x', 3000000) AS t FROM spans a, spans b";
    for format in ["csv", "arrow"] {
        let (_, headers, body) = ask(format, more).await;
        let rows: usize = headers["spanwise-truncated-rows"].to_str().unwrap().parse().unwrap();
        assert!((10..=22).contains(&rows) && body.len() <= MOST + 1024, "{format}: {rows}");
    }
    // Many columns of nulls take many bytes as text.
    let nulls: Vec<String> = (0..2_000).map(|n| format!("NULL AS n{n}")).collect();
    let query = format!("SELECT {} FROM spans a, spans b, spans c, spans d", nulls.join(", "));
    let (status, headers, body) = ask("table", &query).await;
    assert_eq!(status, StatusCode::OK);
    let rows: usize = headers["spanwise-truncated-rows"].to_str().unwrap().parse().unwrap();
    assert!((100..10_000).contains(&rows) && body.len() <= MOST + 1024, "{rows}");
    let (_, _, body) = ask("table", "EXPLAIN SELECT service FROM spans").await;
    let plan = String::from_utf8(body).expect("text");
    assert!(plan.contains("TableScan: spans projection=[service]\n"), "{plan}");
}

#[tokio::test]
async fn every_analysis_is_a_table_function() {
    let api = Api::shop().await;
    let rows = async |statement: &str| {
        let request = Request::post("/api/v1/sql")
            .header(header::CONTENT_TYPE, "text/plain")
            .body(Body::from(statement.to_owned()))
            .expect("valid");
        let (status, _, body) = api.ask(request).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status, StatusCode::OK, "{statement}: {text}");
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        answer["rows"].clone()
    };
    // The same as the endpoint's answer. The third request has a parent that is missing.
    let chains = api.get("chains?service=cart").await;
    let first = &chains["chains"][0];
    let found = rows("SELECT id, runs, p95_nano, failed_trace FROM chains('cart')").await;
    let p95: i64 = first["p95_nano"].as_str().expect("digits").parse().expect("a number");
    assert_eq!(found[0][0], first["id"]);
    assert_eq!((&found[0][1], &found[0][3]), (&first["runs"], &first["failed_trace"]));
    assert_eq!(found[0][2].as_i64().or_else(|| found[0][2].as_str()?.parse().ok()), Some(p95));
    assert_eq!(
        rows(
            "SELECT caller_service, called_service, calls, errors FROM depends() \
              ORDER BY caller_service DESC"
        )
        .await,
        json!([["web", "cart", 2, 0], ["cart", "postgresql", 2, 0]])
    );
    assert_eq!(rows("SELECT service, runs FROM entrances()").await, json!([["web", 2]]));
    assert_eq!(
        rows("SELECT relation, service, distance FROM sources('cart') ORDER BY relation").await,
        json!([["called", "postgresql", 1], ["callers", "web", 1]])
    );
    assert_eq!(
        rows("SELECT kind, count(*) > 0 FROM bottlenecks() WHERE kind = 'shares' GROUP BY kind")
            .await,
        json!([["shares", true]])
    );
    let factor = "SELECT round(predicted_per_second / now_per_second, 6) AS factor FROM \
                  capacity('web=3x') WHERE level = 'services' AND service = 'cart'";
    assert_eq!(rows(factor).await, json!([[3.0]]));
    // Two minutes of a quiet shop have no suspect, and the columns are there.
    assert_eq!(rows("SELECT service, score FROM cause('start=-1m')").await, json!([]));
    // They join with spans.
    let joined = "SELECT DISTINCT s.service FROM chains() c JOIN spans s ON \
                  encode(s.assembled_trace_id, 'hex') = c.slow_trace ORDER BY s.service";
    assert_eq!(rows(joined).await, json!([["cart"], ["web"]]));

    for (statement, said) in [
        ("SELECT * FROM sources()", "`service` is missing"),
        ("SELECT * FROM chains('start=soon')", "`start` is `soon`"),
        ("SELECT * FROM capacity('web')", "write `SERVICE=3x`"),
        ("SELECT * FROM entrances('web')", "name the parameter"),
        ("SELECT * FROM chains(1.5)", "chains takes texts"),
        ("SELECT * FROM chain()", "chain"),
    ] {
        let request = Request::post("/api/v1/sql")
            .header(header::CONTENT_TYPE, "text/plain")
            .body(Body::from(statement.to_owned()))
            .expect("valid");
        let (status, _, body) = api.ask(request).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{statement}: {text}");
        assert!(text.contains(said), "{statement}: {text}");
    }
}
