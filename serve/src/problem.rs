//! Errors as RFC 9457 problem details.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use spanwise_query::QueryError;
use spanwise_store::StoreError;

/// An error response; `detail` says what to do.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    title: &'static str,
    detail: String,
}

impl Problem {
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        let (status, title) = (StatusCode::BAD_REQUEST, "invalid parameter");
        Self { status, title, detail: detail.into() }
    }

    /// For requests without the header that web pages cannot send.
    pub(crate) fn header_missing() -> Self {
        let (status, title) = (StatusCode::FORBIDDEN, "a header is missing");
        let detail = "add the header `Spanwise-Request` with any value, which keeps web pages from \
                      asking this: curl -H 'Spanwise-Request: 1' …";
        Self { status, title, detail: detail.to_owned() }
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, title: "not found", detail: detail.into() }
    }

    pub(crate) fn method_not_allowed(detail: String) -> Self {
        Self { status: StatusCode::METHOD_NOT_ALLOWED, title: "method not allowed", detail }
    }

    /// For requests beyond the limits on concurrent work.
    pub(crate) fn busy(detail: String) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, title: "too much at the same time", detail }
    }

    /// The status and the sentence, for other formats of errors.
    pub(crate) fn into_parts(self) -> (StatusCode, String) {
        (self.status, self.detail)
    }

    pub(crate) fn internal(detail: String) -> Self {
        tracing::error!("a query failed: {detail}");
        let (status, title) = (StatusCode::INTERNAL_SERVER_ERROR, "the query failed");
        Self { status, title, detail }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = spanwise_api::Problem {
            r#type: "about:blank".to_owned(),
            title: self.title.to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
        };
        let json = serde_json::to_string(&body).unwrap_or_else(|_| "{}".to_owned());
        (self.status, [(header::CONTENT_TYPE, "application/problem+json")], json).into_response()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(detail) => Self::invalid(detail),
            StoreError::Limit(detail) => Self {
                status: StatusCode::UNPROCESSABLE_ENTITY,
                title: "the query ran into a limit",
                detail: format!("{detail}; narrow it by time, or ask for fewer rows"),
            },
            error @ StoreError::Unavailable { .. } => Self {
                status: StatusCode::SERVICE_UNAVAILABLE,
                title: "the store cannot answer",
                detail: error.to_string(),
            },
            error @ StoreError::Full { .. } => Self {
                status: StatusCode::SERVICE_UNAVAILABLE,
                title: "no room",
                detail: error.to_string(),
            },
            error => Self::internal(error.to_string()),
        }
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::TraceNotFound(_) | QueryError::SpanNotFound { .. } => {
                Self::not_found(error.to_string())
            }
            QueryError::Store(error) => error.into(),
            QueryError::Model(_) | QueryError::Interrupted { .. } => {
                Self::internal(error.to_string())
            }
        }
    }
}
