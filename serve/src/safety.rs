//! What keeps other web pages away from the API, besides the `Host` and the `Origin` of requests,
//! which the port itself looks at: whatever changes something or costs much needs a header that
//! no page can have sent unasked, and every answer tells browsers what they may do with it.

use std::sync::LazyLock;

use axum::extract::Request;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::problem::Problem;

/// Any value will do: a page of another origin that sends it is asked by the browser first.
pub(crate) const SPANWISE_REQUEST: HeaderName = HeaderName::from_static("spanwise-request");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The page that all others are loaded by.
const INDEX: &str = include_str!("../../web/dist/index.html");

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
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
        HeaderValue::from_str(&policy(INDEX))
            .unwrap_or(HeaderValue::from_static("default-src 'none'"))
    });
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    response
}

/// What the page of the UI may load and do: only what the server gives it.
fn policy(index: &str) -> String {
    let mut scripts = "script-src 'self'".to_owned();
    for script in inline_scripts(index) {
        scripts += &format!(" 'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
    }
    format!(
        "default-src 'none'; {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: \
         blob:; font-src 'self'; connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// The scripts that stand in the page itself.
fn inline_scripts(page: &str) -> impl Iterator<Item = &str> {
    page.split("<script").skip(1).filter_map(|rest| {
        let (attributes, rest) = rest.split_once('>')?;
        let (script, _) = rest.split_once("</script>")?;
        (!attributes.contains("src=")).then_some(script)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_page_s_own_script_may_run() {
        let page = "<script>let a;</script><script type=\"module\" src=\"/a.js\"></script>";
        assert_eq!(inline_scripts(page).collect::<Vec<_>>(), ["let a;"]);
        let policy = policy(page);
        // printf 'let a;' | openssl dgst -sha256 -binary | base64
        let hash = "'sha256-81WALLbUROF1pWdYjuQYKuIcGgY/+TqVJr8UsV6Tkvo='";
        assert!(policy.contains(hash), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("eval"));
        assert!(HeaderValue::from_str(&super::policy(INDEX)).is_ok());
    }
}
