//! Protects the API against web pages of other origins. The port itself checks the `Host` and the
//! `Origin` of requests. Here, requests that change something or are expensive need a header that a
//! page of another origin cannot send, and every response restricts how browsers may use it.

use axum::extract::Request;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// Any value is accepted. A browser refuses to send this header for a page of another origin.
pub(crate) const SPANWISE_REQUEST: HeaderName = HeaderName::from_static("spanwise-request");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The middleware around all handlers.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    let needs_header = request.method() == Method::DELETE
        || request.uri().path().trim_end_matches('/') == "/api/v1/sql";
    let mut response = match needs_header && !request.headers().contains_key(SPANWISE_REQUEST) {
        true => Problem::header_missing().into_response(),
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (RESOURCE_POLICY, "same-origin"),
        (OPENER_POLICY, "same-origin"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The UI's page may load only files from this server. It has no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
                      data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; \
                      manifest-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_has_no_scripts_and_styles_of_its_own() {
        let page = include_str!("../../web/index.html");
        assert!(!page.contains("<style"));
        let mut scripts = page.split("<script").skip(1);
        assert!(scripts.all(|script| script.trim_start().starts_with("src=")
            || script.starts_with(" type=\"module\" src=")));
    }
}
