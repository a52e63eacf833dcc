//! Recordings of native programs, replayed and filtered.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Server, spanwise, text};

/// A recording by the C library: five spans, two of them open, a log record and two metrics.
fn record(here: &Path) {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/native");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native");
    let target = build.join("library");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(library).arg(format!("BUILD={}", build.display())).arg(&target);
    assert!(make.status().expect("make runs").success(), "the library builds");
    let made = Command::new(target).args(["record", "trace"]).current_dir(here).output();
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
