//! TraceQL over the store. Of what a query needs of single spans, [`plan`] makes predicates;
//! the store finds the rows that fulfil them, the newest first; their traces are put together,
//! a few at a time, and the query is evaluated on them, until enough is found or a bound is
//! reached. What needs no more than single spans is evaluated on rows.

mod candidates;
mod counted;
mod metrics;
mod plan;
mod search;
mod spans;
mod tags;

use std::time::{Duration, Instant};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub(crate) use candidates::Candidates;
pub use metrics::{TraceqlMetrics, TraceqlSeries};
pub use search::{FoundSet, FoundSpan, FoundTrace, TraceqlFound, TraceqlSearch};
pub use tags::{Tag, TagScope, TagValue, TagValues, TagsQuery};

/// What a query may take. What reaches a bound ends there, and says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How long it may take, about.
    pub time: Duration,
    /// Traces that it may look at.
    pub traces: usize,
    /// Spans that it may look at.
    pub spans: usize,
}

impl Bounds {
    /// What was reached, in words; `None` where nothing was.
    pub(crate) fn reached(&self, began: Instant, traces: usize, spans: usize) -> Option<String> {
        if traces >= self.traces {
            Some(format!("{traces} traces were looked at"))
        } else if spans >= self.spans {
            Some(format!("{spans} spans were looked at"))
        } else if began.elapsed() >= self.time {
            Some(format!("{} s have passed", self.time.as_secs_f32()))
        } else {
            None
        }
    }
}

/// One end of a connection, as it is shown.
pub fn endpoint(address: &str, port: Option<u16>) -> String {
    match port {
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
        None => address.to_owned(),
    }
}

/// A time for people.
pub(crate) fn moment(unix_nano: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(unix_nano.div_euclid(1_000_000_000));
    let text = time.ok().and_then(|time| time.format(&Rfc3339).ok());
    text.unwrap_or_else(|| unix_nano.to_string())
}
