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
    let parameters = Parameters::of(&GRAPH, pairs)?;
    let answer = queries.graph(parameters.time_range()?).await?;
    Ok(Json(convert::graph(answer)))
}
