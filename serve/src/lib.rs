//! The HTTP API under `/api/v1`, `/metrics`, and the UI.

mod cells;
mod deletion;
mod graph;
mod json;
mod metrics;
mod parameters;
mod problem;
mod safety;
mod search;
mod services;
mod span_json;
mod sql;
mod status;
mod traces;
mod tree;
mod trees;
mod ui;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::{delete, get};
use spanwise_store::Store;
use tower_http::compression::CompressionLayer;
use trees::Trees;

pub use status::StatusSource;

/// What the API answers from.
#[derive(Clone)]
pub struct ApiState {
    /// The rows.
    pub store: Arc<dyn Store>,
    /// The other parts of the program, as far as the status page shows them.
    pub status: Arc<dyn StatusSource>,
}

/// What handlers are given.
#[derive(Clone)]
struct Served {
    api: ApiState,
    trees: Arc<Trees>,
}

impl FromRef<Served> for ApiState {
    fn from_ref(served: &Served) -> Self {
        served.api.clone()
    }
}

impl FromRef<Served> for Arc<Trees> {
    fn from_ref(served: &Served) -> Self {
        Self::clone(&served.trees)
    }
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
        .with_state(Served { api: state.clone(), trees: Arc::default() });
    let metrics = Router::new().route("/metrics", get(metrics::metrics)).with_state(state);
    Router::new()
        .nest("/api/v1", api)
        .merge(metrics)
        .fallback(ui::serve)
        .layer(CompressionLayer::new())
        .layer(axum::middleware::from_fn(safety::layer))
}
