//! Users' statements, executed by ClickHouse. They can only read, and cannot change their limits.

use std::time::Duration;

use arrow::array::RecordBatch;

use super::client::Client;
use super::conform::spans_where_they_are;
use super::failure::{Kind, RequestError};
use super::schema::{DAY, INSERT_ID};
use crate::contract::{MAX_ANSWER_BYTES, MAX_STATEMENT_BYTES, SqlAnswer, SqlLimits, StoreError};
use crate::embedded::engine;
use crate::room::Rooms;

/// The functions `attribute(attributes, 'key')` and `resource_attribute(resource, 'key')`, as in
/// the embedded store: how a statement calls them, and how they are defined.
const FUNCTIONS: [(&str, &str); 2] = [
    (
        "resource_attribute(",
        "(r, k) -> multiIf(JSONType(r, k) = 'Null', NULL, \
         JSONType(r, k) = 'String', JSONExtractString(r, k), JSONExtractRaw(r, k)) \
         AS resource_attribute",
    ),
    ("attribute(", "(m, k) -> if(mapContains(m, k), tupleElement(m[k], 2), NULL) AS attribute"),
];

/// Maximum depth and number of elements of a statement, also after its aliases have been expanded.
/// An alias may stand for another statement.
const MOST_LEVELS: usize = 500;
const MOST_ELEMENTS: usize = 50_000;
/// Maximum result bytes as ClickHouse counts them. The client reads at most the maximum size of an
/// answer.
const MOST_READY_BYTES: usize = 4 * MAX_ANSWER_BYTES;

/// ClickHouse checks its timeout only now and then.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// Which of these functions the statement seems to call.
pub(super) fn called<'a>(statement: &str, names: &[&'a str]) -> Option<&'a str> {
    let lower = statement.to_ascii_lowercase();
    let calls = |name: &str| {
        lower.match_indices(name).any(|(at, _)| {
            let is_word = |character: char| character.is_alphanumeric() || character == '_';
            !lower[..at].ends_with(is_word)
                && lower[at + name.len()..].trim_start().starts_with('(')
        })
    };
    names.iter().copied().find(|name| calls(name))
}

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
        // No writes, no changes of settings, no access to files or addresses.
        ("readonly", "1".to_owned()),
        ("max_execution_time", format!("{:.3}", limits.timeout.as_secs_f64())),
        ("timeout_before_checking_execution_speed", "0".to_owned()),
        ("max_memory_usage", limits.memory_bytes.to_string()),
        // One row more than requested shows whether there are more.
        ("max_result_rows", limits.rows.saturating_add(1).to_string()),
        ("max_result_bytes", MOST_READY_BYTES.to_string()),
        ("result_overflow_mode", "break".to_owned()),
        ("max_query_size", (2 * MAX_STATEMENT_BYTES).to_string()),
        ("max_ast_depth", MOST_LEVELS.to_string()),
        ("max_parser_depth", MOST_LEVELS.to_string()),
        ("max_ast_elements", MOST_ELEMENTS.to_string()),
        ("max_expanded_ast_elements", MOST_ELEMENTS.to_string()),
        // Standard SQL rules where ClickHouse's differ.
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
        // ClickHouse applies limits to whole blocks.
        truncated |= batch.num_rows() > rows;
        let batch = batch.slice(0, batch.num_rows().min(rows));
        rows -= batch.num_rows();
        if batch.num_rows() > 0 {
            batches.push(of_spans(statement, &batch)?);
        }
    }
    match answer.schema {
        // Returns the columns even if there are no rows.
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

/// The answer as from every store: `SELECT *` returns the columns of spans, without ClickHouse's
/// own columns.
fn of_spans(statement: &str, batch: &RecordBatch) -> Result<RecordBatch, StoreError> {
    let is_meant = |name: &str| ![DAY, INSERT_ID].contains(&name) || statement.contains(name);
    let fields = batch.schema_ref().fields().iter().enumerate();
    let meant: Vec<usize> =
        fields.filter(|(_, field)| is_meant(field.name())).map(|(index, _)| index).collect();
    let batch = batch.project(&meant).map_err(engine("cannot leave columns out"))?;
    Ok(spans_where_they_are(batch))
}

/// Prepends the definitions of our functions, if the statement uses them.
fn with_functions(statement: &str) -> String {
    let trimmed = statement.trim_start();
    let mut rest = trimmed.to_ascii_lowercase();
    let is_select = rest.starts_with("select");
    let is_with = rest.starts_with("with ");
    let mut used = Vec::new();
    for (written, function) in FUNCTIONS {
        if rest.contains(written) {
            // One function's name is a suffix of the other's.
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

/// Maps the error to its cause: the statement, a limit, or ClickHouse.
fn refused(trouble: RequestError, limits: SqlLimits) -> StoreError {
    let late = || {
        StoreError::Limit(format!(
            "it took longer than {:?}; ask for fewer columns or a shorter time",
            limits.timeout
        ))
    };
    match (trouble.kind(), &trouble) {
        (_, RequestError::Late(_) | RequestError::Refused { code: 159 | 160 | 394, .. }) => late(),
        (Kind::Limit, _) => StoreError::Limit(format!(
            "it needs more memory than a statement may take; ask for less ({trouble})"
        )),
        (Kind::Other, RequestError::Refused { message, .. } | RequestError::Strange(message)) => {
            StoreError::Invalid(format!("{message}. One SELECT over the table `spans` can be run"))
        }
        _ => trouble.of_question(),
    }
}
