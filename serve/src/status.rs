//! `GET /api/v1/status`: how the server, its agents and its store are doing.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::response::Json;
use serde_json::{Value, json};

use crate::ApiState;
use crate::counters::{self, Growth, Level};
use crate::elsewhere::Receivers;
use crate::exact::exact;

/// Tells about the parts that the API does not know itself.
pub trait StatusSource: Send + Sync {
    /// A JSON object; `store` and the store's warnings are added to it.
    fn status(&self) -> Value;

    /// Where spans are received, for those who send them to the API's port.
    fn receivers(&self) -> Receivers {
        Receivers::default()
    }
}

pub(crate) async fn status(
    State(state): State<ApiState>,
    State(growth): State<Arc<Growth>>,
) -> Json<Value> {
    let mut status = document(&state);
    let counters = counters::counters(&status);
    let attention = counters.iter().any(|counter| counter.level > Level::Info);
    let news = growth.sentences(&counters, Instant::now());
    if let Some(object) = status.as_object_mut() {
        let warnings = object.entry("warnings").or_insert_with(|| json!([]));
        if let Some(warnings) = warnings.as_array_mut() {
            warnings.extend(news.into_iter().map(Value::from));
        }
        let attention = attention || warnings.as_array().is_some_and(|all| !all.is_empty());
        object.insert("attention".to_owned(), attention.into());
        object.insert("counters".to_owned(), json!(counters));
    }
    Json(exact(status))
}

/// The whole status.
pub(crate) fn document(state: &ApiState) -> Value {
    let mut status = state.status.status();
    let store = state.store.status();
    let warnings: Vec<Value> = status["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .cloned()
        .chain(store.warnings.iter().map(|warning| json!(warning)))
        .collect();
    if let Some(object) = status.as_object_mut() {
        object.insert("store".to_owned(), json!(store));
        object.insert("warnings".to_owned(), json!(warnings));
    }
    status
}
