//! A server: what it stores, and how it ends.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{PORTS, Server, get, otlp, post, run, text};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Checks that the command line shows the tree of [`otlp`].
fn shows_the_trace(server: &Server, here: &Path) {
    let tree = server.ask(here, &["trace", TRACE]);
    assert!(tree.starts_with(&format!("trace {TRACE}\n")), "{tree}");
    assert!(tree.contains("25.0 ms  2 spans  1 service  2 errors"), "{tree}");
    let rows: Vec<&str> = tree.lines().filter(|line| line.contains(" shop ")).collect();
    assert_eq!(rows.len(), 2, "{tree}");
    assert!(rows[0].contains("▬  shop GET /cart 500"), "{tree}");
    assert!(rows[1].contains("└─ shop price no price  [app]"), "{tree}");
}

#[test]
fn what_was_acknowledged_is_shown_and_survives_kill_9() {
    let here = directory();
    let server = Server::start(here.path(), "server", &[]);
    let (code, body) = post(server.otlp_http, "/v1/traces", &otlp(TRACE, "shop"));
    assert_eq!(code, 200, "{body}");

    // Spans sent to the UI's port get a hint.
    let (code, body) = post(server.http, "/v1/traces", &otlp(TRACE, "shop"));
    let port = server.otlp_http.port();
    assert!(code == 404 && body.contains(&format!("port {port}, path /v1/traces")), "{body}");

    let list = server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);
    assert!(list.contains("shop GET /cart"), "{list}");
    let sorted = ["search", "--sort", "slowest", "--utc", "--attribute", "!nothing"];
    let sorted = server.ask(here.path(), &sorted);
    assert!(sorted.contains(TRACE) && sorted.contains("the slowest of all begun"), "{sorted}");
    assert!(sorted.contains("1 trace\n") && sorted.contains("Z and "), "{sorted}");
    assert!(server.ask(here.path(), &["search", "--min-duration", "1s"]).contains("no trace fits"));
    shows_the_trace(&server, here.path());
    let services = server.ask(here.path(), &["services"]);
    assert!(services.lines().any(|line| line.starts_with("shop ")), "{services}");
    let rows = server.ask(
        here.path(),
        &["sql", "SELECT service, count(*) AS spans FROM spans GROUP BY service"],
    );
    assert!(rows.contains("shop         2\n"), "{rows}");
    let statement = "SELECT operation, kind FROM spans ORDER BY operation";
    let csv = server.ask(here.path(), &["sql", statement, "--format", "csv"]);
    assert_eq!(csv, "operation,kind\r\nGET /cart,server\r\nprice,internal\r\n");
    let url = format!("http://{}", server.http);
    let arrow = run(here.path(), &["sql", statement, "--format", "arrow", "--url", &url]).stdout;
    let reader = arrow::ipc::reader::StreamReader::try_new(arrow.as_slice(), None).expect("Arrow");
    let rows: usize = reader.map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(rows, 2);
    let json = server.ask(here.path(), &["services", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["services"][0]["name"], "shop");

    // A second batch. The server is killed right after its acknowledgement.
    let late = "00000000000000010000000000000002";
    assert_eq!(post(server.otlp_http, "/v1/traces", &otlp(late, "late")).0, 200);
    server.kill();

    let server = Server::start(here.path(), "server", &[]);
    server.ask_until(here.path(), &["search", "--service", "late"], late);
    server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);
    shows_the_trace(&server, here.path());
    let rows = server.ask(here.path(), &["sql", "SELECT count(*) AS n FROM spans"]);
    assert!(rows.starts_with("n\n4\n"), "each span once: {rows}");
}

#[test]
fn sigterm_ends_with_0_in_time_though_clients_hang_on() {
    let here = directory();
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(here.path(), "server", &[]);
        assert_eq!(post(server.otlp_http, "/v1/traces", &otlp(TRACE, "shop")).0, 200);
        // Clients that connect and send nothing.
        let idle: Vec<TcpStream> = [server.http, server.otlp_grpc, server.otlp_http]
            .map(|address| TcpStream::connect(address).expect("connected"))
            .into();
        server.signal(signal);
        let status = server.wait(Duration::from_secs(5)).expect("it ended within 5 s");
        assert_eq!(status.code(), Some(0));
        drop(idle);
    }
    let server = Server::start(here.path(), "server", &[]);
    server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);
}

