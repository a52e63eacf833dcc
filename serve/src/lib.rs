//! The HTTP API under `/api/v1`, and the UI.

mod cells;
mod graph;
mod json;
mod parameters;
mod problem;
mod search;
mod services;
mod sql;
mod status;
mod traces;
mod ui;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use spanwise_store::Store;
use tower_http::compression::CompressionLayer;

pub use status::StatusSource;

/// What the API answers from.
#[derive(Clone)]
pub struct ApiState {
    /// The rows.
    pub store: Arc<dyn Store>,
    /// The other parts of the program, as far as the status page shows them.
    pub status: Arc<dyn StatusSource>,
}

/// The API and the UI.
pub fn router(state: ApiState) -> Router {
    let api = Router::new()
        .route("/services", get(services::services))
        .route("/operations", get(services::operations))
        .route("/search", get(search::search))
        .route("/traces/{id}", get(traces::trace))
        .route("/graph", get(graph::graph))
        .route("/sql", get(sql::get).post(sql::post))
        .route("/status", get(status::status))
        .with_state(state);
    Router::new().nest("/api/v1", api).fallback(ui::serve).layer(CompressionLayer::new())
}
