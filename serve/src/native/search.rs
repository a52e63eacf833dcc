//! `GET /api/v1/search`

use std::sync::Arc;

use axum::extract::{Query as UrlQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Json, Response};
use spanwise_api::endpoints::SEARCH;
use spanwise_api::{CoveredRange, Nano, Range, SearchAnswer, Sort};
use spanwise_model::{Status, TraceId};
use spanwise_query::{
    Covered, NextSearch, Queries, SearchQuery, SpanPredicate, TraceOrder, TracePredicate,
};

use super::parameters::{Parameters, brief};
use super::{convert, search_lines, traceql};
use crate::answer_limits::AnswerLimits;
use crate::problem::Problem;

pub(super) const DEFAULT_LIMIT: usize = 20;
pub(super) const MAX_LIMIT: usize = 500;
/// The most traces of an answer in lines.
const MAX_LINES: usize = 100_000;
/// The most traces that a cursor names.
const MAX_SKIPPED: usize = 200;

pub(super) async fn search(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    headers: HeaderMap,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(&SEARCH, pairs)?;
    if search_lines::are_wanted(&headers) {
        if parameters.text("q").is_some() {
            return Err(Problem::invalid(
                "an answer in lines takes no `q`; ask for JSON, or leave `q` out",
            ));
        }
        let (query, _) = query(&parameters, true)?;
        return search_lines::answer(queries, query, limits.to_download()?).await;
    }
    Ok(Json(answer(&queries, &limits, &parameters).await?).into_response())
}

/// The traces that these parameters ask for.
pub(crate) async fn answer(
    queries: &Queries,
    limits: &AnswerLimits,
    parameters: &Parameters,
) -> Result<SearchAnswer, Problem> {
    if let Some(text) = parameters.text("q") {
        return traceql::answer(queries, limits, parameters, text).await;
    }
    let (query, sort) = query(parameters, false)?;
    let answer = queries.search(&query).await?;
    let end_unix_nano = Nano(query.time.to_unix_nano);
    Ok(SearchAnswer {
        advice: answer.advice,
        covered: covered(answer.covered, &query),
        next_cursor: answer.next.as_ref().map(cursor),
        older_end_unix_nano: answer.older_end_unix_nano.map(Nano),
        searched: Range { end_unix_nano, start_unix_nano: Nano(query.time.from_unix_nano) },
        sort,
        traces: answer.traces.into_iter().map(convert::summary).collect(),
        warnings: answer.warnings,
    })
}

pub(super) const fn covered(covered: Covered, query: &SearchQuery) -> CoveredRange {
    CoveredRange {
        complete: covered.complete,
        end_unix_nano: Nano(query.time.to_unix_nano),
        start_unix_nano: Nano(covered.from_unix_nano),
    }
}

/// The end of the range in which the search continues, and the traces to pass over.
pub(super) fn cursor(next: &NextSearch) -> String {
    let ids: Vec<String> = next.skip.iter().map(ToString::to_string).collect();
    format!("{}:{}", next.end_unix_nano, ids.join(","))
}

fn read_cursor(text: &str) -> Option<NextSearch> {
    let (end, ids) = text.split_once(':')?;
    let ids = ids.split(',').filter(|id| !id.is_empty()).take(MAX_SKIPPED);
    let skip: Option<Vec<TraceId>> = ids.map(|id| id.parse().ok()).collect();
    Some(NextSearch { end_unix_nano: end.parse().ok()?, skip: skip? })
}

pub(super) fn sort(parameters: &Parameters) -> Result<Sort, Problem> {
    match parameters.text("sort") {
        None | Some("newest") => Ok(Sort::Newest),
        Some("slowest") => Ok(Sort::Slowest),
        Some("errors") => Ok(Sort::Errors),
        Some("largest") => Ok(Sort::Largest),
        Some(other) => Err(Problem::invalid(format!(
            "`sort` is `{}`; write newest, slowest, errors or largest",
            brief(other)
        ))),
    }
}

/// Service, operation and attributes select a span. Durations and `error` then refer to that span,
/// otherwise to the trace. `ok` always refers to the trace: none of its spans failed.
fn query(parameters: &Parameters, in_lines: bool) -> Result<(SearchQuery, Sort), Problem> {
    let mut time = parameters.time_range()?;
    let sort = sort(parameters)?;
    let most = if in_lines && sort == Sort::Newest { MAX_LINES } else { MAX_LIMIT };
    let limit = parameters.count("limit", DEFAULT_LIMIT, most)?;
    let mut skip = Vec::new();
    if let Some(text) = parameters.text("cursor") {
        let next = read_cursor(text).filter(|_| sort == Sort::Newest).ok_or_else(|| {
            Problem::invalid(format!(
                "`cursor` is `{}`; write the `next_cursor` of the page before, with its other \
                 parameters, or leave it out",
                brief(text)
            ))
        })?;
        (time.to_unix_nano, skip) = (next.end_unix_nano, next.skip);
    }
    let (status, without_errors) = match parameters.text("status") {
        None => (None, false),
        Some("error") => (Some(Status::Error), false),
        Some("ok") => (None, true),
        Some(other) => {
            return Err(Problem::invalid(format!("`status` is `{other}`; write error or ok")));
        }
    };
    let min_duration_nano = parameters.duration("min_duration")?;
    let max_duration_nano = parameters.duration("max_duration")?;
    let mut span = SpanPredicate {
        service: parameters.text("service").map(str::to_owned),
        operation: parameters.text("operation").map(str::to_owned),
        status,
        attributes: parameters.conditions("attribute")?,
        ..SpanPredicate::default()
    };
    let mut trace = TracePredicate { without_errors, ..TracePredicate::default() };
    let (least, most) = match span.names_a_span() {
        true => (&mut span.min_duration_nano, &mut span.max_duration_nano),
        false => (&mut trace.min_duration_nano, &mut trace.max_duration_nano),
    };
    (*least, *most) = (min_duration_nano, max_duration_nano);
    let order = match sort {
        Sort::Newest => TraceOrder::Newest,
        Sort::Slowest => TraceOrder::Slowest,
        Sort::Errors => TraceOrder::MostErrors,
        Sort::Largest => TraceOrder::MostSpans,
    };
    Ok((SearchQuery { span, trace, time, order, limit, skip }, sort))
}
