//! What keeps other web pages away from the API, besides the `Host` and the `Origin` of requests,
//! which the port itself looks at: whatever changes something or costs much needs a header that
//! no page can have sent unasked, and every answer tells browsers what they may do with it.

use axum::extract::Request;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// Any value will do: a page of another origin that sends it is asked by the browser first.
pub(crate) const SPANWISE_REQUEST: HeaderName = HeaderName::from_static("spanwise-request");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The layer of all answers.
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

/// What the page of the UI may load and do: only what the server gives it. It has no scripts and
/// no styles within itself.
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
