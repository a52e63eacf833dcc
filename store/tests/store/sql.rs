//! What statements may do, and what they may not.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore, run_sql_worker};
use spanwise_store::{MAX_ANSWER_BYTES, SqlAnswer, SqlFunctions, SqlLimits, Store, StoreError};

use super::support::{append, in_files, in_memory, open, span, spans, until_in_files};

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(30), rows: 1000, memory_bytes: 64 << 20 };

/// Not a test: the process in which statements of other tests run.
#[test]
#[ignore = "a part of other tests"]
fn worker() {
    let input = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    if let Ok(output) = File::options().write(true).open("/proc/self/fd/3") {
        let _ = run_sql_worker(input, output.into());
    }
}

/// All cells of an answer's first column, as texts.
fn texts(answer: &[RecordBatch]) -> Vec<String> {
    let cells = answer.iter().flat_map(|batch| {
        let cell = |row| arrow::util::display::array_value_to_string(batch.column(0), row);
        (0..batch.num_rows()).map(move |row| cell(row).expect("a text")).collect::<Vec<_>>()
    });
    cells.collect()
}

#[tokio::test]
async fn attributes_are_read_by_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    append(&*store, 0..10).await;
    until_in_files(&*store).await;
    append(&*store, 10..20).await;
    let answer = store
        .sql(
            "SELECT attribute(attributes, 'n') AS n, attribute(attributes, 'absent') AS absent \
             FROM spans WHERE attribute(attributes, 'http.route') = '/pay' ORDER BY start_unix_nano",
            LIMITS,
        )
        .await
        .expect("answered");
    let found: Vec<&str> = answer
        .iter()
        .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten())
        .collect();
    assert_eq!(found, ["1", "3", "5", "7", "9", "11", "13", "15", "17", "19"]);
    assert!(answer.iter().all(|batch| batch.column(1).null_count() == batch.num_rows()));
}

#[tokio::test]
async fn ids_can_be_read_and_compared_as_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    append(&*store, 0..10).await;
    until_in_files(&*store).await;
    let answer = store
        .sql("SELECT count(*) FROM spans WHERE encode(span_id, 'hex') = '0000000000000004'", LIMITS)
        .await
        .expect("answered");
    let count = answer[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0);
    assert_eq!(count, 1);
}

#[tokio::test]
async fn only_reading_is_allowed() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_memory(directory.path())).await;
    append(&*store, 0..10).await;
    for statement in [
        "DROP TABLE spans",
        "DELETE FROM spans",
        "INSERT INTO spans SELECT * FROM spans",
        "UPDATE spans SET service = 'x'",
        "CREATE TABLE t AS SELECT 1",
        "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/'",
        "COPY spans TO '/tmp/spanwise-must-not-be.parquet'",
        "SET datafusion.execution.batch_size = 1",
        "SELECT * FROM '/etc/passwd'",
        "SELECT 1; SELECT 2",
        "SELECT absent FROM spans",
        "SELEC",
        "",
        "SELECT attribute(service, 'x') FROM spans",
        "SELECT attribute(attributes, service) FROM spans",
        "SELECT 1/0",
    ] {
        let error = store.sql(statement, LIMITS).await.expect_err(statement);
        assert!(matches!(error, StoreError::Invalid(_)), "{statement}: {error:?}");
    }
    assert_eq!(store.status().recent_rows, 10);
    assert!(!std::path::Path::new("/tmp/spanwise-must-not-be.parquet").exists());
}

#[tokio::test]
async fn limits_hold() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_memory(directory.path())).await;
    append(&*store, 0..1000).await;
    let many = "SELECT a.span_id FROM spans a, spans b";
    let answer = store.sql(many, SqlLimits { rows: 17, ..LIMITS }).await.expect("answered");
    assert_eq!(answer.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>(), 17);

    let endless = "SELECT count(*) FROM spans a, spans b, spans c, spans d WHERE \
                   a.duration_nano + b.duration_nano + c.duration_nano > d.duration_nano";
    let begin = std::time::Instant::now();
    let short = SqlLimits { timeout: Duration::from_millis(300), ..LIMITS };
    let error = store.sql(endless, short).await.expect_err("stopped");
    assert!(matches!(error, StoreError::Limit(_)), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(5));

    let large = "SELECT a.resource, b.operation, array_agg(a.attributes) FROM spans a, spans b \
                 GROUP BY a.resource, b.operation, a.span_id, b.span_id";
    let little = SqlLimits { memory_bytes: 4 << 20, ..LIMITS };
    let error = store.sql(large, little).await.expect_err("stopped");
    assert!(matches!(error, StoreError::Limit(_)), "{error:?}");
    // The store still answers.
    assert!(store.sql("SELECT 1", LIMITS).await.is_ok());
}

