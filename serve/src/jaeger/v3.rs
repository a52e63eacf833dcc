//! Version 3, by HTTP (jaeger `jaegerquery/internal/apiv3`): traces are OTLP's JSON, and names of
//! parameters are written in either of two ways.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query as UrlQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use serde_json::json;
use spanwise_model::{ModelError, TraceId};
use spanwise_parameters::{go_duration, tags};
use spanwise_query::{Queries, QueryError, TraceTree, moment_unix_nano, now_unix_nano};
use spanwise_store::TimeRange;
use time::PrimitiveDateTime;

use super::search::{DEFAULT_TRACES, Search, asked_id};
use super::summary::TraceSummary;
use crate::answer_limits::AnswerLimits;
use crate::dialect::placed::Reading;
use crate::dialect::{otlp, with_warnings};
use crate::problem::Problem;
use crate::{Shared, slow_reader};

pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/api/v3/services", get(services))
        .route("/api/v3/operations", get(operations))
        .route("/api/v3/traces", get(traces))
        .route("/api/v3/traces/{id}", get(trace))
        .route("/api/v3/trace-summaries", get(summaries))
        .route("/api/v3/dependencies", get(dependencies))
}

/// A failure, with its status.
#[derive(Debug)]
struct Failure(StatusCode, String);

impl Failure {
    fn invalid(detail: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, detail.into())
    }

    fn not_found() -> Self {
        Self(StatusCode::NOT_FOUND, "No traces found".to_owned())
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let (status, detail) = problem.into_parts();
        Self(status, detail)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let error = json!({ "httpCode": self.0.as_u16(), "message": self.1 });
        let json = json!({ "error": error }).to_string();
        (self.0, [(header::CONTENT_TYPE, "application/json")], json).into_response()
    }
}

type Answer = Result<Response, Failure>;
type Pairs = Vec<(String, String)>;

