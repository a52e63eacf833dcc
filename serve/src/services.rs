//! `GET /api/v1/services` and `/api/v1/operations`.

use std::time::Duration;

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use serde_json::{Value, json};
use spanwise_store::SqlLimits;

use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::{ApiState, cells};

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(10), rows: 10_000, memory_bytes: 512 << 20 };

pub(crate) async fn services(State(state): State<ApiState>) -> Result<Json<Value>, Problem> {
    let statement = "SELECT service, capture, count(*) AS spans, \
         sum(CASE WHEN status = 'error' THEN 1 ELSE 0 END) AS errors, \
         max(start_unix_nano) AS last_seen \
         FROM spans GROUP BY service, capture ORDER BY service, capture";
    let batches = state.store.sql(statement, LIMITS).await?;
    let mut services: Vec<Value> = Vec::new();
    for row in cells::rows(&batches) {
        let [service, capture, spans, errors, last_seen] = row.as_slice() else { continue };
        let number = |value: &Value| -> i64 {
            value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
        };
        // Rows come sorted: the captures of one service follow each other.
        if let Some(last) = services.last_mut().filter(|last| last["name"] == *service) {
            if let Some(kinds) = last["kinds"].as_array_mut() {
                kinds.push(capture.clone());
            }
            last["spans"] = json!(number(&last["spans"]) + number(spans));
            last["errors"] = json!(number(&last["errors"]) + number(errors));
            let seen = number(&last["last_seen_unix_nano"]).max(number(last_seen));
            last["last_seen_unix_nano"] = json!(seen.to_string());
        } else {
            services.push(json!({
                "name": service,
                "kinds": [capture],
                "spans": number(spans),
                "errors": number(errors),
                "last_seen_unix_nano": number(last_seen).to_string(),
            }));
        }
    }
    Ok(Json(json!({ "services": services })))
}

pub(crate) async fn operations(
    State(state): State<ApiState>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let parameters = Parameters::new(pairs);
    parameters.only(&["service"])?;
    let filter = parameters
        .text("service")
        .map(|service| format!("WHERE service = '{}'", service.replace('\'', "''")))
        .unwrap_or_default();
    let statement = format!(
        "SELECT operation, kind, count(*) AS spans FROM spans {filter} \
         GROUP BY operation, kind ORDER BY spans DESC, operation LIMIT 1000"
    );
    let batches = state.store.sql(&statement, LIMITS).await?;
    let operations: Vec<Value> = cells::rows(&batches)
        .into_iter()
        .filter_map(|row| match row.as_slice() {
            [name, kind, spans] => Some(json!({"name": name, "kind": kind, "spans": spans})),
            _ => None,
        })
        .collect();
    Ok(Json(json!({ "operations": operations })))
}
