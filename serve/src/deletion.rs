//! `DELETE /api/v1/traces/{id}` and `DELETE /api/v1/services/{name}`: forget one
//! trace, or everything of one service, on request.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Json;
use serde_json::{Value, json};
use spanwise_store::Selection;

use crate::ApiState;
use crate::parameters;
use crate::problem::Problem;
use crate::trees::Trees;

pub(crate) async fn trace(
    State(state): State<ApiState>,
    State(trees): State<Arc<Trees>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let id = parameters::id(&id)?.trace();
    forget(&state, &trees, &Selection::Trace(id)).await
}

pub(crate) async fn service(
    State(state): State<ApiState>,
    State(trees): State<Arc<Trees>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    forget(&state, &trees, &Selection::Service(name)).await
}

async fn forget(
    state: &ApiState,
    trees: &Trees,
    selection: &Selection,
) -> Result<Json<Value>, Problem> {
    let deleted = state.store.delete(selection).await;
    trees.forget();
    let deleted = deleted?;
    tracing::info!(?selection, rows = deleted.rows, "deleted on request");
    Ok(Json(json!({ "deleted_spans": deleted.rows })))
}
