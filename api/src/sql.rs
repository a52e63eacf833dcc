//! `GET` and `POST /api/v1/sql`

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A statement, as it is posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SqlStatement {
    /// `json`, `csv`, `arrow` or `table`. Without it, the `Accept` header decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// One read-only statement over the table `spans`.
    pub query: String,
}

/// The rows that a statement gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SqlAnswer {
    /// The columns.
    pub columns: Vec<SqlColumn>,
    /// The rows, each with a value for every column. Integers beyond 2^53 are strings.
    pub rows: Vec<Vec<Value>>,
    /// What follows the rows.
    #[serde(flatten)]
    pub end: SqlEnd,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SqlColumn {
    /// Its name.
    pub name: String,
    /// Its type, as Arrow names it.
    #[serde(rename = "type")]
    pub data_type: String,
}

/// What follows the rows of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SqlEnd {
    /// How long the statement ran.
    pub elapsed_seconds: f64,
    /// Whether there are more rows than these.
    pub truncated: bool,
}
