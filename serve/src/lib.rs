//! The HTTP API under `/api/v1`, `/metrics`, and the UI.

mod cells;
mod deletion;
mod graph;
mod json;
mod metrics;
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
use axum::routing::{delete, get};
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
        .route("/services/{name}", delete(deletion::service))
        .route("/operations", get(services::operations))
        .route("/search", get(search::search))
        .route("/traces/{id}", get(traces::trace).delete(deletion::trace))
        .route("/graph", get(graph::graph))
        .route("/sql", get(sql::get).post(sql::post))
        .route("/status", get(status::status))
        .with_state(state.clone());
    let metrics = Router::new().route("/metrics", get(metrics::metrics)).with_state(state);
    Router::new()
        .nest("/api/v1", api)
        .merge(metrics)
        .fallback(ui::serve)
        .layer(CompressionLayer::new())
}
