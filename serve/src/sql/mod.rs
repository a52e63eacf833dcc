//! `GET` and `POST /api/v1/sql`: one read-only statement over `spans`.

use std::time::{Duration, Instant};

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use spanwise_store::SqlLimits;

use crate::problem::Problem;
use crate::{ApiState, cells};

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(10), rows: 10_000, memory_bytes: 512 << 20 };

#[derive(Deserialize)]
pub(crate) struct Statement {
    query: String,
}

pub(crate) async fn get(
    State(state): State<ApiState>,
    statement: Result<UrlQuery<Statement>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let UrlQuery(statement) = statement.map_err(|_| missing())?;
    run(&state, &statement.query).await
}

pub(crate) async fn post(
    State(state): State<ApiState>,
    statement: Result<Json<Statement>, axum::extract::rejection::JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(statement) = statement.map_err(|_| missing())?;
    run(&state, &statement.query).await
}

fn missing() -> Problem {
    Problem::invalid(
        "there is no statement; ask with ?query=SELECT… or POST {\"query\": \"SELECT …\"} as \
         application/json",
    )
}

async fn run(state: &ApiState, statement: &str) -> Result<Json<Value>, Problem> {
    let start = Instant::now();
    let batches = state.store.sql(statement, LIMITS).await?;
    let columns: Vec<Value> = batches
        .first()
        .map(|batch| {
            let schema = batch.schema();
            let fields = schema.fields().iter();
            fields
                .map(|field| json!({"name": field.name(), "type": field.data_type().to_string()}))
                .collect()
        })
        .unwrap_or_default();
    Ok(Json(json!({
        "columns": columns,
        "rows": cells::rows(&batches),
        "elapsed_seconds": start.elapsed().as_secs_f64(),
    })))
}
