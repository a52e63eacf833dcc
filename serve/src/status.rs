//! `GET /api/v1/status`: how the server, its agents and its store are doing.

use axum::extract::State;
use axum::response::Json;
use serde_json::{Value, json};

use crate::ApiState;

/// Tells about the parts that the API does not know itself.
pub trait StatusSource: Send + Sync {
    /// A JSON object; `store` and the store's warnings are added to it.
    fn status(&self) -> Value;
}

pub(crate) async fn status(State(state): State<ApiState>) -> Json<Value> {
    Json(document(&state))
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
