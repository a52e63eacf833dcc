//! What web pages of other origins cannot do.

use super::*;

#[tokio::test]
async fn what_changes_or_costs_something_needs_a_header_that_pages_cannot_send() {
    let api = Api::shop().await;
    let bare = |request: http::request::Builder| {
        api.ask_bare(request.body(Body::from("SELECT 1")).expect("valid"))
    };
    for request in [
        Request::post("/api/v1/sql").header(header::CONTENT_TYPE, "text/plain"),
        Request::get("/api/v1/sql?query=SELECT+1"),
        Request::get("/api/v1/sql/?query=SELECT+1"),
        Request::delete("/api/v1/services/cart"),
        Request::delete(format!("/api/v1/traces/{HEADER_TRACE}")),
    ] {
        let (status, headers, body) = bare(request).await;
        let text = String::from_utf8_lossy(&body);
        assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert!(text.contains("Spanwise-Request"), "{text}");
    }
    // Every response restricts browsers, and nothing was deleted.
    for path in ["/api/v1/services", "/", "/search", "/api/v1/nothing", "/metrics"] {
        let (_, headers, _) = bare(Request::get(path)).await;
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().expect("a text");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
    assert_eq!(api.get("services").await["services"].as_array().map(Vec::len), Some(2));
}