#[test]
fn a_data_directory_serves_one_server() {
    let here = directory();
    let server = Server::start(here.path(), "server", &[]);
    let output = run(here.path(), &[&["server", "--data", "data"][..], &PORTS].concat());
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("--data"), "{message}");
    server.ask(here.path(), &["status"]);
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named() {
    let here = directory();
    std::fs::write(here.path().join("file"), "").expect("written");
    let output = run(here.path(), &[&["server", "--data", "file/data"][..], &PORTS].concat());
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("file/data"), "{message}");
}

#[test]
fn up_serves_without_an_agent_and_says_why() {
    let here = directory();
    // This makes the agent fail wherever the test runs.
    let server = Server::start(here.path(), "up", &["--record", "no/such/directory/file"]);
    assert!(server.banner.contains("off: cannot write events to no/such"), "{}", server.banner);
    let status = server.ask(here.path(), &["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["agent"]["state"], "off", "{status}");
    let reason = status["agent"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("cannot write events to"), "{reason}");
    assert_eq!(post(server.otlp_http, "/v1/traces", &otlp(TRACE, "shop")).0, 200);
    server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);
}

#[test]
fn spans_are_taken_while_clickhouse_is_away_and_no_password_is_shown() {
    let here = directory();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let url = format!("clickhouse://u:secret@127.0.0.1:{port}/d");
    let server = Server::start(here.path(), "server", &["--store", &url]);
    assert!(server.banner.contains(&format!("clickhouse://u:***@127.0.0.1:{port}/d")));
    assert_eq!(post(server.otlp_http, "/v1/traces", &otlp(TRACE, "shop")).0, 200);
    let status = server.ask_until(here.path(), &["status"], "cannot be reached");
    assert!(status.contains("spans wait on this server's disk"), "{status}");
    // A partial answer would be wrong.
    let api = format!("http://{}", server.http);
    let output = run(here.path(), &["search", "--url", &api]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("cannot be reached at clickhouse://u:***@"), "{message}");
    assert!(!format!("{}{status}{message}", server.banner).contains("secret"));
    server.kill();
    // Acknowledged spans are on this server's disk.
    let server = Server::start(here.path(), "server", &[]);
    server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);

    let output = run(here.path(), &["config", "--store", "clickhouse://u:secret@h:x/d"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("store.url (flag)") && !message.contains("secret"), "{message}");
}

#[test]
fn a_trace_that_is_not_there_is_said_to_be_so() {
    let here = directory();
    let server = Server::start(here.path(), "server", &[]);
    let url = format!("http://{}", server.http);
    let output = run(here.path(), &["trace", TRACE, "--url", &url]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains(TRACE), "{message}");
    let output = run(here.path(), &["sql", "DROP TABLE spans", "--url", &url]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn clients_of_jaeger_and_zipkin_are_answered_where_they_ask() {
    let here = directory();
    let ports = ["--jaeger-query", "0", "--jaeger-storage", "0"];
    let server = Server::start(here.path(), "server", &ports);
    assert_eq!(post(server.otlp_http, "/v1/traces", &otlp(TRACE, "shop")).0, 200);
    server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);
    let address =
        |line: &str| line.split("127.0.0.1:").nth(1)?.split(['/', ' ']).next()?.parse().ok();
    let at = |name: &str| -> Vec<u16> {
        let lines = server.banner.lines().filter(|line| line.trim_start().starts_with(name));
        lines.filter_map(address).collect()
    };
    let zipkin = at("Zipkin");
    let jaeger = at("Jaeger API");
    assert_eq!((zipkin.len(), jaeger.len()), (1, 2), "{}", server.banner);
    for (port, path) in [
        (server.http.port(), "/zipkin/api/v2/services"),
        (zipkin[0], "/api/v2/services"),
        (zipkin[0], "/zipkin/api/v2/services"),
        (server.http.port(), "/jaeger/api/services"),
        (jaeger[0], "/api/services"),
        (jaeger[1], "/api/v3/services"),
    ] {
        let (code, body) = get(([127, 0, 0, 1], port).into(), path);
        assert!(code == 200 && body.contains("\"shop\""), "{path}: {code} {body}");
    }
    // Spans still come in beside the questions.
    let span =
        format!(r#"[{{"traceId":"{TRACE}","id":"0a","localEndpoint":{{"serviceName":"z"}}}}]"#);
    let receiver = ([127, 0, 0, 1], zipkin[0]).into();
    assert_eq!(post(receiver, "/api/v2/spans", &span).0, 202);
    let (code, body) = get(receiver, "/api/v2/nothing");
    assert!(code == 404 && body.contains("this port takes Zipkin's spans"), "{code} {body}");
}
