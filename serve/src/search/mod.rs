//! `GET /api/v1/search`: traces that have a span like this.

mod advice;
mod newest;
mod ranked;
mod summaries;

use std::cmp::Reverse;
use std::collections::HashMap;

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use serde_json::{Value, json};
use spanwise_analyze::TraceSummary;
use spanwise_model::{Status, TraceId};
use spanwise_store::{Predicate, TimeRange};

use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::{ApiState, json};
use summaries::summarise;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;
/// Traces looked at where the answer depends on whole traces.
const MAX_CANDIDATES: usize = 2_000;
const PARAMETERS: &[&str] = &[
    "service",
    "operation",
    "min_duration",
    "max_duration",
    "status",
    "attribute",
    "start",
    "end",
    "limit",
    "sort",
];

/// What is asked for: rows that the store can find, and what their traces shall
/// be like, which only shows once they are assembled.
struct Wanted {
    predicate: Predicate,
    /// Whether the predicate tells of a span, so that durations are that span's.
    names_a_span: bool,
    whole: Whole,
}

/// What whole traces shall be like.
#[derive(Default)]
struct Whole {
    without_errors: bool,
    min_duration_nano: Option<i64>,
    max_duration_nano: Option<i64>,
}

impl Whole {
    const fn is_anything(&self) -> bool {
        !self.without_errors && self.min_duration_nano.is_none() && self.max_duration_nano.is_none()
    }

    fn fits(&self, summary: &TraceSummary) -> bool {
        (summary.errors == 0 || !self.without_errors)
            && self.min_duration_nano.is_none_or(|least| summary.duration_nano >= least)
            && self.max_duration_nano.is_none_or(|most| summary.duration_nano <= most)
    }
}

/// Which of all traces that fit come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Newest,
    Slowest,
    Errors,
    Largest,
}

impl Sort {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Newest, "newest"),
        (Self::Slowest, "slowest"),
        (Self::Errors, "errors"),
        (Self::Largest, "largest"),
    ];

    fn wanted(parameters: &Parameters) -> Result<Self, Problem> {
        let Some(text) = parameters.text("sort") else { return Ok(Self::Newest) };
        let known = Self::ALL.into_iter().find(|(_, name)| *name == text);
        known.map(|(sort, _)| sort).ok_or_else(|| {
            Problem::invalid(format!(
                "`sort` is `{}`; write newest, slowest, errors or largest",
                crate::parameters::brief(text)
            ))
        })
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Slowest => "slowest",
            Self::Errors => "errors",
            Self::Largest => "largest",
        }
    }
}

/// A trace, and a row by which it was found.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: TraceId,
    start_unix_nano: i64,
    /// How it stands in the order that is asked for.
    rank: i64,
}

/// For what time an answer's order holds.
struct Covered {
    from_unix_nano: i64,
    complete: bool,
}

/// What was found.
struct Found {
    summaries: Vec<TraceSummary>,
    covered: Covered,
    /// Where the newest go on; none where there are no more, or in another order.
    older_end_unix_nano: Option<i64>,
    warnings: Vec<String>,
}

pub(crate) async fn search(
    State(state): State<ApiState>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let parameters = Parameters::new(pairs);
    parameters.only(PARAMETERS)?;
    let time = parameters.time_range()?;
    let limit = parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let sort = Sort::wanted(&parameters)?;
    let wanted = wanted(&parameters)?;
    let found = match sort {
        Sort::Newest => newest::find(&state, &wanted, time, limit).await?,
        sort => ranked::find(&state, &wanted, time, limit, sort).await?,
    };
    let advice = match found.summaries.is_empty() {
        true => advice::advice(&state, &wanted, time).await?,
        false => Vec::new(),
    };
    Ok(Json(json!({
        "traces": found.summaries.iter().map(json::summary).collect::<Vec<_>>(),
        "sort": sort.as_str(),
        "searched": {
            "start_unix_nano": time.from_unix_nano.to_string(),
            "end_unix_nano": time.to_unix_nano.to_string(),
        },
        "covered": {
            "start_unix_nano": found.covered.from_unix_nano.to_string(),
            "end_unix_nano": time.to_unix_nano.to_string(),
            "complete": found.covered.complete,
        },
        "older_end_unix_nano": found.older_end_unix_nano.map(|end| end.to_string()),
        "warnings": found.warnings,
        "advice": advice,
    })))
}

