//! Recordings of native programs, replayed and filtered.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use prost::Message as _;

use crate::otlp_metrics::{ExportMetricsServiceRequest, HistogramDataPoint, Metric};
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
fn a_kernel_trace_becomes_metrics_of_its_host() {
    let here = tempfile::tempdir().expect("a directory");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/ctf/tests/recorded/kernel");
    let deep = here.path().join("trace/kernel");
    std::fs::create_dir_all(&deep).expect("a directory");
    for name in ["metadata", "channel0_0", "channel0_1"] {
        std::fs::copy(recorded.join(name), deep.join(name)).expect("a copy");
    }
    let file = ["replay", "trace", "--file", "out", "--checkpoint", "point"];
    let output = run(here.path(), &file);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    for part in [
        "0 spans, 0 log records and ",
        "\n1 events are not sent: they have no trace_id",
        "\n17 events of kernels are metrics of hosts and 3 processes\n",
        "\n1 threads have metrics of their own",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("left out"), "nothing is missing: {said}");
    let bytes = std::fs::read(here.path().join("out.metrics")).expect("a file");
    let length = u32::from_be_bytes(*bytes.first_chunk().expect("a length")) as usize;
    assert_eq!(bytes.len(), 4 + length, "one message");
    let message = ExportMetricsServiceRequest::decode(&bytes[4..]).expect("OTLP");
    // Of two processors in 20.5 ms: 17.5 with work.
    let cpu: f64 = (message.metrics().filter(|(_, metric)| metric.name == "process.cpu.time"))
        .flat_map(|(_, metric)| metric.sum.clone().expect("a sum").data_points)
        .map(|point| point.as_double.expect("a number"))
        .sum();
    assert!((cpu - 0.0175).abs() < 1e-9, "{cpu}");
    let said = text(&run(here.path(), &file).stderr);
    assert!(said.starts_with("0 spans, 0 log records and 0 metric points"), "{said}");
    // A Spanwise server keeps no metrics.
    let server = Server::start(here.path(), "server", &[]);
    let url = format!("http://{}", server.otlp_grpc);
    let said = text(&run(here.path(), &["replay", "trace", "--server", &url]).stderr);
    assert!(said.contains("because Spanwise keeps spans only"), "{said}");
}

/// The bodies of requests to an OTLP endpoint.
fn endpoint() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || serve(stream, &sender));
        }
    });
    (url, bodies)
}

fn serve(stream: TcpStream, bodies: &Sender<Vec<u8>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        bodies.send(body).ok()?;
        let answer =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(answer).ok()?;
    }
}

/// The figures of this process in a message: waits for a processor as a histogram and, from another
/// source of the kernel's, their sum in seconds.
fn own_waits(message: &ExportMetricsServiceRequest) -> Option<(HistogramDataPoint, f64)> {
    let me = std::process::id().to_string();
    let find = |name: &str| -> Option<Metric> {
        let mut own = message.metrics().filter(|(of, _)| of.get("process.pid") == Some(&me));
        Some(own.find(|(_, metric)| metric.name == name)?.1.clone())
    };
    let histogram = find("spanwise.process.run_queue.latency")?.histogram?;
    assert_eq!(histogram.aggregation_temporality, 2, "since the start");
    let waited = find("spanwise.process.run_queue.time")?.sum?.data_points[0].as_double?;
    Some((histogram.data_points[0].clone(), waited))
}

#[test]
fn the_host_s_metrics_say_how_long_threads_waited() {
    let here = tempfile::tempdir().expect("a directory");
    let (url, bodies) = endpoint();
    let mut command = spanwise(here.path());
    command
        .args(["agent", "--server", "http://127.0.0.1:9", "--only", "service=none"])
        .args(["--host-metrics", "on", "--metrics-to", &url])
        .env("SPANWISE_AGENT_HOST_METRICS_EVERY", "1s");
    let _agent = Running(command.stdout(Stdio::null()).spawn().expect("it runs"));
    // More threads than processors.
    let until = Instant::now() + Duration::from_secs(8);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = |_| {
        std::thread::spawn(move || {
            while Instant::now() < until {
                std::hint::black_box(until);
            }
        })
    };
    let workers: Vec<_> = (0..4 * processors).map(work).collect();
    let mut found = Vec::new();
    for round in 0.. {
        if found.len() == 4 {
            break;
        }
        assert!(round < 30, "the kernel counts waits (BPF needs rights): {found:?}");
        let body = bodies.recv_timeout(Duration::from_secs(15)).expect("metrics come");
        let message = ExportMetricsServiceRequest::decode(&body[..]).expect("OTLP");
        found.extend(own_waits(&message));
    }
    workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
    let (first, last) = (&found[0], &found[3]);
    for (point, _) in &found {
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
        for (index, bound) in point.explicit_bounds.iter().enumerate() {
            let microseconds = f64::from(1_u32 << index);
            assert!((bound * 1e6 / microseconds - 1.0).abs() < 1e-9, "{index}: {bound}");
        }
    }
    let sum = |(point, _): &(HistogramDataPoint, f64)| point.sum.expect("a sum");
    let (counted, kernels) = (sum(last) - sum(first), last.1 - first.1);
    assert!(counted > 1.0, "they waited most of the time: {counted} s");
    assert!((counted - kernels).abs() < 0.2 * kernels, "counted {counted}, the kernel {kernels}");
    // A bucket's values are between its bounds, so the sum is, too.
    let bounds = [0.0].into_iter().chain(first.0.explicit_bounds.clone());
    let counts = last.0.bucket_counts.iter().zip(&first.0.bucket_counts);
    let least: f64 = bounds.zip(counts).map(|(bound, (b, a))| bound * (b - a) as f64).sum();
    let one = (last.0.count - first.0.count) as f64 * 1e-6;
    assert!((least..=2.0 * least + one).contains(&counted), "{least} {counted}");
}

#[test]
fn a_directory_that_programs_make_later_is_followed() {
    let here = tempfile::tempdir().expect("a directory");
    let mut command = spanwise(here.path());
    command
        .args(["agent", "--server", "http://127.0.0.1:9", "--only", "service=none"])
        .args(["--native-dir", "later"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut agent = Running(command.spawn().expect("it runs"));
    let log = BufReader::new(agent.0.stderr.take().expect("a pipe"));
    let mut lines = log.lines().map_while(Result::ok);
    let mut says = |part: &str| lines.any(|line| line.contains(part));
    assert!(says("later does not exist yet"));
    std::fs::create_dir(here.path().join("later")).expect("a directory");
    assert!(says("native programs are followed in later"));
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
