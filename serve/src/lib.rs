//! The HTTP API under `/api/v1`, `/metrics`, and the UI.

mod attributes;
mod cells;
mod condition;
mod counters;
mod deletion;
mod elsewhere;
mod exact;
mod graph;
mod held;
mod json;
mod metrics;
mod moment;
mod parameters;
mod places;
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
use counters::Growth;
use places::Places;
use spanwise_store::Store;
use tower_http::compression::CompressionLayer;
use trees::Trees;

pub use elsewhere::Receivers;
pub use moment::{MOMENT_FORMS, moment_unix_nano};
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
    growth: Arc<Growth>,
    places: Arc<Places>,
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

impl FromRef<Served> for Arc<Growth> {
    fn from_ref(served: &Served) -> Self {
        Self::clone(&served.growth)
    }
}

impl FromRef<Served> for Arc<Places> {
    fn from_ref(served: &Served) -> Self {
        Self::clone(&served.places)
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
        .route("/attributes", get(attributes::keys))
        .route("/attributes/values", get(attributes::values))
        .route("/graph", get(graph::graph))
        .route("/sql", get(sql::get).post(sql::post))
        .route("/status", get(status::status))
        .method_not_allowed_fallback(ui::other_method);
    let served = Served {
        api: state,
        trees: Arc::default(),
        growth: Arc::default(),
        places: Arc::default(),
    };
    Router::new()
        .nest("/api/v1", api)
        .route("/metrics", get(metrics::metrics))
        .fallback(ui::serve)
        .method_not_allowed_fallback(ui::other_method)
        .with_state(served)
        .layer(CompressionLayer::new())
        .layer(axum::middleware::from_fn(safety::layer))
}
