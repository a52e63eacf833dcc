//! Recordings of native programs, replayed and filtered.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Server, spanwise, text};

/// The C library's test program. Each test builds it in a directory of its own.
fn library(name: &str) -> PathBuf {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/native");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let target = build.join("library");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(library).arg(format!("BUILD={}", build.display())).arg(&target);
    assert!(make.status().expect("make runs").success(), "the library builds");
    target
}

/// A recording by the C library: five spans, two of them open, a log record and two metrics.
fn record(here: &Path) {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let program = BUILT.get_or_init(|| library("native"));
    let made = Command::new(program).args(["record", "trace"]).current_dir(here).output();
    assert!(made.expect("it runs").status.success());
}

fn run(here: &Path, arguments: &[&str]) -> Output {
    spanwise(here).args(arguments).output().expect("it runs")
}

#[test]
fn a_recording_is_stored_once_however_often_it_is_replayed() {
    let here = tempfile::tempdir().expect("a directory");
    record(here.path());
    let server = Server::start(here.path(), "server", &[]);
    let url = format!("http://{}", server.otlp_grpc);
    for _ in 0..2 {
        let output = run(here.path(), &["replay", "trace", "--server", &url]);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.starts_with("replay: 5 spans are stored\n"), "{said}");
        assert!(said.contains("Spanwise keeps spans only"), "{said}");
        assert!(said.contains("2 spans had not ended"), "{said}");
        let sql = "SELECT count(*) FROM spans WHERE service = 'library'";
        let answer = server.ask(here.path(), &["sql", sql, "--format", "csv"]);
        assert_eq!(answer.lines().nth(1), Some("5"));
    }
}

#[test]
fn a_recording_goes_to_files_with_a_filter_and_a_checkpoint() {
    let here = tempfile::tempdir().expect("a directory");
    record(here.path());
    let file = ["replay", "trace", "--file", "out", "--filter", "q*", "--checkpoint", "point"];
    let output = run(here.path(), &file);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("2 spans, 1 log records and "), "{said}");
    for name in ["out", "out.logs", "out.metrics"] {
        assert!(here.path().join(name).metadata().expect("a file").len() > 50, "{name}");
    }
    let said = text(&run(here.path(), &file).stderr);
    assert!(said.starts_with("0 spans, 0 log records and 0 metric points"), "{said}");
}

