//! `DELETE /api/v1/traces/{id}` and `DELETE /api/v1/services/{name}`

use serde::{Deserialize, Serialize};

/// What was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Deletion {
    /// Spans that were stored and are deleted.
    pub deleted_spans: u64,
}
