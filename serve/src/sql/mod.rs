//! `GET` and `POST /api/v1/sql`: one read-only statement over the table `spans` and the
//! analyses, in JSON, CSV, Arrow or plain text.

mod bounded_writer;
mod cells;
mod format;
mod functions;
mod text;

use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{Query as UrlQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use spanwise_api::SqlStatement;
use spanwise_api::endpoints::{POST_SQL, SQL};
use spanwise_store::SqlLimits;

use crate::Shared;
use crate::native::Parameters;
use crate::problem::Problem;
use format::{Answer, Format};
use functions::AnalysisFunctions;

const TIMEOUT: Duration = Duration::from_secs(10);
const MEMORY_BYTES: usize = 512 << 20;
/// More than the longest statement that a store accepts.
const MAX_BODY_BYTES: usize = 256 << 10;

pub(crate) async fn get(
    State(shared): State<Shared>,
    headers: HeaderMap,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(&SQL, pairs)?;
    let statement = parameters.text("query").ok_or_else(missing)?;
    let format = Format::wanted(parameters.text("format"), &headers)?;
    run(&shared, statement, format).await
}

pub(crate) async fn post(
    State(shared): State<Shared>,
    headers: HeaderMap,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
    body: Bytes,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(&POST_SQL, pairs)?;
    if body.len() > MAX_BODY_BYTES {
        return Err(Problem::invalid(format!(
            "the body has {} bytes; a statement has {MAX_BODY_BYTES} at most",
            body.len()
        )));
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let posted: SqlStatement = match kind {
        // `curl --data` sends this type for all data, so the body decides.
        "application/json" | "application/x-www-form-urlencoded" | ""
            if body.trim_ascii_start().starts_with(b"{") =>
        {
            serde_json::from_slice(&body)
                .map_err(|error| Problem::invalid(format!("{error}; {EXAMPLE}")))?
        }
        "application/json" => return Err(missing()),
        _ => {
            let query = std::str::from_utf8(&body)
                .map_err(|_| Problem::invalid(format!("the statement is not UTF-8; {EXAMPLE}")))?;
            SqlStatement { query: query.to_owned(), format: None }
        }
    };
    if posted.query.trim().is_empty() {
        return Err(missing());
    }
    let named = parameters.text("format").or(posted.format.as_deref());
    let format = Format::wanted(named, &headers)?;
    run(&shared, &posted.query, format).await
}

const EXAMPLE: &str = "ask with ?query=SELECT…, or POST the statement as text/plain, or POST \
                       {\"query\": \"SELECT …\"} as application/json";

fn missing() -> Problem {
    Problem::invalid(format!("there is no statement; {EXAMPLE}"))
}

/// The first rows of an answer as CSV, of at most so many bytes; and how many they are, if there
/// are more.
pub(crate) async fn csv_of(
    shared: &Shared,
    statement: &str,
    rows: usize,
    most_bytes: usize,
) -> Result<(String, Option<usize>), Problem> {
    let limits = SqlLimits { timeout: TIMEOUT, rows, memory_bytes: MEMORY_BYTES };
    let functions = AnalysisFunctions::new(&shared.queries, &shared.limits);
    let answer = shared.api.store.sql_with(statement, functions, limits).await?;
    let written = tokio::task::spawn_blocking(move || {
        text::csv(&answer.batches, answer.truncated, most_bytes)
    });
    let body = written
        .await
        .map_err(|error| Problem::internal(format!("writing the answer failed: {error}")))?;
    let csv = String::from_utf8(body.bytes)
        .map_err(|error| Problem::internal(format!("writing the answer failed: {error}")))?;
    Ok((csv, body.first_rows))
}

async fn run(shared: &Shared, statement: &str, format: Format) -> Result<Response, Problem> {
    let start = Instant::now();
    let rows = format.most_rows();
    let limits = SqlLimits { timeout: TIMEOUT, rows, memory_bytes: MEMORY_BYTES };
    let functions = AnalysisFunctions::new(&shared.queries, &shared.limits);
    let rows = shared.api.store.sql_with(statement, functions, limits).await?;
    let answer = Answer { rows, elapsed: start.elapsed() };
    // Writing 100,000 rows would delay every other request on this thread.
    tokio::task::spawn_blocking(move || format.write(answer))
        .await
        .map_err(|error| Problem::internal(format!("writing the answer failed: {error}")))?
}
