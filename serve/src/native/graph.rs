//! `GET /api/v1/graph`

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_api::Graph;
use spanwise_api::endpoints::GRAPH;
use spanwise_query::Queries;

use super::convert;
use super::parameters::Parameters;
use crate::problem::Problem;

pub(super) async fn graph(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Graph>, Problem> {
    Ok(Json(answer(&queries, &Parameters::of(&GRAPH, pairs)?).await?))
}

pub(crate) async fn answer(queries: &Queries, parameters: &Parameters) -> Result<Graph, Problem> {
    Ok(convert::graph(queries.graph(parameters.time_range()?).await?))
}
