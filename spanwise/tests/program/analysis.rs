//! Analyses of a running server: watched rules, and rollups over a crash.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::support::{Server, get, post, text};

fn now_unix_nano() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos()
}

/// Requests to `shop`, each of which asks `stock`, that began at this time.
fn requests(first: u64, count: u64, began: u128, has_failed: bool) -> String {
    let span = |number: u64, place: u64, parent: Option<u64>, kind: u64| {
        let mut span = json!({
            "traceId": format!("{number:032x}"), "spanId": format!("{:016x}", number * 8 + place),
            "name": "GET /", "kind": kind,
            "startTimeUnixNano": (began + u128::from(place)).to_string(),
            "endTimeUnixNano": (began + 20_000_000 - u128::from(place)).to_string(),
            "status": if has_failed { json!({"code": 2, "message": "no stock"}) } else { json!({}) },
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = format!("{:016x}", number * 8 + parent).into();
        }
        span
    };
    let of = |service: &str, spans: Vec<Value>| {
        json!({
            "resource": {"attributes": [
                {"key": "service.name", "value": {"stringValue": service}}
            ]},
            "scopeSpans": [{"spans": spans}],
        })
    };
    let numbers = first..first + count;
    let shop = numbers.clone().flat_map(|at| [span(at, 1, None, 2), span(at, 2, Some(1), 3)]);
    let (shop, stock) = (shop.collect(), numbers.map(|at| span(at, 3, Some(2), 2)).collect());
    json!({"resourceSpans": [of("shop", shop), of("stock", stock)]}).to_string()
}

fn send(server: &Server, body: &str) {
    let (code, answer) = post(server.otlp_http, "/v1/traces", body);
    assert_eq!(code, 200, "{answer}");
}

fn json_of(server: &Server, path: &str) -> Value {
    let (code, body) = get(server.http, path);
    assert_eq!(code, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Repeats a question until the answer is as wanted.
fn until(what: &str, mut ask: impl FnMut() -> Value, is_it: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let answer = ask();
        if is_it(&answer) {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {answer:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A webhook that refuses the first request. Returns its URL and the alerts that it was told.
fn webhook() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/alerts", listener.local_addr().expect("an address"));
    let (told, alerts) = mpsc::channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("a caller");
            let (mut request, mut part) = (String::new(), [0; 16_384]);
            let body = loop {
                let read = stream.read(&mut part).expect("a request");
                request.push_str(&text(&part[..read]));
                let body = request.split_once("\r\n\r\n").map(|(_, body)| body);
                if let Some(Ok(body)) = body.map(serde_json::from_str::<Value>) {
                    break body;
                }
            };
            let code = if number == 0 { "500 No" } else { "204 Yes" };
            let answer = format!("HTTP/1.1 {code}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).expect("answered");
            for alert in body["alerts"].as_array().into_iter().flatten() {
                if number > 0 && told.send(alert.clone()).is_err() {
                    return;
                }
            }
        }
    });
    (url, alerts)
}

#[test]
fn a_broken_rule_is_told_to_a_webhook_and_shown_until_it_holds_again() {
    let here = tempfile::tempdir().expect("a directory");
    let (url, alerts) = webhook();
    let config = format!(
        "[watch]\nrules = [\"errors * > 5%\", \"new-error *\", \"weak stock\", \"latency shop > 1s\"]\n\
         window = \"4s\"\nbefore = \"2s\"\nevery = \"300ms\"\nwebhook = \"{url}\"\n"
    );
    std::fs::write(here.path().join("spanwise.toml"), config).expect("written");
    let server = Server::start(here.path(), "server", &[]);
    let watch = || json_of(&server, "/api/v1/watch");
    let first = watch();
    assert_eq!(first["rules"].as_array().map(Vec::len), Some(4), "{first:#}");

    // A quiet load, until it has learned.
    let mut number = 1;
    until(
        "it learns",
        || {
            send(&server, &requests(number, 5, now_unix_nano(), false));
            number += 5;
            watch()
        },
        |watch| watch["evaluations"].as_u64() > Some(2) && watch["rules"][1]["state"] == "holds",
    );
    assert!(alerts.try_recv().is_err(), "a quiet load raises no alarm");

    send(&server, &requests(100_000, 60, now_unix_nano(), true));
    let broken = until("it breaks", watch, |watch| {
        watch["rules"][0]["state"] == "broken" && watch["rules"][1]["state"] == "broken"
    });
    let subjects = |rule: usize| -> Vec<&str> {
        let alerts = broken["rules"][rule]["alerts"].as_array().expect("alerts").iter();
        alerts.filter_map(|alert| alert["subject"].as_str()).collect()
    };
    assert_eq!(subjects(0), ["shop", "stock"], "{broken:#}");
    assert_eq!(subjects(1), ["shop: no stock", "stock: no stock"], "{broken:#}");
    assert_eq!(broken["rules"][3]["state"], "holds");
    let (_, metrics) = get(server.http, "/metrics");
    assert!(metrics.contains("spanwise_watch_alerts{rule=\"errors * > 5%\"} 2"), "{metrics}");
    let shown = server.ask(here.path(), &["watch"]);
    assert!(shown.contains("requests to shop failed, above 5.0%"), "{shown}");

    // It was refused once, and told again.
    let wait = Duration::from_secs(30);
    let mut told: Vec<Value> = (0..4).map(|_| alerts.recv_timeout(wait).expect("told")).collect();
    told.sort_by_key(|alert| alert["subject"].to_string());
    assert!(told.iter().all(|alert| alert["status"] == "firing"), "{told:?}");
    assert_eq!(told[0]["rule"], "errors * > 5%");
    let webhook = until("it is told", watch, |watch| watch["webhook"]["told"] == 4);
    assert_eq!(webhook["webhook"]["failures"], 1, "{webhook:#}");
    // And when it holds again.
    let resolved = alerts.recv_timeout(wait).expect("told");
    assert_eq!(resolved["status"], "resolved", "{resolved:#}");
    until("it holds", watch, |watch| watch["rules"][0]["state"] == "holds");

    let rules = server.ask(here.path(), &["watch", "--prometheus"]);
    assert_eq!(rules.matches("- alert: Spanwise").count(), 4, "{rules}");
    check_with_promtool(here.path(), &rules);
    server.kill();
}

/// Prometheus' own check, where it is installed.
fn check_with_promtool(here: &Path, rules: &str) {
    let file = here.join("rules.yaml");
    std::fs::write(&file, rules).expect("written");
    let checked =
        std::process::Command::new("promtool").args(["check", "rules"]).arg(&file).output();
    let Ok(checked) = checked else {
        eprintln!("promtool is not installed: the rules are not checked by it");
        return;
    };
    let said = format!("{}{}", text(&checked.stdout), text(&checked.stderr));
    assert!(checked.status.success(), "{said}\n{rules}");
}

#[test]
fn rules_that_are_none_are_refused_with_their_forms() {
    let here = tempfile::tempdir().expect("a directory");
    for (config, said) in [
        ("[watch]\nrules = [\"errors > 5\"]\n", "write `latency SERVICE > 250ms`"),
        ("[watch]\nwebhook = \"https://a\"\n", "watch.webhook"),
    ] {
        std::fs::write(here.path().join("spanwise.toml"), config).expect("written");
        let output = crate::support::run(here.path(), &["server", "--data", "data"]);
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(said), "{told}");
    }
}

#[test]
fn rollups_survive_kill_9_and_say_the_same() {
    let here = tempfile::tempdir().expect("a directory");
    let server = Server::start(here.path(), "server", &["--rollups", "on"]);
    // Five minutes of requests, the last of which ended some minutes ago.
    let end = now_unix_nano() / 60_000_000_000 * 60_000_000_000 - 180_000_000_000;
    for minute in 0..5_u64 {
        let began = end - u128::from(minute) * 60_000_000_000 + 1_000_000;
        send(&server, &requests(1_000 * (minute + 1), 40, began, minute == 0));
    }
    let query = format!("start={}&end={}", end - 360_000_000_000, end + 60_000_000_000);
    let ask = |server: &Server| json_of(server, &format!("/api/v1/chains?{query}"));
    let is_covered = |answer: &Value| {
        answer["observed"]["covered_by_rollups"] == 1.0 && answer["observed"]["runs"] == 200
    };
    let before = until("rollups are made", || ask(&server), is_covered);
    server.kill();

    let server = Server::start(here.path(), "server", &["--rollups", "on"]);
    let after = until("they are there", || ask(&server), is_covered);
    assert_eq!(after["chains"], before["chains"]);
    assert_eq!(after["observed"]["spans"], 0, "no span was read: {after:#}");
    // What is late after the crash still changes what was stored before it.
    send(&server, &requests(90_000, 10, end + 2_000_000, false));
    let has_all = |answer: &Value| answer["observed"]["runs"] == 210;
    let late = until("late spans count", || ask(&server), has_all);
    assert_eq!(late["total"], before["total"]);
    server.kill();
    let server = Server::start(here.path(), "server", &["--rollups", "on"]);
    let again = until("also the next time", || ask(&server), has_all);
    for figure in ["id", "runs", "errors", "paths", "first_unix_nano", "last_unix_nano"] {
        assert_eq!(again["chains"][0][figure], late["chains"][0][figure], "{figure}");
    }
    server.kill();
}
