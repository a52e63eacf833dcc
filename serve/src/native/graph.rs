//! `GET /api/v1/graph`

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_api::Graph;
use spanwise_api::endpoints::GRAPH;
use spanwise_query::Queries;

use super::convert;
use super::parameters::Parameters;
use crate::problem::Problem;

/// As the table of endpoints says.
const MOST_STEPS: usize = 1000;

pub(super) async fn graph(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Graph>, Problem> {
    let parameters = Parameters::of(&GRAPH, pairs)?;
    let service = parameters.text("service");
    let steps = match parameters.text("steps") {
        Some(_) if service.is_none() => {
            return Err(Problem::invalid("`steps` needs `service`; write the service, too"));
        }
        Some(_) => parameters.count("steps", 1, MOST_STEPS)?,
        None => 0,
    };
    let Some(service) = service else { return Ok(Json(answer(&queries, &parameters).await?)) };
    let time = parameters.time_range()?;
    Ok(Json(convert::graph(queries.graph_around(time, service.to_owned(), steps).await?)))
}

/// The whole graph.
pub(crate) async fn answer(queries: &Queries, parameters: &Parameters) -> Result<Graph, Problem> {
    Ok(convert::graph(queries.graph(parameters.time_range()?).await?))
}
