//! The parts of the API's answers that the command line prints. Fields that
//! are not printed are not named here.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// Nanoseconds: in JSON a text, since its numbers stop being exact at 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Nano(pub(super) i64);

impl<'de> Deserialize<'de> for Nano {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Nano;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nanoseconds, as a text of digits or a whole number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Nano, E> {
                text.parse().map(Nano).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_i64<E: Error>(self, nano: i64) -> Result<Nano, E> {
                Ok(Nano(nano))
            }

            fn visit_u64<E: Error>(self, nano: u64) -> Result<Nano, E> {
                i64::try_from(nano)
                    .map(Nano)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(nano), &self))
            }
        }
        deserializer.deserialize_any(Digits)
    }
}

/// `GET /api/v1/services`
#[derive(Debug, Deserialize)]
pub(super) struct Services {
    pub(super) services: Vec<Service>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Service {
    pub(super) name: String,
    #[serde(default)]
    pub(super) kinds: Vec<String>,
    pub(super) spans: u64,
    pub(super) errors: u64,
    pub(super) last_seen_unix_nano: Nano,
}

/// `GET /api/v1/search`
#[derive(Debug, Deserialize)]
pub(super) struct Found {
    pub(super) traces: Vec<Summary>,
    #[serde(default)]
    pub(super) sort: Option<String>,
    pub(super) searched: Range,
    #[serde(default)]
    pub(super) covered: Option<Range>,
    #[serde(default)]
    pub(super) older_end_unix_nano: Option<Nano>,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
    /// Why nothing was found.
    #[serde(default)]
    pub(super) advice: Vec<String>,
}

/// A time, and whether all of it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Range {
    pub(super) start_unix_nano: Nano,
    pub(super) end_unix_nano: Nano,
    #[serde(default = "yes")]
    pub(super) complete: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    pub(super) trace_id: String,
    #[serde(default)]
    pub(super) root: Option<Root>,
    pub(super) start_unix_nano: Nano,
    pub(super) duration_nano: Nano,
    pub(super) spans: u64,
    pub(super) errors: u64,
    pub(super) services: Vec<ServiceShare>,
    #[serde(default)]
    pub(super) uncertain_links: u64,
    #[serde(default)]
    pub(super) doubtful: bool,
    #[serde(default = "yes")]
    pub(super) complete: bool,
    #[serde(default)]
    pub(super) error: Option<TraceError>,
}

/// The failure that is nearest to the cause.
#[derive(Debug, Deserialize)]
pub(super) struct TraceError {
    pub(super) service: String,
    pub(super) operation: String,
    #[serde(default)]
    pub(super) status_code: Option<i64>,
    #[serde(default)]
    pub(super) text: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Root {
    pub(super) service: String,
    pub(super) operation: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ServiceShare {}

/// `GET /api/v1/traces/{id}`: a page, or several put together.
#[derive(Debug, Deserialize)]
pub(super) struct Trace {
    pub(super) trace_id: String,
    pub(super) start_unix_nano: Nano,
    pub(super) duration_nano: Nano,
    pub(super) spans: Vec<Span>,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
    #[serde(default)]
    pub(super) services: Vec<ServiceShare>,
    /// Of the whole trace, as all that is said of it.
    #[serde(default)]
    pub(super) span_count: Option<u64>,
    #[serde(default)]
    pub(super) error_count: Option<u64>,
    #[serde(default)]
    pub(super) depth: Option<u64>,
    #[serde(default = "yes")]
    pub(super) complete: bool,
    /// Where the next page begins.
    #[serde(default)]
    pub(super) next_after: Option<u64>,
    /// Names what the pages are of.
    #[serde(default)]
    pub(super) snapshot: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Span {
    pub(super) span_id: String,
    #[serde(default)]
    pub(super) parent: Option<String>,
    #[serde(default)]
    pub(super) children: Vec<String>,
    pub(super) depth: usize,
    pub(super) start_unix_nano: Nano,
    pub(super) duration_nano: Nano,
    pub(super) service: String,
    pub(super) operation: String,
    pub(super) capture: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) status_code: Option<i64>,
    #[serde(default)]
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) evidence: Option<String>,
    #[serde(default)]
    pub(super) confidence: Option<f32>,
}

/// `GET/POST /api/v1/sql`
#[derive(Debug, Deserialize)]
pub(super) struct Rows {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<serde_json::Value>>,
    #[serde(default)]
    pub(super) truncated: bool,
    #[serde(default)]
    pub(super) elapsed_seconds: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Column {
    pub(super) name: String,
    #[serde(rename = "type", default)]
    pub(super) data_type: String,
}

/// RFC 9457.
#[derive(Debug, Deserialize)]
pub(super) struct Problem {
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) detail: String,
}
