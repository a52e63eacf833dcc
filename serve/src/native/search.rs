//! `GET /api/v1/search`

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_api::endpoints::SEARCH;
use spanwise_api::{CoveredRange, Nano, Range, SearchAnswer, Sort};
use spanwise_model::Status;
use spanwise_query::{Queries, SearchQuery, SpanPredicate, TraceOrder, TracePredicate};

use super::convert;
use super::parameters::{Parameters, brief};
use crate::problem::Problem;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;

pub(super) async fn search(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<SearchAnswer>, Problem> {
    let parameters = Parameters::of(&SEARCH, pairs)?;
    let (query, sort) = query(&parameters)?;
    let answer = queries.search(&query).await?;
    let end_unix_nano = Nano(query.time.to_unix_nano);
    Ok(Json(SearchAnswer {
        advice: answer.advice,
        covered: CoveredRange {
            complete: answer.covered.complete,
            end_unix_nano,
            start_unix_nano: Nano(answer.covered.from_unix_nano),
        },
        older_end_unix_nano: answer.older_end_unix_nano.map(Nano),
        searched: Range { end_unix_nano, start_unix_nano: Nano(query.time.from_unix_nano) },
        sort,
        traces: answer.traces.into_iter().map(convert::summary).collect(),
        warnings: answer.warnings,
    }))
}

fn sort(parameters: &Parameters) -> Result<Sort, Problem> {
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
fn query(parameters: &Parameters) -> Result<(SearchQuery, Sort), Problem> {
    let time = parameters.time_range()?;
    let limit = parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let sort = sort(parameters)?;
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
    Ok((SearchQuery { span, trace, time, order, limit }, sort))
}