#[test]
fn a_trace_of_lttng_is_replayed() {
    let here = tempfile::tempdir().expect("a directory");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/ctf/tests/recorded/lttng");
    let deep = here.path().join("trace/ust/uid/0/64-bit");
    std::fs::create_dir_all(&deep).expect("a directory");
    for name in ["metadata", "ch_0"] {
        std::fs::copy(recorded.join(name), deep.join(name)).expect("a copy");
    }
    let file = ["replay", "trace", "--file", "out", "--checkpoint", "point"];
    let output = run(here.path(), &file);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("4 spans, 1 log records and 1 metric points are sent\n"), "{said}");
    for part in [
        "1 spans had not ended in their trace",
        "1 events are not sent: they have no trace_id and span_id",
        "1 messages of OpenTelemetry were damaged",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = text(&run(here.path(), &file).stderr);
    assert!(said.starts_with("0 spans, 0 log records and 0 metric points"), "{said}");

    let server = Server::start(here.path(), "server", &[]);
    let url = format!("http://{}", server.otlp_grpc);
    for _ in 0..2 {
        let output = run(here.path(), &["replay", "trace", "--server", &url]);
        let said = text(&output.stderr);
        assert!(said.starts_with("replay: 4 spans are stored\n"), "{said}");
        let sql =
            "SELECT count(*) FROM spans WHERE service = 'shop' AND operation = 'shop:request'";
        let answer = server.ask(here.path(), &["sql", sql, "--format", "csv"]);
        assert_eq!(answer.lines().nth(1), Some("3"));
    }

    // What is cut is named; what is whole is sent.
    let stream = std::fs::read(deep.join("ch_0")).expect("a stream");
    std::fs::write(deep.join("ch_0"), &stream[..700]).expect("a file");
    let output = run(here.path(), &["replay", "trace", "--file", "cut"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ch_0: the packet at byte 0 is cut: 700 of 4096 bytes"), "{said}");
    assert!(!said.starts_with("0 spans"), "{said}");
}

#[test]
fn wrong_flags_and_paths_are_explained() {
    let here = tempfile::tempdir().expect("a directory");
    record(here.path());
    for (arguments, code, part) in [
        (&["replay", "none"][..], 1, "none: cannot be read"),
        (&["replay", "trace", "--speed", "0"], 2, "greater than 0"),
        (&["replay", "trace", "--otlp", "https://x"], 2, "only http"),
        (&["replay", "trace", "--checkpoint", "x"], 2, "--otlp and --file"),
        (&["native", "filter", "."], 1, "control"),
        (&["native", "filter", "trace", "level:loud"], 2, "is no rule"),
    ] {
        let output = run(here.path(), arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    assert!(run(here.path(), &["native", "filter", "trace", "off:heart*"]).status.success());
    let output = run(here.path(), &["native", "filter", "trace"]);
    assert_eq!(text(&output.stdout), "off 0 heart*\n");
}

/// A program or an agent that is killed when dropped.
struct Running(Child);

impl Running {
    /// `kill -9`.
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Three threads of a C program over the library, until it is killed or for some seconds.
fn work(program: &Path, here: &Path, policy: &str, pause_us: &str, seconds: &str) -> Running {
    let mut command = Command::new(program);
    command.args(["work", "trace", policy, pause_us, seconds]).current_dir(here);
    Running(command.spawn().expect("it runs"))
}

/// An agent that traces nothing but native programs.
fn agent(here: &Path, server: &str) -> Running {
    let mut command = spanwise(here);
    command.args(["agent", "--server", server, "--native-dir", "trace", "--only", "service=none"]);
    Running(command.stdout(Stdio::null()).spawn().expect("it runs"))
}

/// What the program's threads did, by its own count: spans begun, ended, detached ones begun, ended,
/// log records, spans tried.
fn made(here: &Path) -> [u64; 6] {
    let mut sum = [0; 6];
    for file in std::fs::read_dir(here.join("trace")).expect("files").flatten() {
        if file.path().extension().is_some_and(|extension| extension == "made") {
            let bytes = std::fs::read(file.path()).expect("read");
            for thread in bytes.chunks_exact(64).take(3) {
                for (sum, word) in sum.iter_mut().zip(thread.chunks_exact(8)) {
                    *sum += u64::from_le_bytes(word.try_into().expect("8"));
                }
            }
        }
    }
    sum
}

/// Spans that the server has, and different ones among them, when they are no longer more.
fn stored(server: &Server, here: &Path, at_least: u64) -> [u64; 2] {
    let began = Instant::now();
    let mut last = [0; 2];
    loop {
        let sql = "SELECT count(*), count(DISTINCT span_id) FROM spans WHERE service = 'library'";
        let answer = server.ask(here, &["sql", sql, "--format", "csv"]);
        let line = answer.lines().nth(1).expect("a row");
        let (all, different) = line.split_once(',').expect("two numbers");
        let now = [all, different].map(|word| word.parse().expect("a number"));
        // It comes once in half a second at least, while there is any.
        if now == last && now[0] >= at_least {
            return now;
        }
        assert!(began.elapsed() < Duration::from_secs(40), "{now:?} of {at_least} spans came");
        last = now;
        std::thread::sleep(Duration::from_secs(2));
    }
}

fn counter(server: &Server, name: &str) -> u64 {
    let (code, body) = crate::support::get(server.http, "/api/v1/status");
    assert_eq!(code, 200, "{body}");
    let status: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let found = status["counters"].as_array().expect("a list").iter();
    let mut found = found.filter(|counter| counter["name"] == name);
    found.next().map_or(0, |counter| {
        let value = &counter["value"];
        value.as_u64().or_else(|| value.as_str()?.parse().ok()).expect("a number")
    })
}

#[test]
fn every_span_is_stored_once_whatever_is_killed() {
    let here = tempfile::tempdir().expect("a directory");
    let program = library("native-killed");
    let server = Server::start(here.path(), "server", &[]);
    let url = format!("http://{}", server.otlp_grpc);
    let mut agents = vec![agent(here.path(), &url)];
    let mut worker = work(&program, here.path(), "0", "100", "0");
    for pause in [700, 900, 400, 1100] {
        std::thread::sleep(Duration::from_millis(pause));
        agents.last_mut().expect("an agent").kill();
        agents.push(agent(here.path(), &url));
    }
    std::thread::sleep(Duration::from_millis(500));
    worker.kill();
    let [begun, ended, detached_begun, detached_ended, ..] = made(here.path());
    let [all, different] = stored(&server, here.path(), begun + detached_begun);
    assert_eq!(all, different, "each once");
    // A thread may have been killed between a span's begin and its count.
    assert!((begun + detached_begun..=begun + detached_begun + 3).contains(&all), "{begun} {all}");
    assert!(begun > 10_000, "{begun}");
    let sql = "SELECT count(*) FROM spans WHERE attribute(attributes, 'spanwise.open') = 'true'";
    let answer = server.ask(here.path(), &["sql", sql, "--format", "csv"]);
    let open: u64 = answer.lines().nth(1).expect("a row").parse().expect("a number");
    assert_eq!(open, all - ended - detached_ended, "what did not end says so");
}

#[test]
fn what_a_full_ring_drops_while_the_server_is_away_is_counted() {
    let here = tempfile::tempdir().expect("a directory");
    let program = library("native-dropped");
    let mut server = Server::start(here.path(), "server", &[]);
    let (http, grpc) = (server.http.to_string(), server.otlp_grpc.to_string());
    let url = format!("http://{grpc}");
    let _agent = agent(here.path(), &url);
    // Rings of a megabyte, in which new spans are dropped when they are full.
    let mut worker = work(&program, here.path(), "1", "20", "6");
    std::thread::sleep(Duration::from_secs(1));
    server.kill();
    std::thread::sleep(Duration::from_secs(4));
    server = Server::start(here.path(), "server", &["--http", &http, "--otlp-grpc", &grpc]);
    assert!(worker.0.wait().expect("its state").success());
    let [begun, _, detached_begun, .., tried] = made(here.path());
    let begun = begun + detached_begun;
    assert_eq!(stored(&server, here.path(), begun), [begun; 2], "each once");
    let began = Instant::now();
    let dropped = loop {
        let dropped = counter(&server, "native_spans_dropped_full")
            + counter(&server, "native_spans_dropped_depth");
        if begun + dropped >= tried {
            break dropped;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{begun} + {dropped} of {tried}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(begun + dropped, tried, "made is stored and dropped");
    assert!(dropped > 0, "the rings were full");
}
