//! The UI's own pages.

use super::*;

#[tokio::test]
async fn the_ui_answers_for_its_own_pages() {
    let api = Api::empty().await;
    let get = |path: &str| api.ask(Request::get(path).body(Body::empty()).expect("valid"));
    let (status, headers, index) = get("/").await;
    assert_eq!(status, StatusCode::OK);
    assert!(headers[header::CONTENT_TYPE].to_str().expect("text").starts_with("text/html"));
    assert_eq!(headers[header::CACHE_CONTROL], "no-cache");
    let (status, _, page) = get("/trace/abc").await;
    assert_eq!((status, page), (StatusCode::OK, index), "the UI finds its own way from there");
    let (status, ..) = get("/assets/gone-1a2b3c.js").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
