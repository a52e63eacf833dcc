//! `GET /api/v1/services` and `/api/v1/operations`

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_api::endpoints::OPERATIONS;
use spanwise_api::{Nano, Operation, Operations, Service, Services};
use spanwise_query::{OperationTotal, Queries, ServiceTotal};

use super::parameters::Parameters;
use crate::problem::Problem;

pub(super) async fn services(State(queries): State<Queries>) -> Result<Json<Services>, Problem> {
    let services = queries.services().await?.into_iter().map(|total| {
        let ServiceTotal { name, captures, spans, errors, last_seen_unix_nano } = total;
        let last_seen_unix_nano = Nano(last_seen_unix_nano);
        Service { errors, kinds: captures, last_seen_unix_nano, name, spans }
    });
    Ok(Json(Services { services: services.collect() }))
}

pub(super) async fn operations(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Operations>, Problem> {
    let parameters = Parameters::of(&OPERATIONS, pairs)?;
    let totals = queries.operations(parameters.text("service")).await?;
    let operations = totals.into_iter().map(|total| {
        let OperationTotal { name, kind, spans } = total;
        Operation { kind, name, spans }
    });
    Ok(Json(Operations { operations: operations.collect() }))
}