#[tokio::test]
async fn attributes_that_are_not_named_are_read_where_they_matter() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    append(&*store, 0..20).await;
    until_in_files(&*store).await;
    let by_n = "attribute(attributes, 'n') = '5'";
    for (statement, value) in [
        (format!("SELECT array_length(map_keys(attributes)) FROM spans WHERE {by_n}"), "4"),
        (format!("SELECT cardinality(attributes) FROM spans WHERE {by_n}"), "4"),
        (format!("SELECT cardinality(a) FROM (SELECT attributes a FROM spans WHERE {by_n})"), "4"),
        ("SELECT count(*) FROM (SELECT * FROM spans UNION SELECT * FROM spans)".to_owned(), "20"),
        ("SELECT count(*) FROM (SELECT * FROM spans INTERSECT SELECT * FROM spans)".into(), "20"),
        ("SELECT count(*) FROM (SELECT DISTINCT * FROM spans)".to_owned(), "20"),
        (
            "SELECT count(DISTINCT attribute(attributes, 'n')) FROM spans \
             WHERE attribute(attributes, 'http.route') = '/pay'"
                .to_owned(),
            "10",
        ),
        (
            "SELECT count(*) FROM spans a JOIN spans b \
             ON attribute(a.attributes, 'n') = attribute(b.attributes, 'n') \
             WHERE attribute(b.attributes, 'cached') = 'true'"
                .to_owned(),
            "10",
        ),
    ] {
        let answer = store.sql(&statement, LIMITS).await.expect(&statement);
        assert_eq!(texts(&answer), [value], "{statement}");
    }
    for statement in [
        format!("SELECT * FROM spans WHERE {by_n}"),
        format!("WITH x AS (SELECT * FROM spans) SELECT * FROM x WHERE {by_n}"),
    ] {
        let answer = store.sql(&statement, LIMITS).await.expect(&statement);
        assert_eq!(spans(&answer)[0].attributes, span(5).attributes, "{statement}");
    }
}

/// A store with this many spans.
async fn with_spans(count: u64) -> (std::sync::Arc<EmbeddedStore>, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_memory(directory.path())).await;
    append(&*store, 0..count).await;
    (store, directory)
}

#[tokio::test]
async fn attributes_of_resources_are_read_by_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    append(&*store, 0..10).await;
    until_in_files(&*store).await;
    append(&*store, 10..20).await;
    let statement = "SELECT DISTINCT resource_attribute(resource, 'service.name') FROM spans \
                     WHERE resource_attribute(resource, 'absent') IS NULL";
    assert_eq!(texts(&store.sql(statement, LIMITS).await.expect("answered")), ["cart"]);
    let plain = r#"SELECT resource_attribute('{"a": 1.5, "b": [1, "x"], "c": null}', KEY)"#;
    for (key, value) in [("'a'", "1.5"), ("'b'", r#"[1,"x"]"#), ("'c'", ""), ("'d'", "")] {
        let answer = store.sql(&plain.replace("KEY", key), LIMITS).await.expect("answered");
        assert_eq!(texts(&answer), [value], "{key}");
    }
}

#[tokio::test]
async fn times_in_the_statement_are_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    append(&*store, 0..10).await;
    until_in_files(&*store).await;
    append(&*store, 10..20).await;
    until_in_files(&*store).await;
    let at = |n: i64| super::support::BEGIN_UNIX_NANO + n * super::support::SECOND_NANO;
    for (condition, count) in [
        (format!("start_unix_nano >= {}", at(12)), "8"),
        (format!("{} > start_unix_nano", at(3)), "3"),
        (format!("start_unix_nano = {}", at(15)), "1"),
        (format!("start_unix_nano BETWEEN {} AND {}", at(8), at(11)), "4"),
        ("start_unix_nano < 0".to_owned(), "0"),
    ] {
        let statement = format!("SELECT count(*) FROM spans WHERE {condition}");
        let answer = store.sql(&statement, LIMITS).await.expect("answered");
        assert_eq!(texts(&answer), [count], "{condition}");
    }
}

