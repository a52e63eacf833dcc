//! The UI, embedded in the program.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use crate::problem::Problem;
use crate::{ApiState, wrong_port};

#[derive(RustEmbed)]
#[folder = "../web/dist"]
struct Assets;

const INDEX: &str = "index.html";

/// Paths of pages (`web/src/pages/*/index.tsx`).
const PAGES: &[&str] = &[
    "",
    "bottlenecks",
    "capacity",
    "causes",
    "chains",
    "dependencies",
    "entrances",
    "journey",
    "live",
    "map",
    "search",
    "sources",
    "status",
    "watch",
];
/// Folders of pages, with a page for each name.
const FOLDERS: &[&str] = &["trace/", "service/", "chains/"];

/// Whether the UI has a page with this path.
fn is_page(path: &str) -> bool {
    match FOLDERS.iter().find_map(|folder| path.strip_prefix(folder)) {
        Some(name) => !name.is_empty() && !name.contains('/'),
        None => PAGES.contains(&path),
    }
}

/// Serves a file of the UI, or its page, which displays what the path names. Every other path is an
/// error, because a client that posts spans here would take a page for success.
pub(crate) async fn serve(
    State(state): State<ApiState>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let path = uri.path().strip_prefix('/').unwrap_or_default();
    let name = if is_page(path) { INDEX } else { path };
    let Some(file) = Assets::get(name).filter(|_| !wrong_port::is_grpc(&headers)) else {
        return wrong_port::answer(&state.status.receivers(), uri.path(), &headers);
    };
    if method != Method::GET && method != Method::HEAD {
        let problem = Problem::method_not_allowed(format!(
            "{method} is not for `/{path}`, which is a page of the UI; the API is under /api/v1"
        ));
        return ([(header::ALLOW, "GET, HEAD")], problem).into_response();
    }
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
    let length = HeaderValue::from(file.data.len());
    let mut response = (headers, file.data).into_response();
    if method == Method::HEAD {
        response.headers_mut().insert(header::CONTENT_LENGTH, length);
        *response.body_mut() = Body::empty();
    }
    response
}

/// The response to a known path with another method.
pub(crate) async fn other_method(method: Method) -> Problem {
    Problem::method_not_allowed(format!(
        "{method} is not for this path; the header Allow says what is"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_page_of_the_ui_is_one_here() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/src/pages");
        let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let pages = folders.map(|page| fs::read_to_string(page.join("index.tsx")).unwrap());
        let in_menu = |page: String| {
            let entries = page.split("menu: [\"/").skip(1);
            entries
                .filter_map(|entry| Some(entry.split('"').next()?.to_owned()))
                .collect::<Vec<_>>()
        };
        let pages: Vec<String> = pages.flat_map(in_menu).collect();
        for page in &pages {
            assert!(is_page(page), "/{page}");
        }
        for page in PAGES {
            assert!(pages.iter().any(|one| one == page), "/{page} is in no menu");
        }
        assert!(is_page("service/cart%2Fv2") && !is_page("service/"));
        assert!(is_page("trace/abc") && !is_page("trace/") && !is_page("v1/traces"));
    }
}
