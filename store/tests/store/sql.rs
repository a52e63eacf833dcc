//! What statements may do and what they may not.

use std::time::Duration;

use arrow::array::{Array, AsArray};
use spanwise_store::{SqlLimits, Store, StoreError};

use super::support::{append, in_files, in_memory, open, until_in_files};

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(30), rows: 1000, memory_bytes: 64 << 20 };

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
    // And it still answers.
    assert!(store.sql("SELECT 1", LIMITS).await.is_ok());
}

#[tokio::test]
async fn deep_statements_end_no_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_memory(directory.path())).await;
    append(&*store, 0..10).await;
    let parentheses = format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000));
    assert!(store.sql(&parentheses, LIMITS).await.is_err());
    // As deep as the greatest length allows.
    let chain = format!("SELECT n FROM (SELECT 1 AS n) WHERE n=1{}", " or n=2".repeat(8000));
    let patient = SqlLimits { timeout: Duration::from_secs(10), ..LIMITS };
    let _ = store.sql(&chain, patient).await;
    let long = format!("SELECT '{}'", "x".repeat(100_000));
    let error = store.sql(&long, LIMITS).await.expect_err("refused");
    assert!(error.to_string().contains("bytes long"), "{error}");
    assert!(store.sql("SELECT 1", LIMITS).await.is_ok());
}
