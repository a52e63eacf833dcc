//! `GET /api/v1/search?q=`: the same search in TraceQL.
//!
//! Other parameters narrow what the query selects: of the spans that it selects, one must be as
//! they say.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use spanwise_api::{CoveredRange, Nano, Range, SearchAnswer, Sort};
use spanwise_query::Queries;
use spanwise_query::traceql::{Bounds, TraceqlSearch};
use spanwise_traceql::ast::Body;
use spanwise_traceql::{Error, Query, parse};

use super::parameters::{Parameters, brief};
use super::{convert, search};
use crate::answer_limits::AnswerLimits;
use crate::problem::Problem;

/// What a search may take.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(10), traces: 100_000, spans: 5_000_000 };

pub(super) async fn answer(
    queries: &Queries,
    limits: &AnswerLimits,
    parameters: &Parameters,
    text: &str,
) -> Result<SearchAnswer, Problem> {
    let query = query(parameters, text)?;
    let sort = search::sort(parameters)?;
    if sort != Sort::Newest {
        return Err(Problem::invalid(
            "a search with `q` gives the newest traces; leave `sort` out, or leave `q` out",
        ));
    }
    if parameters.text("cursor").is_some() {
        return Err(Problem::invalid(
            "a search with `q` has no pages; leave `cursor` out, and choose an earlier `end`",
        ));
    }
    let without_errors = parameters.text("status") == Some("ok");
    let asked = TraceqlSearch {
        query: Arc::new(query),
        time: parameters.time_range()?,
        min_duration_nano: None,
        max_duration_nano: None,
        limit: parameters.count("limit", search::DEFAULT_LIMIT, search::MAX_LIMIT)?,
        spans_per_set: 0,
        bounds: BOUNDS,
    };
    let evaluating = limits.to_evaluate().await?;
    let found = queries.traceql_search(&asked, |_| {}).await?;
    drop(evaluating);
    let is_full = found.traces.len() >= asked.limit;
    let mut traces = queries.summaries(&found.traces, asked.time).await?;
    if without_errors {
        traces.retain(|trace| trace.errors == 0);
    }
    let mut warnings: Vec<String> = found.stopped.iter().cloned().collect();
    if is_full {
        warnings.push(format!(
            "these are the newest {} traces; there may be more: raise `limit`, or choose an \
             earlier `end`",
            asked.limit
        ));
    }
    let mut advice = Vec::new();
    if traces.is_empty() && found.stopped.is_none() {
        advice.push(format!(
            "no trace of this time has what the query selects ({} were looked at); choose an \
             earlier `start`, or ask for less",
            found.examined_traces
        ));
    }
    let (from, to) = (Nano(asked.time.from_unix_nano), Nano(asked.time.to_unix_nano));
    let oldest = traces.iter().map(|trace| trace.start_unix_nano).min();
    let is_whole = found.stopped.is_none() && !is_full;
    let covered_from = if is_whole { from } else { oldest.map_or(to, Nano) };
    Ok(SearchAnswer {
        advice,
        covered: CoveredRange {
            complete: found.stopped.is_none(),
            end_unix_nano: to,
            start_unix_nano: covered_from,
        },
        next_cursor: None,
        older_end_unix_nano: None,
        searched: Range { end_unix_nano: to, start_unix_nano: from },
        sort,
        traces: traces.into_iter().map(convert::summary).collect(),
        warnings,
    })
}

/// The query, narrowed by the other parameters.
fn query(parameters: &Parameters, text: &str) -> Result<Query, Problem> {
    let mut query = parse(text).map_err(|error| Problem::invalid(refusal(text, &error)))?;
    let Body::Search(pipeline) = &mut query.body else {
        return Err(Problem::invalid(
            "`q` is a metrics query, which gives series and no traces; leave its last part out, \
             or ask it at /tempo/api/metrics/query_range",
        ));
    };
    let narrower = narrower(parameters)?;
    if !narrower.is_empty() {
        let stage = parse(&format!("{{ {narrower} }}")).map_err(|error| {
            Problem::invalid(format!("`service` or `operation` is too long for a query: {error}"))
        })?;
        if let Body::Search(further) = stage.body {
            pipeline.stages.extend(further.stages);
        }
    }
    Ok(query)
}

