//! The API under `/api/v1`, of which the UI and the command line are clients. Its types and its
//! table of endpoints are in `spanwise-api`.

pub(crate) mod attributes;
pub(crate) mod cause;
mod chains;
mod convert;
mod counters;
mod deletion;
pub(crate) mod graph;
mod journey;
mod openapi;
mod page;
mod parameters;
pub(crate) mod search;
mod search_lines;
pub(crate) mod services;
mod span_json;
mod status;
mod trace;
mod trace_json;
mod traceql;
mod watch;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};
use spanwise_api::endpoints::{self, Endpoint, Method};

use crate::{Shared, sql, ui};

pub(crate) use counters::CounterGrowth;
/// What table functions of SQL ask too.
pub(crate) mod analyses {
    pub(crate) use super::chains::{bottlenecks, capacity, chains, depends, entrances, sources};
}

pub(crate) use parameters::{Parameters, brief, id};
pub(crate) use status::document;
pub use status::{ServerParts, StatusSource};
pub(crate) use trace_json::spans as spans_json;

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
        .add(&endpoints::CHAINS, chains::chains)
        .add(&endpoints::CHAIN, chains::chain)
        .add(&endpoints::DEPENDS, chains::depends)
        .add(&endpoints::ENTRANCES, chains::entrances)
        .add(&endpoints::SOURCES, chains::sources)
        .add(&endpoints::CAUSE, cause::cause)
        .add(&endpoints::JOURNEY, journey::journey)
        .add(&endpoints::BOTTLENECKS, chains::bottlenecks)
        .add(&endpoints::CAPACITY, chains::capacity)
        .add(&endpoints::WATCH, watch::watch)
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