/// Statements that would each take gigabytes or minutes, or overflow a stack.
fn attacks() -> Vec<String> {
    let chain = |operand: &str, operator: &str| {
        let count = 60_000 / (operand.len() + operator.len());
        format!("SELECT {}", vec![operand; count].join(operator))
    };
    let nested = |open: &str, inner: &str, close: &str, count: usize| {
        format!("SELECT {}{inner}{}", open.repeat(count), close.repeat(count))
    };
    let doubling: Vec<String> =
        (1..25).map(|n| format!("t{n} AS (SELECT a.n FROM t{0} a, t{0} b)", n - 1)).collect();
    let unions = vec!["SELECT 1 AS n"; 4_000].join(" UNION ALL ");
    let joined: Vec<String> = (0..4_000).map(|n| format!("spans t{n}")).collect();
    let mut attacks: Vec<String> = [
        "SELECT length(repeat('x', 3000000000))",
        "SELECT sum(length(repeat(operation, 1000000))) FROM spans",
        "SELECT count(*) FROM range(0, 100000000000) a, range(0, 1000000) b",
        "SELECT array_length(range(0, 1000000000))",
        "SELECT array_length(array_repeat(repeat('x', 1000), 100000000))",
        "SELECT length(encode(repeat('x', 600000000), 'hex'))",
        "SELECT length(a.t || b.t) FROM (SELECT repeat('x', 200000000) t) a, \
         (SELECT repeat('y', 200000000) t) b",
        "SELECT max(length(lpad(operation, 100000000, 'x'))) FROM spans",
        "SELECT length(regexp_replace(repeat('x', 20000000), 'x', repeat('y', 1000), 'g'))",
        "SELECT length(replace(repeat('x', 20000000), 'x', repeat('y', 1000)))",
        "SELECT array_agg(repeat(a.operation, 1000)) FROM spans a, spans b, spans c",
        "SELECT string_agg(repeat(a.operation, 1000), ',') FROM spans a, spans b, spans c",
        "SELECT a.* FROM spans a, spans b, spans c ORDER BY b.span_id, a.attributes['n']",
        "SELECT count(DISTINCT repeat('x', 1000000) || a.span_id || b.span_id) \
         FROM spans a, spans b, spans c",
    ]
    .map(str::to_owned)
    .into();
    attacks.extend([
        chain("1", "+"),
        chain("'x'", "||"),
        chain("true", " AND "),
        chain("service = 'x'", " OR ") + " FROM spans",
        chain("1", "<"),
        format!("SELECT 1{}", "::int".repeat(12_000)),
        format!("SELECT attributes{} FROM spans", "['n']".repeat(12_000)),
        format!("SELECT 1{}", " IS NULL".repeat(7_000)),
        format!("SELECT {}1", "- ".repeat(30_000)),
        format!("SELECT {}true", "NOT ".repeat(15_000)),
        nested("(", "1", ")", 20_000),
        nested("abs(", "1", ")", 10_000),
        nested("[", "1", "]", 20_000),
        nested("CASE WHEN true THEN ", "1", " END", 2_000),
        nested("CAST(", "1", " AS INT)", 5_000),
        nested("(SELECT ", "1", ")", 5_000),
        nested("arrow_cast(1, '", "", "')", 4_000),
        format!("SELECT CAST(1 AS {}INT{})", "ARRAY<".repeat(8_000), ">".repeat(8_000)),
        format!("SELECT 1 FROM {}spans{}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("{}SELECT 1", "EXPLAIN ".repeat(7_000)),
        format!("WITH t0 AS (SELECT 1 AS n), {} SELECT count(*) FROM t24", doubling.join(", ")),
        unions,
        format!("SELECT count(*) FROM {}", joined.join(", ")),
    ]);
    attacks
}

#[tokio::test]
async fn no_statement_hurts_and_each_is_told_why_it_was_refused() {
    let (store, _directory) = with_spans(1_000).await;
    let limits = SqlLimits { timeout: Duration::from_secs(2), rows: 100, memory_bytes: 512 << 20 };
    let try_each = async |attacks: &[String]| {
        for attack in attacks {
            let short: String = attack.chars().take(70).collect();
            match store.sql(attack, limits).await {
                Err(StoreError::Invalid(told) | StoreError::Limit(told)) => {
                    assert!(told.len() < 2_000 && !told.contains("bug"), "{short}: {told}");
                    assert!(!told.contains("were running"), "{short}: {told}");
                }
                other => panic!("{short}: {other:?}"),
            }
        }
    };
    // As many as may run at the same time.
    let attacks = attacks();
    let (some, others) = attacks.split_at(attacks.len() / 2);
    tokio::join!(try_each(some), try_each(others));
    assert_eq!(texts(&store.sql("SELECT 1", LIMITS).await.expect("answered")), ["1"]);
    // Workers have their own limits, which the tests of `spanwise` check.
    let peak = peak_mebibytes();
    assert!(peak < 1024, "this process took {peak} MiB");
}

fn peak_mebibytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    line.split_whitespace().nth(1).expect("KiB").parse::<usize>().expect("a number") >> 10
}

