//! The program with spans in ClickHouse: all kinds of queries.

use std::path::Path;

use crate::support::{Server, otlp, post, run, text};

// Some items are only for the store's own tests.
#[allow(dead_code)]
#[path = "../../../store/tests/store/clickhouse/server.rs"]
mod server;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn start(here: &Path, store: &str) -> Server {
    Server::start(here, "server", &["--store", store])
}

#[test]
fn every_question_is_answered_from_clickhouse_as_from_files() {
    let here = tempfile::tempdir().expect("a directory");
    let database = server::shared().new_database();
    let store = server::shared().address(&database);
    let server = start(here.path(), &store);
    assert_eq!(post(server.otlp_http, "/v1/traces", &otlp(TRACE, "shop")).0, 200);
    // At once, from the spool.
    server.ask_until(here.path(), &["search", "--service", "shop"], TRACE);
    // Some seconds later, from ClickHouse.
    let count = ["sql", "SELECT count(*) AS n FROM spans"];
    server.ask_until(here.path(), &count, "n\n2\n");
    let late = "00000000000000010000000000000002";
    assert_eq!(post(server.otlp_http, "/v1/traces", &otlp(late, "late")).0, 200);
    server.kill();

    let server = start(here.path(), &store);
    server.ask_until(here.path(), &count, "n\n4\n");
    let status = server.ask(here.path(), &["status"]);
    assert!(status.contains("clickhouse") && status.contains("rows_inserted"), "{status}");
    assert!(!status.contains("warning"), "{status}");
    let list = server.ask(here.path(), &["search"]);
    assert!(list.contains(TRACE) && list.contains(late), "{list}");
    let tree = server.ask(here.path(), &["trace", TRACE]);
    assert!(tree.contains("25.0 ms  2 spans  1 service  2 errors"), "{tree}");
    assert!(tree.contains("└─ shop price no price  [app]"), "{tree}");
    let services = server.ask(here.path(), &["services"]);
    for service in ["shop ", "late "] {
        assert!(services.lines().any(|line| line.starts_with(service)), "{services}");
    }
    let filtered = ["search", "--attribute", "http.response.status_code=500", "--status", "error"];
    assert!(server.ask(here.path(), &filtered).contains(TRACE));
    for (path, wanted) in
        [("/api/v1/operations?service=shop", "GET /cart"), ("/api/v1/graph", "shop")]
    {
        let (code, body) = crate::support::get(server.http, path);
        assert!(code == 200 && body.contains(wanted), "{path}: {code} {body}");
    }
    let url = format!("http://{}", server.http);
    let output = run(here.path(), &["sql", "DROP TABLE spans", "--url", &url]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(server::shared().ask(&format!("SELECT count() FROM {database}.spans")), "4");
}
