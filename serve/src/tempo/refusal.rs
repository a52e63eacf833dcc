//! Why a request is refused: a sentence as plain text, which is what Tempo's clients show.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use spanwise_query::QueryError;

use crate::problem::Problem;

/// See the module.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) detail: String,
}

impl Refusal {
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, detail: detail.into() }
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, detail: detail.into() }
    }
}

impl From<spanwise_traceql::Error> for Refusal {
    fn from(error: spanwise_traceql::Error) -> Self {
        Self::invalid(format!("invalid TraceQL query: {error}"))
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        let (status, detail) = problem.into_parts();
        Self { status, detail }
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        (self.status, kind, self.detail).into_response()
    }
}

impl From<Refusal> for tonic::Status {
    fn from(Refusal { status, detail }: Refusal) -> Self {
        match status {
            StatusCode::BAD_REQUEST => Self::invalid_argument(detail),
            StatusCode::NOT_FOUND => Self::not_found(detail),
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::TOO_MANY_REQUESTS => {
                Self::resource_exhausted(detail)
            }
            StatusCode::SERVICE_UNAVAILABLE => Self::unavailable(detail),
            _ => Self::internal(detail),
        }
    }
}