async fn refusal(store: &EmbeddedStore, statement: &str) -> String {
    match store.sql(statement, LIMITS).await {
        Err(StoreError::Invalid(told) | StoreError::Limit(told)) => told,
        other => panic!("{statement}: {other:?}"),
    }
}

#[tokio::test]
async fn deep_statements_run_up_to_a_bound_that_is_told() {
    let (store, _directory) = with_spans(10).await;
    let chain = |operators: usize| format!("SELECT 1{}", " + 1".repeat(operators));
    assert_eq!(texts(&store.sql(&chain(290), LIMITS).await.expect("answered")), ["291"]);
    assert!(refusal(&store, &chain(310)).await.contains("more than 300 levels"));
    let or = |count: usize| {
        format!(
            "SELECT count(*) FROM spans WHERE false{}",
            " OR duration_nano = 1000".repeat(count)
        )
    };
    assert_eq!(texts(&store.sql(&or(145), LIMITS).await.expect("answered")), ["1"]);
    let unions = |count: usize| vec!["SELECT n FROM (VALUES (1)) t(n)"; count].join(" UNION ALL ");
    assert_eq!(texts(&store.sql(&unions(20), LIMITS).await.expect("answered")), ["1"; 20]);
    assert!(refusal(&store, &unions(21)).await.contains("more than 60 tables"));
    // A long list is not deep.
    let list = (0..5_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let listed = format!("SELECT count(*) FROM spans WHERE duration_nano IN ({list})");
    assert_eq!(texts(&store.sql(&listed, LIMITS).await.expect("answered")), ["5"]);
    let long = format!("SELECT '{}'", "x".repeat(100_000));
    assert!(refusal(&store, &long).await.contains("bytes long"));
}

#[tokio::test]
async fn plans_are_explained_line_by_line() {
    let (store, _directory) = with_spans(10).await;
    let plan_of = async |statement: &str| {
        let answer: SqlAnswer = store.sql(statement, LIMITS).await.expect(statement);
        let lines = answer.iter().flat_map(|batch| {
            let column = batch.column(1).as_string::<i32>();
            column.iter().flatten().map(str::to_owned).collect::<Vec<_>>()
        });
        lines.collect::<Vec<_>>()
    };
    let counted = "SELECT service, count(*) FROM spans GROUP BY service";
    for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN FORMAT tree", "EXPLAIN FORMAT INDENT"] {
        let lines = plan_of(&format!("{explain} {counted}")).await;
        assert!(lines.iter().any(|line| line.contains("Aggregate")), "{explain}: {lines:?}");
        assert!(lines.len() > 3 && lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
    }
    let lines = plan_of(&format!("EXPLAIN ANALYZE {counted}")).await;
    assert!(lines.iter().any(|line| line.contains("output_rows=3")), "{lines:?}");
    for statement in ["EXPLAIN DROP TABLE spans", "EXPLAIN COPY spans TO '/tmp/x.parquet'"] {
        refusal(&store, statement).await;
    }
}

#[tokio::test]
async fn scans_that_are_given_up_leave_nothing_behind() {
    let (store, _directory) = with_spans(10).await;
    // Each step scans the table again and reads one row.
    let statement = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t, \
                     (SELECT service FROM spans LIMIT 1) WHERE n < 500) SELECT count(*) FROM t";
    assert_eq!(texts(&store.sql(statement, LIMITS).await.expect("answered")), ["500"]);
}

#[tokio::test]
async fn errors_say_what_helps() {
    let (store, _directory) = with_spans(10).await;
    for (statement, told) in [
        ("SELECT sum(attribute(attributes, 'n')) FROM spans", "AS DOUBLE"),
        ("SELECT avg(service) FROM spans", "CAST"),
        ("SELECT CAST(service AS DOUBLE) FROM spans", "TRY_CAST"),
        ("SELECT resource_attribute('service.name') FROM spans", "(resource, '"),
        ("SELECT attribute('n') FROM spans", "(attributes, '"),
        ("SELECT absent FROM spans", "absent"),
        ("SELECT * FROM 'spans.parquet'", "spans"),
    ] {
        let said = refusal(&store, statement).await;
        assert!(said.contains(told), "{statement}: {said}");
        assert!(!said.contains("bug") && !said.contains("github"), "{statement}: {said}");
    }
    let statement = "SELECT sum(CAST(attribute(attributes, 'n') AS DOUBLE)) FROM spans";
    assert_eq!(texts(&store.sql(statement, LIMITS).await.expect("answered")), ["45.0"]);
}

