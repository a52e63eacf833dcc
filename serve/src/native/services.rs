//! `GET /api/v1/services` and `/api/v1/operations`

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_api::endpoints::{OPERATIONS, SERVICES};
use spanwise_api::{Nano, Operation, Operations, Service, Services};
use spanwise_query::{OperationTotal, Queries, ServiceTotal};

use super::page::page;
use super::parameters::Parameters;
use crate::problem::Problem;

/// The most entries of a page, and of operations those where nothing is said.
const MAX_LIMIT: usize = 10_000;
const DEFAULT_OPERATIONS: usize = 1_000;

pub(super) async fn services(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Services>, Problem> {
    let parameters = Parameters::of(&SERVICES, pairs)?;
    let limit = parameters.count("limit", MAX_LIMIT, MAX_LIMIT)?;
    let place = |service: &Service| (0, service.name.clone());
    let (services, next_cursor) = page(all(&queries).await?, &parameters, limit, place)?;
    Ok(Json(Services { next_cursor, services }))
}

/// All services.
pub(crate) async fn all(queries: &Queries) -> Result<Vec<Service>, Problem> {
    let services = queries.services().await?.into_iter().map(|total| {
        let ServiceTotal { name, captures, spans, errors, last_seen_unix_nano } = total;
        let last_seen_unix_nano = Nano(last_seen_unix_nano);
        Service { errors, kinds: captures, last_seen_unix_nano, name, spans }
    });
    Ok(services.collect())
}

pub(super) async fn operations(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Operations>, Problem> {
    let parameters = Parameters::of(&OPERATIONS, pairs)?;
    let limit = parameters.count("limit", DEFAULT_OPERATIONS, MAX_LIMIT)?;
    let all = operations_of(&queries, &parameters).await?;
    let place = |one: &Operation| (one.spans, format!("{}:{}", one.kind, one.name));
    let (operations, next_cursor) = page(all, &parameters, limit, place)?;
    Ok(Json(Operations { next_cursor, operations }))
}

/// The operations of a service, or of all.
pub(crate) async fn operations_of(
    queries: &Queries,
    parameters: &Parameters,
) -> Result<Vec<Operation>, Problem> {
    let totals = queries.operations(parameters.text("service")).await?;
    let operations = totals.into_iter().map(|total| {
        let OperationTotal { name, kind, spans } = total;
        Operation { kind, name, spans }
    });
    Ok(operations.collect())
}
