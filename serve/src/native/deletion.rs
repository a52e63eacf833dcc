//! `DELETE /api/v1/traces/{id}` and `DELETE /api/v1/services/{name}`

use axum::extract::{Path, State};
use axum::response::Json;
use spanwise_api::Deletion;
use spanwise_query::Queries;
use spanwise_store::Selection;

use super::parameters;
use crate::problem::Problem;

pub(super) async fn trace(
    State(queries): State<Queries>,
    Path(id): Path<String>,
) -> Result<Json<Deletion>, Problem> {
    let id = parameters::id(&id)?.trace();
    delete(&queries, &Selection::Trace(id)).await
}

pub(super) async fn service(
    State(queries): State<Queries>,
    Path(name): Path<String>,
) -> Result<Json<Deletion>, Problem> {
    delete(&queries, &Selection::Service(name)).await
}

async fn delete(queries: &Queries, selection: &Selection) -> Result<Json<Deletion>, Problem> {
    let deleted = queries.delete(selection).await?;
    tracing::info!(?selection, rows = deleted.rows, "deleted on request");
    Ok(Json(Deletion { deleted_spans: deleted.rows }))
}