#[tokio::test]
async fn answers_are_bounded_in_bytes_and_say_so() {
    let (store, _directory) = with_spans(100).await;
    let limits = SqlLimits { memory_bytes: 512 << 20, ..LIMITS };
    let whole = store.sql("SELECT * FROM spans", limits).await.expect("answered");
    assert!(!whole.truncated);
    let fewer = SqlLimits { rows: 99, ..limits };
    assert!(store.sql("SELECT * FROM spans", fewer).await.expect("answered").truncated);
    let exactly = SqlLimits { rows: 100, ..limits };
    assert!(!store.sql("SELECT * FROM spans", exactly).await.expect("answered").truncated);
    drop(whole);
    let large = "SELECT repeat('x', 1000000) FROM spans";
    let answer = store.sql(large, limits).await.expect("answered");
    let rows: usize = answer.iter().map(RecordBatch::num_rows).sum();
    assert!(answer.truncated && (30..=67).contains(&rows), "{rows}");
    let size = |batch: &RecordBatch| batch.column(0).to_data().get_slice_memory_size().unwrap();
    let bytes: usize = answer.iter().map(size).sum();
    assert!(bytes <= MAX_ANSWER_BYTES + (1 << 20), "{bytes}");
    // Answers in memory occupy slots like running statements.
    let second = store.sql("SELECT 1", limits).await.expect("answered");
    let waiting = SqlLimits { timeout: Duration::from_millis(50), ..limits };
    let error = store.sql("SELECT 1", waiting).await.expect_err("no room");
    assert!(error.to_string().contains("other statements"), "{error}");
    // The program's own statements do not wait for them.
    assert!(store.own_sql("SELECT count(*) FROM spans", LIMITS).await.is_ok());
    drop((answer, second));
    let row = "SELECT repeat(chr(120 + value), 70000000) FROM range(0, 1)";
    let error = store.sql(row, limits).await.expect_err("too large");
    assert!(error.to_string().contains("one row"), "{error}");
}

/// A table function: its arguments with their numbers.
struct Echo;

impl SqlFunctions for Echo {
    fn names(&self) -> &[&'static str] {
        &["echo"]
    }

    fn call(&self, name: &str, arguments: &[String]) -> Result<RecordBatch, StoreError> {
        if arguments.iter().any(|argument| argument == "slow") {
            return Err(StoreError::Limit("too slow".to_owned()));
        }
        if arguments.is_empty() {
            return Err(StoreError::Invalid(format!("{name} needs a text")));
        }
        let texts: ArrayRef = Arc::new(StringArray::from(arguments.to_vec()));
        RecordBatch::try_from_iter([("said", texts)])
            .map_err(|error| StoreError::Invalid(error.to_string()))
    }

    fn instead(&self, name: &str) -> String {
        format!("{name} is not here")
    }
}

#[tokio::test]
async fn table_functions_are_asked_of_the_server_by_the_worker() {
    let directory = tempfile::tempdir().expect("a directory");
    for store in [
        open(in_memory(&directory.path().join("worker"))).await,
        open(EmbeddedConfig { sql_worker: None, ..in_memory(&directory.path().join("here")) })
            .await,
    ] {
        append(&*store, 0..3).await;
        let ask = |statement: &'static str| store.sql_with(statement, Arc::new(Echo), LIMITS);
        let answer = ask("SELECT e.said FROM echo('a', 7) e, echo('x') f, spans \
             WHERE e.said <> f.said ORDER BY 1 LIMIT 4");
        assert_eq!(texts(&answer.await.expect("answered")), ["7", "7", "7", "a"]);
        let invalid = ask("SELECT * FROM echo()").await;
        assert!(matches!(invalid, Err(StoreError::Invalid(why)) if why == "echo needs a text"));
        let limited = ask("SELECT * FROM echo('slow')").await;
        assert!(matches!(limited, Err(StoreError::Limit(why)) if why == "too slow"));
        let expression = ask("SELECT * FROM echo(now())").await;
        assert!(matches!(expression, Err(StoreError::Invalid(why)) if why.contains("takes texts")));
        // Without functions, there is no such table.
        let without = store.sql("SELECT * FROM echo('a')", LIMITS).await;
        assert!(matches!(without, Err(StoreError::Invalid(_))));
    }
}
