//! `GET /api/v1/attributes` and `/api/v1/attributes/values`

use serde::{Deserialize, Serialize};

use crate::CoveredRange;

/// The keys of attributes that the newest spans have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttributeKeys {
    /// The range of time whose spans were counted.
    pub covered: CoveredRange,
    /// The keys, the most frequent first.
    pub keys: Vec<AttributeKey>,
    /// The `cursor` of the next page; null if there is none.
    pub next_cursor: Option<String>,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttributeKey {
    /// The key.
    pub key: String,
    /// What has the attribute.
    pub on: AttributePlace,
    /// Spans that have it.
    pub spans: u64,
}

/// What has an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AttributePlace {
    /// The span itself.
    Span,
    /// Its resource.
    Resource,
    /// Its process, as a label that the agent reports.
    Label,
}

/// The values of an attribute that the newest spans have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttributeValues {
    /// The range of time whose spans were counted.
    pub covered: CoveredRange,
    /// The `cursor` of the next page; null if there is none.
    pub next_cursor: Option<String>,
    /// The values, the most frequent first.
    pub values: Vec<AttributeValue>,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttributeValue {
    /// Spans that have it.
    pub spans: u64,
    /// The value as text.
    pub value: String,
}
