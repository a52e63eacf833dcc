//! The UI, carried in the program.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use crate::problem::Problem;

#[derive(RustEmbed)]
#[folder = "../web/dist"]
struct Assets;

/// A file of the UI; any other path is one of the UI's own pages.
pub(crate) async fn serve(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path.starts_with("api/") {
        return Problem::not_found(format!(
            "there is no `/{path}`; the API is under /api/v1: services, operations, search, \
             traces/ID, graph, sql, status"
        ))
        .into_response();
    }
    let (name, file) = match Assets::get(path) {
        Some(file) => (path, file),
        // A missing asset is missing; only pages fall back.
        None if path.starts_with("assets/") => return StatusCode::NOT_FOUND.into_response(),
        None => match Assets::get("index.html") {
            Some(file) => ("index.html", file),
            None => return StatusCode::NOT_FOUND.into_response(),
        },
    };
    // Vite puts a hash of the content into the names of assets.
    let cache = if name.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let kind = mime_guess::from_path(name).first_or_octet_stream();
    let headers = [
        (header::CONTENT_TYPE, kind.as_ref().to_owned()),
        (header::CACHE_CONTROL, cache.to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, file.data).into_response()
}
