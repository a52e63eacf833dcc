//! Users' statements on ClickHouse: the same rules as in the embedded store.

use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use spanwise_model::schema::span_schema;
use spanwise_store::{SqlLimits, Store, StoreError};

use super::server::shared;
use super::{open, sending};
use crate::support::{append, until_in_files};

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(30), rows: 1000, memory_bytes: 512 << 20 };

/// A store with this many spans, and its database.
async fn with_spans(count: u64) -> (std::sync::Arc<impl Store>, String, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), directory.path())).await;
    append(&*store, 0..count).await;
    until_in_files(&*store).await;
    (store, database, directory)
}

#[tokio::test]
async fn attributes_are_read_by_key() {
    let (store, _, _directory) = with_spans(20).await;
    for statement in [
        "SELECT attribute(attributes, 'n') AS n, attribute(attributes, 'absent') AS absent \
         FROM spans WHERE attribute(attributes, 'http.route') = '/pay' ORDER BY start_unix_nano",
        "with paid AS (SELECT * FROM spans WHERE attribute(attributes, 'http.route') = '/pay') \
         SELECT attribute(attributes, 'n') AS n, attribute(attributes, 'absent') AS absent \
         FROM paid ORDER BY start_unix_nano",
    ] {
        let answer = store.sql(statement, LIMITS).await.expect("answered");
        let found: Vec<&str> = answer
            .iter()
            .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten())
            .collect();
        assert_eq!(found, ["1", "3", "5", "7", "9", "11", "13", "15", "17", "19"]);
        assert!(answer.iter().all(|batch| batch.column(1).null_count() == batch.num_rows()));
    }
}

#[tokio::test]
async fn columns_are_told_even_without_rows_and_names_mean_columns() {
    let (store, _, _directory) = with_spans(10).await;
    let none = store.sql("SELECT * FROM spans WHERE service = 'nobody'", LIMITS).await.unwrap();
    assert_eq!(none.len(), 1);
    assert_eq!(none[0].schema().fields(), span_schema().fields());
    // In WHERE, an alias does not hide the column of the same name.
    let answer = store
        .sql("SELECT count(*) AS duration_nano FROM spans WHERE duration_nano >= 5000", LIMITS)
        .await
        .expect("answered");
    assert_eq!(serve_like(&answer), "5");
}

fn serve_like(answer: &[RecordBatch]) -> String {
    arrow::util::display::array_value_to_string(answer[0].column(0), 0).expect("a value")
}

#[tokio::test]
async fn only_reading_is_allowed() {
    let (store, database, directory) = with_spans(10).await;
    let file = directory.path().join("must-not-be");
    for statement in [
        "DROP TABLE spans".to_owned(),
        "DELETE FROM spans WHERE 1".to_owned(),
        "TRUNCATE TABLE spans".to_owned(),
        "ALTER TABLE spans DELETE WHERE 1".to_owned(),
        "INSERT INTO spans SELECT * FROM spans".to_owned(),
        "CREATE TABLE t ENGINE = Memory AS SELECT 1".to_owned(),
        "CREATE TEMPORARY TABLE t (n Int8)".to_owned(),
        "SYSTEM SHUTDOWN".to_owned(),
        "SET readonly = 0".to_owned(),
        "SELECT 1 SETTINGS readonly = 0".to_owned(),
        "SELECT 1 SETTINGS max_execution_time = 1000000".to_owned(),
        "SELECT * FROM file('/etc/passwd', 'LineAsString')".to_owned(),
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')".to_owned(),
        "SELECT * FROM executable('sh', 'TSV', 'n String')".to_owned(),
        format!("INSERT INTO FUNCTION file('{}', 'CSV') SELECT 1", file.display()),
        "SELECT 1 FORMAT JSON".to_owned(),
        "SELECT absent FROM spans".to_owned(),
        "SELEC".to_owned(),
        String::new(),
        "SELECT attribute(service, 'x') FROM spans".to_owned(),
        format!("SELECT '{}'", "x".repeat(100_000)),
    ] {
        let error = store.sql(&statement, LIMITS).await.err();
        let short: String = statement.chars().take(60).collect();
        assert!(matches!(error, Some(StoreError::Invalid(_))), "{short}: {error:?}");
    }
    assert_eq!(shared().ask(&format!("SELECT count() FROM {database}.spans")), "10");
    assert!(!file.exists());
}

