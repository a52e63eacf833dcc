//! Imports of span files.

use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::support::{Server, otlp, spanwise, text};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn import(here: &Path, server: &Server, arguments: &[&str]) -> Output {
    let url = format!("http://{}", server.otlp_grpc);
    let mut command = spanwise(here);
    command.arg("import").args(arguments).args(["--server", &url]);
    command.output().expect("it runs")
}

/// For each number, a line with two spans.
fn lines(numbers: std::ops::Range<u64>) -> String {
    numbers.map(|number| otlp(&format!("{number:016x}{number:015x}f"), "shop") + "\n").collect()
}

fn spans(here: &Path, server: &Server) -> String {
    let answer = server.ask(here, &["sql", "SELECT count(*) FROM spans", "--format", "csv"]);
    answer.lines().nth(1).expect("a row").to_owned()
}

#[test]
fn a_file_is_stored_once_however_often_it_is_brought() {
    let here = tempfile::tempdir().expect("a directory");
    let server = Server::start(here.path(), "server", &[]);
    std::fs::write(here.path().join("spans.json"), lines(1..501)).expect("written");
    for _ in 0..2 {
        let output = import(here.path(), &server, &["spans.json"]);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(said, "spans.json: 1000 spans are stored\n");
        assert_eq!(spans(here.path(), &server), "1000");
    }
    // The same spans in another compression are recognised, even after a restart.
    server.kill();
    let server = Server::start(here.path(), "server", &[]);
    let gzip = std::fs::File::create(here.path().join("spans.gz")).expect("created");
    let mut gzip = flate2::write::GzEncoder::new(gzip, flate2::Compression::fast());
    gzip.write_all(lines_of(here.path()).as_bytes()).expect("written");
    gzip.finish().expect("finished");
    assert!(import(here.path(), &server, &["spans.gz"]).status.success());
    assert_eq!(spans(here.path(), &server), "1000");
    let status = server.ask(here.path(), &["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["ingest"]["agents"], serde_json::json!([]), "a file is no agent");
    // Sent again with --again, they are still recognised as the same spans.
    assert!(import(here.path(), &server, &["--again", "spans.gz"]).status.success());
    assert_eq!(spans(here.path(), &server), "1000");
}

fn lines_of(here: &Path) -> String {
    std::fs::read_to_string(here.join("spans.json")).expect("read")
}

#[test]
fn what_cannot_be_read_is_named_and_everything_else_is_stored() {
    let here = tempfile::tempdir().expect("a directory");
    let server = Server::start(here.path(), "server", &[]);
    let whole = otlp(TRACE, "shop");
    let cut = &whole[..whole.len() / 2];
    let logs = r#"{"resourceLogs":[]}"#;
    let file = format!("{whole}\n{{\"resourceSpans\": oops}}\n\n{logs}\n{}{cut}", lines(1..2));
    std::fs::write(here.path().join("spans.json"), file).expect("written");
    std::fs::write(here.path().join("picture"), b"\x89PNG\r\n\x1a\n").expect("written");
    std::fs::write(here.path().join("other.json"), "{\"name\": 1}\n").expect("written");
    let files = ["spans.json", "picture", "gone", ".", "other.json"];
    let output = import(here.path(), &server, &files);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for line in [
        "spans.json: line 2, column 19: this is no JSON: expected value; mend or delete",
        "spans.json: line 6 is cut off: whatever wrote it was stopped, or is still writing",
        "spans.json: 4 spans are stored; passed over: 1 of logs",
        "picture: it is of no kind that can be imported (it begins with the bytes 89504e47",
        "gone: cannot be opened: No such file",
        ".: is a directory",
        "other.json: it is of no kind that can be imported (line 1 is a JSON object without",
        "5 of 5 files were not read whole",
    ] {
        assert!(said.contains(line), "`{line}` is not in:\n{said}");
    }
    assert_eq!(spans(here.path(), &server), "4");
}

#[test]
fn documents_over_many_lines_and_standard_input_are_read() {
    let here = tempfile::tempdir().expect("a directory");
    let server = Server::start(here.path(), "server", &[]);
    let value: serde_json::Value = serde_json::from_str(&otlp(TRACE, "shop")).expect("JSON");
    let pretty = serde_json::to_string_pretty(&value).expect("JSON");
    let url = format!("http://{}", server.otlp_grpc);
    let mut child = spanwise(here.path())
        .args(["import", "-", "--server", &url])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(pretty.as_bytes()).expect("written");
    assert!(child.wait().expect("it ends").success());
    server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);
    let broken = pretty.replacen("\"traceId\"", "traceId", 1);
    std::fs::write(here.path().join("broken.json"), broken).expect("written");
    let said = text(&import(here.path(), &server, &["broken.json"]).stderr);
    let line = pretty.lines().position(|line| line.contains("traceId")).expect("a line") + 1;
    assert!(said.contains(&format!("broken.json: line {line}, column")), "{said}");
}
