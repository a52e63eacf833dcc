//! `/metrics` and `/metrics/spans`, parsed by Prometheus' own parsers.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Server, otlp, post};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/metrics").join(name)
}

/// A Python with the parsers, which are installed if they are missing.
fn python() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(directory).expect("a directory");
    let (venv, ready) = (directory.join("prometheus"), directory.join("prometheus.ready"));
    let python = venv.join("bin/python3");
    if !ready.exists() {
        let _ = std::fs::remove_dir_all(&venv);
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--require-hashes", "--requirement"])
            .arg(here("requirements.txt")));
        File::create(&ready).expect("noted");
    }
    python
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed. This test needs python3 with venv (`make setup`) and PyPI to be \
         reachable:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Requests a page of metrics. Returns the response's head and body.
fn scrape(address: SocketAddr, page: &str, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    write!(
        stream,
        "GET {page} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn parsed(python: &Path, format: &str, metrics: &str) -> Vec<Value> {
    let mut parser = Command::new(python)
        .arg(here("parse.py"))
        .arg(format)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the parser starts");
    parser.stdin.take().expect("a pipe").write_all(metrics.as_bytes()).expect("written");
    let output = parser.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{format} refused:\n{metrics}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn prometheus_reads_every_counter_of_the_status() {
    let python = python();
    let here = tempfile::tempdir().expect("a directory");
    let server = Server::start(here.path(), "server", &[]);
    assert_eq!(post(server.otlp_http, "/v1/traces", &otlp(TRACE, "shop")).0, 200);
    assert_eq!(post(server.otlp_http, "/v1/traces", "{").0, 400);
    server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);
    let status: Value =
        serde_json::from_str(&server.ask(here.path(), &["status", "--json"])).expect("JSON");
    for (format, accept, kind) in [
        ("prometheus", "*/*", "text/plain; version=0.0.4"),
        (
            "openmetrics",
            "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text; version=1.0.0",
        ),
    ] {
        let (head, body) = scrape(server.http, "/metrics", accept);
        assert!(head.starts_with("HTTP/1.") && head.contains(kind), "{head}");
        let samples = parsed(&python, format, &body);
        let sum = |name: &str| -> Option<f64> {
            let mut found = samples.iter().filter(|sample| sample[2] == name).peekable();
            found.peek()?;
            Some(found.filter_map(|sample| sample[4].as_f64()).sum())
        };
        assert_eq!(sum("spanwise_ingest_otlp_spans_accepted_total"), Some(2.0), "{body}");
        assert_eq!(sum("spanwise_ingest_requests_malformed_total"), Some(1.0));
        assert!(sum("process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6));
        for (prefix, counters) in [
            ("spanwise_ingest", &status["ingest"]["counters"]),
            ("spanwise_assembly", &status["server"]["assembly"]["counters"]),
        ] {
            for name in counters.as_object().expect("counters").keys() {
                let labelled = ["spans_rejected", "spans_clock", "requests_refused"]
                    .iter()
                    .any(|family| name.starts_with(family));
                let name = format!("{prefix}_{name}_total");
                assert!(labelled || sum(&name).is_some(), "{format}: {name} is missing");
            }
        }
        assert!(sum("spanwise_ingest_spans_rejected_total").is_some());
        assert!(sum("spanwise_ingest_spans_clock_wrong_total").is_some());
        for pair in status["store"]["counters"].as_array().expect("counters") {
            let name = format!("spanwise_store_{}_total", pair[0].as_str().expect("a name"));
            assert!(sum(&name).is_some(), "{format}: {name} is missing");
        }
        // In Prometheus' text format, a counter's family has its full name.
        let counter =
            samples.iter().find(|sample| sample[2] == "spanwise_ingest_otlp_spans_accepted_total");
        assert_eq!(counter.expect("it is there")[1], "counter");
    }
}

#[test]
fn prometheus_reads_the_metrics_of_spans() {
    let python = python();
    let here = tempfile::tempdir().expect("a directory");
    let server = Server::start(here.path(), "server", &[]);
    let spans = otlp(TRACE, "shop");
    for _ in 0..2 {
        // The second time they are duplicates.
        assert_eq!(post(server.otlp_http, "/v1/traces", &spans).0, 200);
    }
    // They have examples once they are assembled.
    let example = format!("# {{trace_id=\"{TRACE}\"}} ");
    let open_metrics = "application/openmetrics-text";
    let deadline = Instant::now() + Duration::from_secs(20);
    while !scrape(server.http, "/metrics/spans", open_metrics).1.contains(&example) {
        assert!(Instant::now() < deadline, "there is no example");
        std::thread::sleep(Duration::from_millis(50));
    }
    for (format, accept) in [("prometheus", "text/plain"), ("openmetrics", open_metrics)] {
        let (_, body) = scrape(server.http, "/metrics/spans", accept);
        let samples = parsed(&python, format, &body);
        let named = |name: &str| -> Vec<&Value> {
            samples.iter().filter(|sample| sample[2] == name).collect()
        };
        let calls = named("traces_spanmetrics_calls_total");
        assert!(calls.iter().all(|sample| sample[3]["service"] == "shop"), "{body}");
        let count =
            |samples: &[&Value]| samples.iter().filter_map(|it| it[4].as_f64()).sum::<f64>();
        assert_eq!(count(&calls), 2.0, "{body}");
        assert_eq!(count(&named("traces_spanmetrics_latency_count")), 2.0);
        let is_last = |sample: &&Value| sample[3]["le"] == "+Inf";
        let buckets = named("traces_spanmetrics_latency_bucket");
        let last: Vec<&Value> = buckets.into_iter().filter(is_last).collect();
        assert_eq!(count(&last), 2.0);
        assert_eq!(body.contains(&example), format == "openmetrics");
    }
    let off = tempfile::tempdir().expect("a directory");
    let server = Server::start(off.path(), "server", &["--span-metrics", "off"]);
    assert!(scrape(server.http, "/metrics/spans", "*/*").0.contains(" 404 "));
}