#[tokio::test]
async fn attributes_of_resources_are_read_by_key() {
    let (store, _, _directory) = with_spans(4).await;
    for (statement, value) in [
        ("SELECT DISTINCT resource_attribute(resource, 'service.name') FROM spans", "cart"),
        (
            "SELECT count(*) FROM spans WHERE resource_attribute(resource, 'absent') IS NULL \
             AND attribute(attributes, 'share') = '0.5'",
            "4",
        ),
    ] {
        let answer = store.sql(statement, LIMITS).await.expect(statement);
        assert_eq!(serve_like(&answer), value, "{statement}");
    }
}

#[tokio::test]
async fn answers_are_bounded_and_depth_is() {
    let (store, _, _directory) = with_spans(10).await;
    let rows = |rows| SqlLimits { rows, ..LIMITS };
    let all = "SELECT span_id FROM spans";
    assert!(store.sql(all, rows(9)).await.expect("answered").truncated);
    assert!(!store.sql(all, rows(10)).await.expect("answered").truncated);
    // Blocks of 65,409 rows with a kilobyte each.
    let large = "SELECT repeat('x', 1000) FROM numbers(200000)";
    let answer = store.sql(large, rows(1_000_000)).await.expect("answered");
    let count: usize = answer.iter().map(RecordBatch::num_rows).sum();
    assert!(answer.truncated && (1..68_000).contains(&count), "{count}");
    drop(answer);
    let block = "SELECT repeat('x', 1000000) FROM numbers(100)";
    let error = store.sql(block, rows(1000)).await.expect_err("too large");
    assert!(matches!(error, StoreError::Limit(_)), "{error:?}");
    for deep in [
        format!("SELECT {}1{}", "(".repeat(2_000), ")".repeat(2_000)),
        format!("SELECT {}1{}", "negate(".repeat(2_000), ")".repeat(2_000)),
        format!("SELECT 1 WHERE 1 IN ({}1)", "1,".repeat(30_000)),
    ] {
        let error = store.sql(&deep, LIMITS).await;
        assert!(matches!(error, Ok(_) | Err(StoreError::Invalid(_))), "{error:?}");
    }
    assert!(store.sql("SELECT 1", LIMITS).await.is_ok());
}

#[tokio::test]
async fn limits_hold() {
    let (store, _, _directory) = with_spans(1000).await;
    let many = "SELECT a.span_id FROM spans a, spans b";
    let answer = store.sql(many, SqlLimits { rows: 17, ..LIMITS }).await.expect("answered");
    assert_eq!(answer.iter().map(RecordBatch::num_rows).sum::<usize>(), 17);

    let endless = "SELECT count(*) FROM spans a, spans b, spans c WHERE \
                   a.duration_nano + b.duration_nano > c.duration_nano";
    let begin = std::time::Instant::now();
    let short = SqlLimits { timeout: Duration::from_millis(300), ..LIMITS };
    let error = store.sql(endless, short).await.expect_err("stopped");
    assert!(matches!(error, StoreError::Limit(_)), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(5));

    let large = "SELECT groupArray(a.attributes) FROM spans a, spans b";
    let little = SqlLimits { memory_bytes: 16 << 20, ..LIMITS };
    let error = store.sql(large, little).await.expect_err("stopped");
    assert!(matches!(error, StoreError::Limit(_)), "{error:?}");
    // The store still answers.
    assert!(store.sql("SELECT 1", LIMITS).await.is_ok());
}
