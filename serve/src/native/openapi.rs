//! `GET /api/v1/openapi.json`

use axum::http::header;
use axum::response::{IntoResponse, Response};
use spanwise_api::endpoints::OPENAPI_DOCUMENT;

pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI_DOCUMENT).into_response()
}