fn answer(value: &impl Serialize) -> Answer {
    let json = serde_json::to_vec(value);
    let json = json.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// Query parameters, of which each has several names.
struct Parameters(Pairs);

impl Parameters {
    /// The first value that is not empty, with the name that it has.
    fn text<'a>(&'a self, names: &[&'a str]) -> Option<(&'a str, &'a str)> {
        names.iter().find_map(|name| {
            let found = self.0.iter().find(|(known, value)| known == name && !value.is_empty());
            found.map(|(_, value)| (*name, value.as_str()))
        })
    }

    fn owned(&self, names: &[&str]) -> Option<String> {
        self.text(names).map(|(_, text)| text.to_owned())
    }

    fn moment(&self, names: &[&str]) -> Result<Option<i64>, Failure> {
        let Some((name, text)) = self.text(names) else { return Ok(None) };
        // A number alone would be read as nanoseconds.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let moment = moment_unix_nano(text, now_unix_nano(), PrimitiveDateTime::assume_utc);
        let moment = moment.filter(|_| !is_number);
        let why = "write a time such as 2026-11-26T09:30:00Z";
        moment.map(Some).ok_or_else(|| malformed(name, text, why))
    }

    fn duration(&self, names: &[&str]) -> Result<Option<i64>, Failure> {
        let Some((name, text)) = self.text(names) else { return Ok(None) };
        let nano = go_duration::read(text);
        let nano = nano.ok_or_else(|| malformed(name, text, "write for example 10ms or 1.5s"))?;
        Ok(Some(nano).filter(|nano| *nano != 0))
    }

    fn reading(&self, names: &[&str]) -> Result<Reading, Failure> {
        match self.text(names) {
            None => Ok(Reading::Assembled),
            Some((_, "true" | "1")) => Ok(Reading::Raw),
            Some((_, "false" | "0")) => Ok(Reading::Assembled),
            Some((name, text)) => Err(malformed(name, text, "write true or false")),
        }
    }

    fn search(&self) -> Result<Search, Failure> {
        if let Some((name, _)) = self.text(&["query.filter"]) {
            return Err(Failure::invalid(format!(
                "the parameter {name} is not understood here: filter by query.attributes, or by \
                 the search of Spanwise itself"
            )));
        }
        let from = self.moment(&["query.startTimeMin", "query.start_time_min"])?;
        let to = self.moment(&["query.startTimeMax", "query.start_time_max"])?;
        let (Some(from_unix_nano), Some(to_unix_nano)) = (from, to) else {
            return Err(Failure::invalid("query.startTimeMin and query.startTimeMax are required"));
        };
        if from_unix_nano >= to_unix_nano {
            return Err(Failure::invalid("query.startTimeMin must be before query.startTimeMax"));
        }
        let depth = self.text(&["query.searchDepth", "query.search_depth", "query.num_traces"]);
        let limit = match depth.map(|(name, text)| (name, text, text.parse::<i64>())) {
            None => DEFAULT_TRACES,
            Some((_, _, Ok(number))) => {
                usize::try_from(number).ok().filter(|number| *number > 0).unwrap_or(DEFAULT_TRACES)
            }
            Some((name, text, Err(_))) => {
                return Err(malformed(name, text, "write a whole number"));
            }
        };
        let search = Search {
            service: self.owned(&["query.serviceName", "query.service_name"]),
            operation: self.owned(&["query.operationName", "query.operation_name"]),
            tags: self.attributes()?,
            min_duration_nano: self.duration(&["query.durationMin", "query.duration_min"])?,
            max_duration_nano: self.duration(&["query.durationMax", "query.duration_max"])?,
            time: TimeRange { from_unix_nano, to_unix_nano },
            limit,
        };
        search.refusal().map_or(Ok(search), |refusal| Err(Failure::invalid(refusal)))
    }

    /// `query.attributes`: a JSON object of texts.
    fn attributes(&self) -> Result<Vec<(String, String)>, Failure> {
        let Some((name, text)) = self.text(&["query.attributes"]) else { return Ok(Vec::new()) };
        tags::object(text)
            .map_err(|error| malformed(name, text, &format!("it is no JSON object: {error}")))
    }
}

fn malformed(name: &str, text: &str, why: &str) -> Failure {
    let shown: String = text.chars().take(64).collect();
    Failure::invalid(format!("malformed parameter {name}: `{shown}`: {why}"))
}

async fn services(State(queries): State<Queries>) -> Answer {
    answer(&json!({ "services": super::services(&queries).await? }))
}

async fn operations(State(queries): State<Queries>, UrlQuery(pairs): UrlQuery<Pairs>) -> Answer {
    let parameters = Parameters(pairs);
    let service = parameters.owned(&["service"]).unwrap_or_default();
    let kind = parameters.owned(&["spanKind", "span_kind"]).unwrap_or_default();
    let operations = super::operations(&queries, &service, &kind).await?;
    let operations = operations
        .into_iter()
        .map(|total| json!({ "name": total.name, "spanKind": total.kind.as_str() }));
    answer(&json!({ "operations": operations.collect::<Vec<_>>() }))
}

async fn traces(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let parameters = Parameters(pairs);
    let search = parameters.search()?;
    let reading = parameters.reading(&["query.rawTraces", "query.raw_traces"])?;
    let _reading = limits.to_read().await?;
    let found = search.run(&queries).await?;
    let traces = found.traces.into_iter().map(|tree| (tree.trace.trace_id, Arc::new(tree)));
    let written = write(&limits, traces.collect(), reading).await?;
    Ok(with_warnings(written, &found.warnings))
}

async fn trace(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    Path(id): Path<String>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let reading = Parameters(pairs).reading(&["rawTraces", "raw_traces"])?;
    let id = super::read_id(&id)
        .map_err(|why| Failure::invalid(format!("malformed parameter trace_id: {why}")))?;
    let _reading = limits.to_read().await?;
    let found = super::trace(&queries, id).await?;
    write(&limits, found.map(|tree| (asked_id(id), tree)).into_iter().collect(), reading).await
}

/// Traces, each under its id, as an answer.
async fn write(
    limits: &AnswerLimits,
    traces: Vec<(TraceId, Arc<TraceTree>)>,
    reading: Reading,
) -> Answer {
    if traces.is_empty() {
        return Err(Failure::not_found());
    }
    let write = move || -> Result<Vec<u8>, ModelError> {
        let mut json = br#"{"result":{"resourceSpans":["#.to_vec();
        for (id, tree) in &traces {
            otlp::parts(tree, *id, reading, |part| {
                for resource in &part.resource_spans {
                    // What is written is texts and numbers, which are JSON.
                    let _ = serde_json::to_writer(&mut json, resource);
                    json.push(b',');
                }
            })?;
        }
        json.pop_if(|last| *last == b',');
        json.extend_from_slice(b"]}}");
        Ok(json)
    };
    let written = tokio::task::spawn_blocking(write).await;
    let json = written
        .map_err(|error| Problem::internal(error.to_string()))?
        .map_err(|error| Problem::internal(error.to_string()))?;
    let permit = limits.to_answer(json.len())?;
    let body = slow_reader::answer(json, permit);
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

async fn summaries(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let search = Parameters(pairs).search()?;
    let _reading = limits.to_read().await?;
    let found = search.run(&queries).await?;
    let summaries = found.traces.iter().map(TraceSummary::of).collect::<Result<Vec<_>, _>>();
    let summaries = summaries.map_err(|error| Problem::internal(error.to_string()))?;
    let summaries: Vec<_> = summaries.iter().map(TraceSummary::json).collect();
    let body = answer(&json!({ "summaries": summaries }))?;
    Ok(with_warnings(body, &found.warnings))
}

async fn dependencies(State(queries): State<Queries>, UrlQuery(pairs): UrlQuery<Pairs>) -> Answer {
    let parameters = Parameters(pairs);
    let from = parameters.moment(&["startTime", "start_time"])?;
    let to = parameters.moment(&["endTime", "end_time"])?;
    let (Some(from_unix_nano), Some(to_unix_nano)) = (from, to) else {
        return Err(Failure::invalid("startTime and endTime are required"));
    };
    let time = TimeRange { from_unix_nano, to_unix_nano };
    let (links, warnings) = super::dependencies(&queries, time).await?;
    let links = links.iter().map(|link| {
        json!({
            "parent": link.parent, "child": link.child, "callCount": link.calls.to_string(),
        })
    });
    let body = answer(&json!({ "dependencies": links.collect::<Vec<_>>() }))?;
    Ok(with_warnings(body, &warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(pairs: &[(&str, &str)]) -> Result<Search, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Parameters(pairs.collect()).search().map_err(|failure| failure.1)
    }

    #[test]
    fn parameters_are_read_in_both_ways_of_writing_them() {
        let camel = search(&[
            ("query.serviceName", "cart"),
            ("query.startTimeMin", "1970-01-01T00:00:01Z"),
            ("query.startTimeMax", "1970-01-01T00:00:02.5Z"),
            ("query.durationMin", "1ms"),
            ("query.searchDepth", "7"),
            ("query.attributes", r#"{"a":"1"}"#),
        ]);
        let snake = search(&[
            ("query.service_name", "cart"),
            ("query.start_time_min", "1970-01-01T00:00:01Z"),
            ("query.start_time_max", "1970-01-01T00:00:02.5Z"),
            ("query.duration_min", "1ms"),
            ("query.num_traces", "7"),
            ("query.attributes", r#"{"a":"1"}"#),
        ]);
        assert_eq!(camel, snake);
        let read = camel.unwrap();
        let time = TimeRange { from_unix_nano: 1_000_000_000, to_unix_nano: 2_500_000_000 };
        assert_eq!(read.time, time);
        assert_eq!((read.limit, read.tags.len(), read.min_duration_nano), (7, 1, Some(1_000_000)));
        assert!(search(&[]).unwrap_err().contains("are required"));
        let times = [
            ("query.startTimeMin", "1970-01-01T00:00:01Z"),
            ("query.startTimeMax", "1970-01-01T00:00:02Z"),
        ];
        for (name, value, why) in [
            ("query.filter", "{}", "not understood"),
            ("query.searchDepth", "x", "whole number"),
            ("query.attributes", "[]", "no JSON object"),
            ("query.durationMax", "5", "10ms"),
        ] {
            let error = search(&[times[0], times[1], (name, value)]).unwrap_err();
            assert!(error.contains(why) && error.contains(name), "{error}");
        }
        assert!(search(&[times[0], ("query.startTimeMax", "5")]).is_err(), "a bare number");
    }
}
