//! `GET /api/v1/services` and `/api/v1/operations`.

use std::time::Duration;

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use serde_json::{Value, json};
use spanwise_model::Status;
use spanwise_store::SqlLimits;

use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::{ApiState, cells};

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(10), rows: 10_000, memory_bytes: 512 << 20 };

pub(crate) async fn services(State(state): State<ApiState>) -> Result<Json<Value>, Problem> {
    // Of these columns every store has counts at hand, or few values to look at.
    let statement = "SELECT service, capture, status, count(*) AS spans, \
         max(start_unix_nano) AS last_seen \
         FROM spans GROUP BY service, capture, status ORDER BY service, capture";
    let batches = state.store.own_sql(statement, LIMITS).await?;
    let mut services: Vec<Service> = Vec::new();
    for row in cells::rows(&batches) {
        let [service, capture, status, spans, last_seen] = row.as_slice() else { continue };
        // Rows come sorted: those of one service follow each other.
        if services.last().is_none_or(|last| last.name != *service) {
            services.push(Service { name: service.clone(), ..Service::default() });
        }
        let Some(last) = services.last_mut() else { continue };
        if last.kinds.last() != Some(capture) {
            last.kinds.push(capture.clone());
        }
        let spans = number(spans);
        last.spans += spans;
        last.errors += if status == Status::Error.as_str() { spans } else { 0 };
        last.last_seen_unix_nano = last.last_seen_unix_nano.max(number(last_seen));
    }
    let services: Vec<Value> = services.into_iter().map(Service::into_json).collect();
    Ok(Json(json!({ "services": services })))
}

/// What is told of one service.
struct Service {
    name: Value,
    kinds: Vec<Value>,
    spans: i64,
    errors: i64,
    last_seen_unix_nano: i64,
}

impl Default for Service {
    fn default() -> Self {
        let last_seen_unix_nano = i64::MIN;
        Self { name: Value::Null, kinds: Vec::new(), spans: 0, errors: 0, last_seen_unix_nano }
    }
}

impl Service {
    fn into_json(self) -> Value {
        json!({
            "name": self.name,
            "kinds": self.kinds,
            "spans": self.spans,
            "errors": self.errors,
            "last_seen_unix_nano": self.last_seen_unix_nano.to_string(),
        })
    }
}

/// Large numbers come as texts.
fn number(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
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
    let batches = state.store.own_sql(&statement, LIMITS).await?;
    let operations: Vec<Value> = cells::rows(&batches)
        .into_iter()
        .filter_map(|row| match row.as_slice() {
            [name, kind, spans] => Some(json!({"name": name, "kind": kind, "spans": spans})),
            _ => None,
        })
        .collect();
    Ok(Json(json!({ "operations": operations })))
}
