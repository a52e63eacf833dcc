//! What Zipkin's own UI and its users ask for besides the API.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

use crate::ApiState;

/// `GET /config.json`: what the UI can do here, and its defaults (`ZipkinUiConfiguration`).
pub(super) async fn config() -> Response {
    let config = json!({
        "environment": "",
        "queryLimit": 10,
        "defaultLookback": 900_000,
        "searchEnabled": true,
        "logsUrl": null,
        "supportUrl": null,
        "archivePostUrl": null,
        "archiveUrl": null,
        "dependency": { "enabled": true, "lowErrorRate": 0.5, "highErrorRate": 0.75 },
    });
    Json(config).into_response()
}

/// `GET /health`: whether the store answers.
pub(super) async fn health(State(state): State<ApiState>) -> Response {
    let warnings = state.store.status().warnings;
    let store = json!({ "status": "UP", "details": { "warnings": warnings } });
    let body = json!({
        "status": "UP",
        "zipkin": { "status": "UP", "details": { "SpanwiseStore": store } },
    });
    (StatusCode::OK, Json(body)).into_response()
}

/// `GET /info`: what this is.
pub(super) async fn info(State(state): State<ApiState>) -> Response {
    let version = state.status.status().version;
    Json(json!({ "zipkin": { "version": version, "commit": "" }, "server": "spanwise" }))
        .into_response()
}
