//! `GET /api/v1/operations`

use serde::{Deserialize, Serialize};
use spanwise_model::Kind;

/// Operations of one service, or of all services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Operations {
    /// The `cursor` of the next page; null if there is none.
    pub next_cursor: Option<String>,
    /// The operations, those with most spans first.
    pub operations: Vec<Operation>,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Operation {
    /// The kind of its spans.
    #[cfg_attr(test, schemars(with = "crate::vocabulary::SpanKind"))]
    pub kind: Kind,
    /// The spans' name.
    pub name: String,
    /// Its spans.
    pub spans: u64,
}
