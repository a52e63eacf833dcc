//! Statements that people type, run by ClickHouse: it reads and nothing else,
//! and no statement can lift its limits.

use std::time::Duration;

use arrow::array::RecordBatch;

use super::client::Client;
use super::conform::spans_where_they_are;
use super::failure::{Kind, Trouble};
use super::schema::{DAY, INSERT_ID};
use crate::contract::{MAX_ANSWER_BYTES, MAX_STATEMENT_BYTES, SqlAnswer, SqlLimits, StoreError};
use crate::embedded::engine;
use crate::room::Rooms;

/// The functions `attribute(attributes, 'key')` and `resource_attribute(resource,
/// 'key')`, as in the embedded store: how they are written in a statement, and what
/// they are.
const FUNCTIONS: [(&str, &str); 2] = [
    (
        "resource_attribute(",
        "(r, k) -> multiIf(JSONType(r, k) = 'Null', NULL, \
         JSONType(r, k) = 'String', JSONExtractString(r, k), JSONExtractRaw(r, k)) \
         AS resource_attribute",
    ),
    ("attribute(", "(m, k) -> if(mapContains(m, k), tupleElement(m[k], 2), NULL) AS attribute"),
];

/// How deep a statement may be, and how many elements it may have, also once its
/// names have been put in: a name may stand for another statement.
const MOST_LEVELS: usize = 500;
const MOST_ELEMENTS: usize = 50_000;
/// What ClickHouse makes ready, by its own count; of that as much is read as an
/// answer may take.
const MOST_READY_BYTES: usize = 4 * MAX_ANSWER_BYTES;

/// ClickHouse looks at its clock now and then.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// Runs one statement over the table `spans`.
pub(super) async fn run(
    client: &Client,
    rooms: &Rooms,
    statement: &str,
    limits: SqlLimits,
) -> Result<SqlAnswer, StoreError> {
    let room = rooms.take(limits.timeout).await?;
    if statement.len() > MAX_STATEMENT_BYTES {
        return Err(StoreError::Invalid(format!(
            "the statement is {} bytes long; at most {MAX_STATEMENT_BYTES} are allowed",
            statement.len()
        )));
    }
    if statement.trim().is_empty() {
        return Err(StoreError::Invalid("the statement is empty".to_owned()));
    }
    let settings = [
        // Nothing is written, no setting is changed, no file or address is read.
        ("readonly", "1".to_owned()),
        ("max_execution_time", format!("{:.3}", limits.timeout.as_secs_f64())),
        ("timeout_before_checking_execution_speed", "0".to_owned()),
        ("max_memory_usage", limits.memory_bytes.to_string()),
        // One more than is wanted tells whether there are more.
        ("max_result_rows", limits.rows.saturating_add(1).to_string()),
        ("max_result_bytes", MOST_READY_BYTES.to_string()),
        ("result_overflow_mode", "break".to_owned()),
        ("max_query_size", (2 * MAX_STATEMENT_BYTES).to_string()),
        ("max_ast_depth", MOST_LEVELS.to_string()),
        ("max_parser_depth", MOST_LEVELS.to_string()),
        ("max_ast_elements", MOST_ELEMENTS.to_string()),
        ("max_expanded_ast_elements", MOST_ELEMENTS.to_string()),
        // SQL's own rules, where ClickHouse's differ.
        ("prefer_column_name_to_alias", "1".to_owned()),
        ("join_use_nulls", "1".to_owned()),
        ("union_default_mode", "DISTINCT".to_owned()),
    ];
    let answer = client
        .read_first(
            &with_functions(statement),
            &settings,
            MAX_ANSWER_BYTES,
            limits.timeout + STOPS_WITHIN,
        )
        .await
        .map_err(|trouble| refused(trouble, limits))?;
    let (mut rows, mut truncated) = (limits.rows, answer.is_cut);
    let mut batches = Vec::new();
    for batch in answer.batches {
        // ClickHouse counts whole blocks.
        truncated |= batch.num_rows() > rows;
        let batch = batch.slice(0, batch.num_rows().min(rows));
        rows -= batch.num_rows();
        if batch.num_rows() > 0 {
            batches.push(of_spans(statement, &batch)?);
        }
    }
    match answer.schema {
        // The columns are told even where there are no rows.
        Some(schema) if batches.is_empty() => {
            batches.push(of_spans(statement, &RecordBatch::new_empty(schema))?);
        }
        Some(_) => {}
        None => {
            return Err(StoreError::Invalid(
                "the statement has no result. One SELECT over the table `spans` can be run"
                    .to_owned(),
            ));
        }
    }
    Ok(SqlAnswer { batches, truncated, room })
}

/// The answer as every store gives it: `SELECT *` means the columns of spans, not
/// those that place a row here.
fn of_spans(statement: &str, batch: &RecordBatch) -> Result<RecordBatch, StoreError> {
    let is_meant = |name: &str| ![DAY, INSERT_ID].contains(&name) || statement.contains(name);
    let fields = batch.schema_ref().fields().iter().enumerate();
    let meant: Vec<usize> =
        fields.filter(|(_, field)| is_meant(field.name())).map(|(index, _)| index).collect();
    let batch = batch.project(&meant).map_err(engine("cannot leave columns out"))?;
    Ok(spans_where_they_are(batch))
}

/// Puts our functions before the statement's own names, where it uses them.
fn with_functions(statement: &str) -> String {
    let trimmed = statement.trim_start();
    let mut rest = trimmed.to_ascii_lowercase();
    let is_select = rest.starts_with("select");
    let is_with = rest.starts_with("with ");
    let mut used = Vec::new();
    for (written, function) in FUNCTIONS {
        if rest.contains(written) {
            // The name of one ends with that of the other.
            rest = rest.replace(written, "");
            used.push(function);
        }
    }
    match used.join(", ") {
        functions if functions.is_empty() => statement.to_owned(),
        functions if is_select => format!("WITH {functions} {statement}"),
        functions if is_with => format!("WITH {functions}, {}", &trimmed[5..]),
        _ => statement.to_owned(),
    }
}

/// Whose fault it is: the asker's, a limit's, or ClickHouse's.
fn refused(trouble: Trouble, limits: SqlLimits) -> StoreError {
    let late = || {
        StoreError::Limit(format!(
            "it took longer than {:?}; ask for fewer columns or a shorter time",
            limits.timeout
        ))
    };
    match (trouble.kind(), &trouble) {
        (_, Trouble::Late(_) | Trouble::Refused { code: 159 | 160 | 394, .. }) => late(),
        (Kind::Limit, _) => StoreError::Limit(format!(
            "it needs more memory than a statement may take; ask for less ({trouble})"
        )),
        (Kind::Other, Trouble::Refused { message, .. } | Trouble::Strange(message)) => {
            StoreError::Invalid(format!("{message}. One SELECT over the table `spans` can be run"))
        }
        _ => trouble.of_question(),
    }
}
