//! The server's HTTP side. Each folder is one dialect: `native` is the API under `/api/v1`,
//! `sql` its SQL endpoint, `metrics` is `/metrics` for Prometheus, `ui` the embedded UI. They
//! translate requests into questions for `spanwise-query`, and its answers into their format.

mod answer_limits;
mod metrics;
mod native;
mod problem;
mod safety;
mod slow_reader;
mod sql;
mod ui;
mod wrong_port;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::get;
use spanwise_query::Queries;
use spanwise_store::Store;
use tower_http::compression::CompressionLayer;

use answer_limits::AnswerLimits;
use native::CounterGrowth;

pub use native::{ServerParts, StatusSource};
pub use wrong_port::Receivers;

/// The state of the API.
#[derive(Clone)]
pub struct ApiState {
    /// The rows.
    pub store: Arc<dyn Store>,
    /// The status of the program's other parts.
    pub status: Arc<dyn StatusSource>,
}

/// What handlers share.
#[derive(Clone)]
struct Shared {
    api: ApiState,
    queries: Queries,
    growth: Arc<CounterGrowth>,
    limits: Arc<AnswerLimits>,
}

impl FromRef<Shared> for ApiState {
    fn from_ref(shared: &Shared) -> Self {
        shared.api.clone()
    }
}

impl FromRef<Shared> for Queries {
    fn from_ref(shared: &Shared) -> Self {
        shared.queries.clone()
    }
}

impl FromRef<Shared> for Arc<CounterGrowth> {
    fn from_ref(shared: &Shared) -> Self {
        Self::clone(&shared.growth)
    }
}

impl FromRef<Shared> for Arc<AnswerLimits> {
    fn from_ref(shared: &Shared) -> Self {
        Self::clone(&shared.limits)
    }
}

/// The API and the UI.
pub fn router(api: ApiState) -> Router {
    let shared = Shared {
        queries: Queries::new(Arc::clone(&api.store)),
        api,
        growth: Arc::default(),
        limits: Arc::default(),
    };
    Router::new()
        .nest(spanwise_api::endpoints::BASE, native::router())
        .route("/metrics", get(metrics::metrics))
        .fallback(ui::serve)
        .method_not_allowed_fallback(ui::other_method)
        .with_state(shared)
        .layer(CompressionLayer::new())
        .layer(axum::middleware::from_fn(safety::layer))
}