/// The other parameters in TraceQL.
fn narrower(parameters: &Parameters) -> Result<String, Problem> {
    if parameters.all("attribute").any(|text| !text.trim().is_empty()) {
        return Err(Problem::invalid(
            "`attribute` and `q` do not go together; write the condition in the query: \
             { .http.request.method = \"POST\" }",
        ));
    }
    let mut conditions: Vec<String> = Vec::new();
    for (name, field) in [("service", "resource.service.name"), ("operation", "name")] {
        if let Some(value) = parameters.text(name) {
            conditions.push(format!("{field} = {}", quoted(value)));
        }
    }
    match parameters.text("status") {
        None | Some("ok") => {}
        Some("error") => conditions.push("status = error".to_owned()),
        Some(other) => {
            let other = brief(other);
            return Err(Problem::invalid(format!("`status` is `{other}`; write error or ok")));
        }
    }
    for (name, operator) in [("min_duration", ">="), ("max_duration", "<=")] {
        if let Some(nano) = parameters.duration(name)? {
            conditions.push(format!("duration {operator} {nano}ns"));
        }
    }
    Ok(conditions.join(" && "))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// What is wrong with a query, and where: its line, with a caret below the place.
pub(crate) fn refusal(text: &str, error: &Error) -> String {
    /// Characters of a line on either side of the place.
    const AROUND: usize = 60;
    let mut said = format!("invalid TraceQL query: {error}");
    let Some(line) = text.split('\n').nth(error.line - 1) else { return said };
    let at = error.column - 1;
    let from = at.saturating_sub(AROUND);
    let shown: String = line
        .chars()
        .skip(from)
        .take(2 * AROUND)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    _ = write!(said, "\n{shown}\n{:width$}^", "", width = at - from);
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Parameters {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Parameters::checked(pairs.collect())
    }

    #[test]
    fn other_parameters_narrow_what_is_selected() {
        let pairs = [("service", "a\"b\\"), ("status", "error"), ("min_duration", "10ms")];
        let narrowed = query(&of(&pairs), "{ .x = 1 } | count() > 2").expect("valid");
        let expected = "{ .x = 1 } | count() > 2 | { resource.service.name = \"a\\\"b\\\\\" && \
                        status = error && duration >= 10000000ns }";
        assert_eq!(narrowed, parse(expected).expect("valid"));
        let hinted = query(&of(&[("operation", "x")]), "{ } with (most_recent=true)");
        let expected = "{ } | { name = \"x\" } with (most_recent=true)";
        assert_eq!(hinted.expect("valid"), parse(expected).expect("valid"));
        assert!(query(&of(&[("attribute", "a=b")]), "{ }").is_err());
        assert!(query(&of(&[("status", "bad")]), "{ }").is_err());
        assert!(query(&of(&[]), "{ } | rate()").is_err());
    }

    #[test]
    fn the_place_of_a_mistake_is_shown() {
        let text = "{ name = \"ü\" }\n  && { .a == 1 }";
        let error = parse(text).expect_err("wrong");
        let said = refusal(text, &error);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("invalid TraceQL query: line 2, column "), "{said}");
        assert_eq!(lines[1], "  && { .a == 1 }");
        assert_eq!(lines[2].chars().count(), error.column);
        let long = format!("{{ {} ? }}", ".abc = 1 && ".repeat(100));
        let said = refusal(&long, &parse(&long).expect_err("wrong"));
        assert!(said.lines().all(|line| line.chars().count() <= 200), "{said}");
    }
}