/// Service, operation and attributes name a span, and durations and `error` are
/// then that span's; without them they are the trace's. `ok` is always said of
/// the trace: none of its spans failed.
fn wanted(parameters: &Parameters) -> Result<Wanted, Problem> {
    let (failed, without_errors) = match parameters.text("status") {
        None => (false, false),
        Some("error") => (true, false),
        Some("ok") => (false, true),
        Some(other) => {
            return Err(Problem::invalid(format!("`status` is `{other}`; write error or ok")));
        }
    };
    let min_duration_nano = parameters.duration("min_duration")?;
    let max_duration_nano = parameters.duration("max_duration")?;
    let (service, operation) = (parameters.text("service"), parameters.text("operation"));
    let attributes = parameters.conditions("attribute")?;
    let names_a_span = service.is_some() || operation.is_some() || !attributes.is_empty();
    let mut wanted = Wanted {
        predicate: Predicate {
            service: service.map(str::to_owned),
            operation: operation.map(str::to_owned),
            min_duration_nano,
            max_duration_nano,
            status: failed.then_some(Status::Error),
            attributes,
            assembled: true,
            // One row a trace stands for it, where any will do.
            root: !names_a_span && !failed,
        },
        names_a_span,
        whole: Whole { without_errors, ..Whole::default() },
    };
    if !names_a_span {
        // Where roots are looked for, the store leaves out most traces that
        // are too short or too long; a failing span's own duration says nothing.
        wanted.whole.min_duration_nano = min_duration_nano;
        wanted.whole.max_duration_nano = max_duration_nano;
        if failed {
            wanted.predicate.min_duration_nano = None;
            wanted.predicate.max_duration_nano = None;
        }
    }
    Ok(wanted)
}

/// Sorts what was found as asked; `rank` is that of the row by which a trace was found.
fn in_order(sort: Sort, names_a_span: bool, found: &mut [(i64, TraceSummary)]) {
    found.sort_by_key(|(rank, summary)| {
        let rank = match sort {
            Sort::Newest => summary.start_unix_nano,
            Sort::Slowest if names_a_span => *rank,
            Sort::Slowest => summary.duration_nano,
            Sort::Errors => i64::try_from(summary.errors).unwrap_or(i64::MAX),
            Sort::Largest => i64::try_from(summary.spans).unwrap_or(i64::MAX),
        };
        Reverse((rank, summary.start_unix_nano))
    });
}

/// Those of the candidates that fit as a whole, until there are `limit`; also how many
/// candidates were looked at.
async fn fitting(
    state: &ApiState,
    wanted: &Wanted,
    candidates: &[Candidate],
    time: TimeRange,
    limit: usize,
) -> Result<(Vec<(i64, TraceSummary)>, usize), Problem> {
    let mut summaries: Vec<(i64, TraceSummary)> = Vec::new();
    let mut places: HashMap<TraceId, usize> = HashMap::new();
    let mut looked_at = 0;
    // In parts, so that not all candidates are read where the first ones do.
    for part in candidates.chunks(limit) {
        for (candidate, summary) in part.iter().zip(summarise(state, part, time).await?) {
            if summaries.len() == limit {
                return Ok((summaries, looked_at));
            }
            looked_at += 1;
            let Some(summary) = summary.filter(|summary| wanted.whole.fits(summary)) else {
                continue;
            };
            // What came late has made one trace of two of them.
            match places.get(&summary.trace_id) {
                Some(place) if summaries[*place].1.spans < summary.spans => {
                    summaries[*place].1 = summary;
                }
                Some(_) => {}
                None => {
                    places.insert(summary.trace_id, summaries.len());
                    summaries.push((candidate.rank, summary));
                }
            }
        }
    }
    Ok((summaries, looked_at))
}
