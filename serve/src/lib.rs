//! The server's HTTP side. Each folder is one dialect: `native` is the API under `/api/v1`,
//! `sql` its SQL endpoint, `tempo` is Grafana Tempo's API, `metrics` is `/metrics` for Prometheus,
//! `ui` the embedded UI. They
//! translate requests into questions for `spanwise-query`, and its answers into their format.

mod answer_limits;
mod metrics;
mod native;
mod problem;
mod safety;
mod slow_reader;
mod sql;
mod tempo;
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

/// What the API answers from.
#[derive(Clone)]
pub struct ApiState {
    /// The rows.
    pub store: Arc<dyn Store>,
    /// The other parts of the program, as far as the status shows them.
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

impl Shared {
    fn new(api: ApiState) -> Self {
        Self {
            queries: Queries::new(Arc::clone(&api.store)),
            api,
            growth: Arc::default(),
            limits: Arc::default(),
        }
    }
}

/// Tempo's API at the root of a port of its own, also by gRPC.
pub fn tempo_router(api: ApiState) -> Router {
    tempo::port()
        .with_state(Shared::new(api))
        .layer(CompressionLayer::new())
        .layer(axum::middleware::from_fn(safety::layer))
}

/// The API and the UI.
pub fn router(api: ApiState) -> Router {
    let shared = Shared::new(api);
    Router::new()
        .nest(spanwise_api::endpoints::BASE, native::router())
        .nest("/tempo", tempo::router())
        .route("/metrics", get(metrics::metrics))
        .fallback(ui::serve)
        .method_not_allowed_fallback(ui::other_method)
        .with_state(shared)
        .layer(CompressionLayer::new())
        .layer(axum::middleware::from_fn(safety::layer))
}
