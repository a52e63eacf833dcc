//! Users' SQL statements cannot harm the server.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Server, otlp, post, run, text};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(10), "no {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The server's child processes.
fn workers(server: &Server) -> Vec<String> {
    let parent = server.process().to_string();
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    ids.filter(|id| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1) == Some(&parent)
    })
    .collect()
}

/// Starts a statement without waiting for it.
fn begin(server: &Server, statement: &str) -> TcpStream {
    let mut client = TcpStream::connect(server.http).expect("connected");
    write!(
        client,
        "POST /api/v1/sql HTTP/1.1\r\nHost: {}\r\nContent-Type: text/plain\r\n\
         Spanwise-Request: test\r\nContent-Length: {}\r\n\r\n{statement}",
        server.http,
        statement.len()
    )
    .expect("sent");
    client
}

const ENDLESS: &str = "SELECT levenshtein(repeat('x', 1000000), repeat('y', 1000000))";

#[test]
fn a_statement_runs_in_a_process_that_is_bounded_and_ends_with_its_asker() {
    let here = tempfile::tempdir().expect("a directory");
    let server = Server::start(here.path(), "server", &[]);
    assert_eq!(post(server.otlp_http, "/v1/traces", &otlp(TRACE, "shop")).0, 200);
    let asked = [begin(&server, ENDLESS), begin(&server, ENDLESS), begin(&server, ENDLESS)];
    // Limits are set before the engine starts, which takes most of the startup time.
    let limited = |worker: &String| {
        let limits = fs::read_to_string(format!("/proc/{worker}/limits")).unwrap_or_default();
        limits.lines().any(|line| line.starts_with("Max open files            0"))
    };
    until("two workers", || workers(&server).iter().filter(|worker| limited(worker)).count() == 2);
    for worker in workers(&server) {
        let read = |file| fs::read_to_string(format!("/proc/{worker}/{file}")).expect(file);
        let limits = read("limits");
        let limit = |name: &str| -> u64 {
            let line = limits.lines().find(|line| line.starts_with(name)).expect(name);
            line[name.len()..].split_whitespace().next().expect("a limit").parse().expect(name)
        };
        // The program's own pages, and at most 512 MiB more.
        let status = read("status");
        let taken = status.lines().find(|line| line.starts_with("VmExe")).expect("its code");
        let code: u64 = taken.split_whitespace().nth(1).expect("KiB").parse().expect("a number");
        let most = (512 << 20) + 2 * (code << 10);
        assert!(limit("Max address space") <= most, "{limits}{status}");
        assert!(limit("Max cpu time") <= 13, "{limits}");
        assert_eq!((limit("Max core file size"), limit("Max file size")), (0, 0));
        assert_eq!(read("oom_score_adj").trim(), "1000");
        assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        let stat = read("stat");
        let nice = stat.rsplit(") ").next().expect("figures").split(' ').nth(16);
        assert_eq!(nice, Some("5"), "{stat}");
    }
    // Lists do not wait for statements.
    let services = server.ask(here.path(), &["services"]);
    assert!(services.lines().any(|line| line.starts_with("shop ")), "{services}");
    server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);
    drop(asked);
    until("end of the workers", || workers(&server).is_empty());
    let rows = server.ask(here.path(), &["sql", "SELECT count(*) AS n FROM spans"]);
    assert!(rows.starts_with("n\n2\n"), "{rows}");
    let url = format!("http://{}", server.http);
    for (statement, told) in [
        (format!("SELECT 1{}", "+1".repeat(30_000)), "levels"),
        ("SELECT length(repeat('x', 2000000000))".to_owned(), "memory"),
        ("SELECT array_length(range(0, 1000000000))".to_owned(), "memory"),
        ("DROP TABLE spans".to_owned(), "DDL"),
    ] {
        let output = run(here.path(), &["sql", &statement, "--url", &url]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(told), "{said}");
    }
    let plan = server.ask(here.path(), &["sql", "EXPLAIN SELECT service FROM spans"]);
    assert!(plan.contains("TableScan: spans projection=[service]\n"), "{plan}");
    let plan = server.ask(here.path(), &["sql", "EXPLAIN ANALYZE SELECT count(*) FROM spans"]);
    assert!(plan.contains("output_rows=1"), "{plan}");
}

#[test]
fn nobody_starts_a_worker_by_hand() {
    let here = tempfile::tempdir().expect("a directory");
    let output = run(here.path(), &["sql-worker"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("only the server"), "{}", text(&output.stderr));
}
