//! Causes: which service, operation and place made a range of time unlike the time before it.

mod attributes;
mod changes;
mod explain;
mod read;
mod windows;
mod words;

use spanwise_model::TraceId;
use spanwise_store::TimeRange;

use crate::{Queries, QueryError, on_blocking_thread};
use windows::Reader;

/// The most suspects of an answer.
const MOST_SUSPECTS: usize = 5;

/// A question for causes.
#[derive(Debug, Clone, Default)]
pub struct CauseQuery {
    /// The range to explain. Without one, the latest minutes that are unusual against the hours
    /// before are found.
    pub time: Option<TimeRange>,
    /// Only requests that this service takes part in, and of these what is below it.
    pub service: Option<String>,
}

/// Who is suspected of what, and by what evidence.
#[derive(Debug, Clone)]
pub struct CauseAnswer {
    /// The answer in one or two sentences.
    pub summary: String,
    /// Whether a suspect stands out. If none does, nothing is known to be wrong.
    pub stands_out: bool,
    /// Suspects, the most suspected first.
    pub suspects: Vec<CauseSuspect>,
    /// What began or ended with the range.
    pub changes: Vec<CauseChange>,
    /// The range that is explained.
    pub time: TimeRange,
    /// Whether it was found, and not given.
    pub found: bool,
    /// From the first to the last of the usual ranges.
    pub usual_time: Option<TimeRange>,
    /// How many usual ranges it was compared with.
    pub usual_ranges: usize,
    /// Spans of the range that were compared.
    pub spans: usize,
    /// Spans of the usual ranges.
    pub usual_spans: usize,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// Who is suspected.
#[derive(Debug, Clone, Default)]
pub struct CauseSuspect {
    /// The service.
    pub service: String,
    /// The operation that the strongest evidence is of.
    pub operation: Option<String>,
    /// The share of what is unusual that it explains; more than 1 if it explains it in several
    /// ways.
    pub score: f64,
    /// Whether it stands out.
    pub stands_out: bool,
    /// What speaks against it, the strongest first.
    pub evidence: Vec<CauseEvidence>,
    /// About when it began.
    pub began_unix_nano: Option<i64>,
    /// The hosts, pods or processes where it is seen, in words.
    pub places: Vec<String>,
    /// Services that call it.
    pub callers: Vec<String>,
    /// Values of attributes that requests which are slow or failed have, and others do not.
    pub attributes: Vec<CauseAttribute>,
    /// Traces that show it, the worst first.
    pub bad_traces: Vec<CauseTrace>,
    /// Traces of the usual ranges, to compare with.
    pub usual_traces: Vec<CauseTrace>,
}

/// What is unlike the usual ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CauseKind {
    /// Time that an operation itself took.
    OwnTime,
    /// Time between a caller and the service that answers.
    TimeBetween,
    /// Calls for each run of an operation.
    Calls,
    /// Failures that no failed call explains.
    Errors,
    /// Calls between two services that had retransmits.
    Retransmits,
}

/// Evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseEvidence {
    /// What it is of.
    pub kind: CauseKind,
    /// A sentence for people.
    pub text: String,
    /// Milliseconds, calls, or the share that failed or had retransmits.
    pub value: f64,
    /// The usual value.
    pub usual: f64,
}

/// A value of an attribute that separates bad requests from good ones.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseAttribute {
    /// The attribute.
    pub key: String,
    /// The value.
    pub value: String,
    /// The share of bad spans that have it.
    pub bad_share: f64,
    /// The share of good spans that have it.
    pub good_share: f64,
}

/// An example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseTrace {
    /// The trace.
    pub trace: TraceId,
    /// When the span that the evidence is of started.
    pub start_unix_nano: i64,
    /// What it shows, such as `210 ms`.
    pub text: String,
}

/// Something that began or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseChange {
    /// A sentence for people.
    pub text: String,
    /// The service that changed.
    pub service: String,
    /// When it was first seen; `None` for what ended.
    pub since_unix_nano: Option<i64>,
}

impl Queries {
    /// Ranked suspects for a range of time.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn cause(&self, query: &CauseQuery) -> Result<CauseAnswer, QueryError> {
        let reader = Reader::new(self, query.service.as_deref());
        let compared = match query.time {
            Some(time) => reader.given(time).await?,
            None => reader.found().await?,
        };
        let (time, usual_time) = (compared.asked.time, compared.usual_time());
        let (mut answer, limits) =
            on_blocking_thread("looking for causes", move || explain::explain(compared)).await?;
        for (suspect, slow_nano) in answer.suspects.iter_mut().zip(limits).take(3) {
            suspect.attributes =
                self.separating_attributes(suspect, slow_nano, time, usual_time).await?;
        }
        Ok(answer)
    }
}
