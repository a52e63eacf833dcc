//! `GET /api/v1/services`

use serde::{Deserialize, Serialize};

use crate::Nano;

/// All services with stored spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Services {
    /// The `cursor` of the next page; null if there is none.
    pub next_cursor: Option<String>,
    /// The services, by name.
    pub services: Vec<Service>,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Service {
    /// Its spans that failed.
    pub errors: u64,
    /// Where its spans were captured.
    #[cfg_attr(test, schemars(with = "Vec<crate::vocabulary::Capture>"))]
    pub kinds: Vec<spanwise_model::Capture>,
    /// The latest start of its spans.
    pub last_seen_unix_nano: Nano,
    /// The service's name.
    pub name: String,
    /// Its spans.
    pub spans: u64,
}
