//! The API under `/api/v1`, of which the UI and the command line are clients. Its types and its
//! table of endpoints are in `spanwise-api`.

mod attributes;
mod convert;
mod counters;
mod deletion;
mod graph;
mod openapi;
mod parameters;
mod search;
mod services;
mod span_json;
mod status;
mod trace;
mod trace_json;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};
use spanwise_api::endpoints::{self, Endpoint, Method};

use crate::{Shared, sql, ui};

pub(crate) use counters::CounterGrowth;
pub(crate) use parameters::Parameters;
pub(crate) use status::document;
pub use status::{ServerParts, StatusSource};

/// The routes below [`endpoints::BASE`].
pub(crate) fn router() -> Router<Shared> {
    Routes::default()
        .add(&endpoints::SERVICES, services::services)
        .add(&endpoints::DELETE_SERVICE, deletion::service)
        .add(&endpoints::OPERATIONS, services::operations)
        .add(&endpoints::SEARCH, search::search)
        .add(&endpoints::TRACE, trace::trace)
        .add(&endpoints::DELETE_TRACE, deletion::trace)
        .add(&endpoints::ATTRIBUTES, attributes::keys)
        .add(&endpoints::ATTRIBUTE_VALUES, attributes::values)
        .add(&endpoints::GRAPH, graph::graph)
        .add(&endpoints::SQL, sql::get)
        .add(&endpoints::POST_SQL, sql::post)
        .add(&endpoints::STATUS, status::status)
        .add(&endpoints::OPENAPI, openapi::openapi)
        .0
        .method_not_allowed_fallback(ui::other_method)
}

/// Routes of the table of endpoints.
#[derive(Default)]
struct Routes(Router<Shared>);

impl Routes {
    fn add<H: Handler<T, Shared>, T: 'static>(self, endpoint: &Endpoint, handler: H) -> Self {
        let handler: MethodRouter<Shared> = match endpoint.method {
            Method::Get => get(handler),
            Method::Post => post(handler),
            Method::Delete => delete(handler),
        };
        Self(self.0.route(endpoint.path, handler))
    }
}
