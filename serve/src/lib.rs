//! The server's HTTP side. Each folder is one dialect: `native` is the API under `/api/v1`,
//! `sql` its SQL endpoint, `metrics` is `/metrics` for Prometheus, `tempo`, `jaeger` and
//! `zipkin` are the query APIs of those, `mcp` is what assistants ask, `ui` the embedded UI. They
//! translate requests into questions for `spanwise-query`, and its answers into their format.

mod answer_limits;
mod dialect;
mod jaeger;
mod mcp;
mod metrics;
mod native;
mod problem;
mod safety;
mod slow_reader;
mod sql;
mod tempo;
mod ui;
mod wrong_port;
mod zipkin;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::get;
use spanwise_keys::KeyRules;
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
    /// The rules of business keys.
    pub keys: Arc<KeyRules>,
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

/// What is served, by port.
#[derive(Clone)]
pub struct Surfaces {
    /// The UI, the API, and the HTTP APIs of other tracing systems below their names.
    pub pages: Router,
    /// Tempo's API by HTTP and gRPC.
    pub tempo: Router,
    /// Zipkin's API, beside what receives its spans.
    pub zipkin: Router,
    /// Jaeger's APIs by HTTP and gRPC, and what a Jaeger reads a remote storage by.
    pub jaeger: Router,
}

/// The API and the UI.
pub fn router(api: ApiState) -> Router {
    surfaces(api).pages
}

/// All that is served from this state.
pub fn surfaces(api: ApiState) -> Surfaces {
    let shared = Shared {
        queries: Queries::new(Arc::clone(&api.store)),
        api,
        growth: Arc::default(),
        limits: Arc::default(),
    };
    let served = |routes: Router<Shared>| {
        let routes = routes.with_state(shared.clone()).layer(CompressionLayer::new());
        routes.layer(axum::middleware::from_fn(safety::layer))
    };
    let pages = Router::new()
        .nest(spanwise_api::endpoints::BASE, native::router())
        .nest("/tempo", tempo::router())
        .nest("/zipkin", zipkin::router())
        .nest("/jaeger", jaeger::router())
        .route("/metrics", get(metrics::metrics))
        .route("/metrics/spans", get(metrics::spans::metrics))
        .merge(mcp::router(&shared))
        .fallback(ui::serve)
        .method_not_allowed_fallback(ui::other_method);
    Surfaces {
        pages: served(pages),
        tempo: served(tempo::port()),
        zipkin: served(zipkin::router().nest("/zipkin", zipkin::router())),
        jaeger: served(jaeger::router()).merge(jaeger::grpc_router().with_state(shared)),
    }
}
