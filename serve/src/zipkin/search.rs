//! `GET /api/v2/traces`

use std::sync::Arc;

use axum::extract::{Query as UrlQuery, State};
use spanwise_model::schema::column;
use spanwise_model::{ModelError, Status};
use spanwise_parameters::tags::annotations;
use spanwise_query::{
    Queries, RowQuery, RowTest, SpanPredicate, TraceTree, WholeAnswer, WholeQuery,
};
use spanwise_store::{AttributeCondition, AttributeTest, TimeRange};

use super::names::{self, written};
use super::parameters::{Pairs, Parameters};
use super::{Answer, Failure, large, span};
use crate::answer_limits::AnswerLimits;
use crate::dialect;

const DEFAULT_LIMIT: i64 = 10;
const MOST_TRACES: i64 = 1_000;
/// The most spans of several traces.
pub(super) const MAX_SPANS: usize = 200_000;
/// The most parts of an `annotationQuery`.
const MOST_ANNOTATIONS: usize = 32;

/// What is asked for, as Zipkin's `QueryRequest` has it. Each condition may be met by another
/// span of the service.
#[derive(Debug, Clone, PartialEq)]
struct Request {
    service: Option<String>,
    remote_service: Option<String>,
    span_name: Option<String>,
    /// Keys, each with its value; of those without one, an annotation will do as well.
    annotations: Vec<(String, Option<String>)>,
    min_duration_micros: Option<i64>,
    max_duration_micros: Option<i64>,
    time: TimeRange,
    limit: usize,
}

impl Request {
    fn read(parameters: &Parameters) -> Result<Self, Failure> {
        let name = |name: &str| parameters.text(name).map(str::to_owned);
        let limit = parameters.number("limit")?.unwrap_or(DEFAULT_LIMIT);
        if limit > MOST_TRACES {
            return Err(Failure::invalid(format!("limit > {MOST_TRACES}")));
        }
        let least = parameters.number("minDuration")?;
        let most = parameters.number("maxDuration")?;
        match (least, most) {
            (None, Some(_)) => {
                return Err(Failure::invalid("maxDuration is only valid with minDuration"));
            }
            (Some(least), Some(most)) if most < least => {
                return Err(Failure::invalid("maxDuration < minDuration"));
            }
            _ => {}
        }
        let annotations = annotations(parameters.text("annotationQuery").unwrap_or_default());
        if annotations.len() > MOST_ANNOTATIONS {
            return Err(Failure::invalid(format!(
                "annotationQuery has more than {MOST_ANNOTATIONS} parts"
            )));
        }
        let is_all = |name: &String| name.eq_ignore_ascii_case("all");
        Ok(Self {
            service: name("serviceName").filter(|name| !is_all(name)),
            remote_service: name("remoteServiceName"),
            span_name: name("spanName").filter(|name| !is_all(name)),
            annotations,
            min_duration_micros: least,
            max_duration_micros: most,
            time: names::time(parameters)?,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        })
    }

    /// The names as they are stored; `None` where they are so already.
    async fn in_stored_case(&self, queries: &Queries) -> Result<Option<Self>, Failure> {
        let mut other = self.clone();
        if self.service.is_some() || self.remote_service.is_some() {
            let known: Vec<String> =
                queries.services().await?.into_iter().map(|total| total.name).collect();
            for name in [&mut other.service, &mut other.remote_service].into_iter().flatten() {
                *name = written(name, known.iter().cloned());
            }
        }
        if let Some(name) = &mut other.span_name {
            let known = queries.operations(other.service.as_deref()).await?;
            *name = written(name, known.into_iter().map(|total| total.name));
        }
        Ok((other != *self).then_some(other))
    }

    /// Rows for each condition, but for that on the remote service.
    fn rows(&self) -> Vec<Vec<RowQuery>> {
        let predicate =
            || SpanPredicate { service: self.service.clone(), ..SpanPredicate::default() };
        let of = |span: SpanPredicate| RowQuery { span, test: RowTest::default() };
        let mut rows = Vec::new();
        if self.span_name.is_some() {
            rows.push(vec![of(SpanPredicate { operation: self.span_name.clone(), ..predicate() })]);
        }
        if self.min_duration_micros.is_some() {
            // Zipkin compares whole microseconds.
            let nano = |micros: i64| micros.saturating_mul(1_000);
            rows.push(vec![of(SpanPredicate {
                min_duration_nano: self.min_duration_micros.map(nano),
                max_duration_nano: self
                    .max_duration_micros
                    .map(|most| nano(most).saturating_add(999)),
                ..predicate()
            })]);
        }
        rows.extend(self.annotations.iter().map(|(key, value)| {
            let mut row = of(predicate());
            if key == "error" {
                row.span.status = Some(Status::Error);
                row.test.words.extend(value.clone().map(|text| (column::ERROR, vec![text])));
                return vec![row];
            }
            let test = value.clone().map_or(AttributeTest::Exists, AttributeTest::Equal);
            row.span.attributes.push(AttributeCondition { key: key.clone(), test });
            let mut rows = vec![row];
            if value.is_none() {
                let event_name = Some(key.clone());
                let test = RowTest { event_name, ..RowTest::default() };
                rows.push(RowQuery { span: predicate(), test });
            }
            rows
        }));
        rows
    }

    /// Rows of which one must be there, too, as the remote service may be known in other ways.
    fn remote_rows(&self) -> Vec<Option<RowQuery>> {
        let Some(remote) = &self.remote_service else { return vec![None] };
        let service = |service: &Option<String>| SpanPredicate {
            service: service.clone(),
            ..SpanPredicate::default()
        };
        let of_service = service(&self.service);
        let named = AttributeCondition {
            key: "peer.service".to_owned(),
            test: AttributeTest::Equal(remote.clone()),
        };
        let words = vec![(column::PROTOCOL, vec![remote.clone()])];
        let (test, none) = (RowTest { words, ..RowTest::default() }, RowTest::default());
        vec![
            Some(RowQuery {
                span: SpanPredicate { attributes: vec![named], ..of_service.clone() },
                test: none.clone(),
            }),
            Some(RowQuery { span: service(&self.remote_service), test: none }),
            Some(RowQuery { span: of_service, test }),
        ]
    }

    /// Whether the trace began in time, as Zipkin tells when that was, and has the remote
    /// service.
    fn fits(&self, tree: &TraceTree) -> Result<bool, ModelError> {
        let nodes = &tree.trace.nodes;
        let root =
            nodes.iter().find(|node| node.parent.is_none() && node.row.parent_span_id.is_none());
        let start = root.map_or(tree.start_unix_nano, |root| root.row.start_unix_nano);
        let is_in_time = start >= self.time.from_unix_nano && start < self.time.to_unix_nano;
        if !is_in_time || self.remote_service.is_none() {
            return Ok(is_in_time);
        }
        let is = |name: Option<&str>, wanted: &Option<String>| {
            wanted.as_deref().is_none_or(|wanted| name == Some(wanted))
        };
        for span in span::spans(tree) {
            let span = span?;
            let is_of_service = is(span.service(), &self.service);
            if is_of_service && is(span.remote_service(), &self.remote_service) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn answer(&self, queries: &Queries) -> Result<WholeAnswer, Failure> {
        let mut all = WholeAnswer::default();
        for remote in self.remote_rows() {
            let mut spans = self.rows();
            let is_of_service = remote.as_ref().is_some_and(|row| row.span.service == self.service);
            if spans.is_empty() && !is_of_service && self.service.is_some() {
                let service = self.service.clone();
                let span = SpanPredicate { service, ..SpanPredicate::default() };
                spans.push(vec![RowQuery { span, test: RowTest::default() }]);
            }
            spans.extend(remote.map(|row| vec![row]));
            let query = WholeQuery { spans, time: self.time, limit: self.limit };
            let fits = |tree: &TraceTree| self.fits(tree).unwrap_or(false);
            let found = queries.whole_traces(&query, fits).await?;
            all.warnings.extend(found.warnings);
            for tree in found.traces {
                let id = tree.trace.trace_id;
                if !all.traces.iter().any(|other| other.trace.trace_id == id) {
                    all.traces.push(tree);
                }
            }
        }
        all.traces.sort_by_key(|tree| std::cmp::Reverse(tree.start_unix_nano));
        all.traces.truncate(self.limit);
        Ok(all)
    }
}

pub(super) async fn traces(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let request = Request::read(&Parameters::new(pairs))?;
    let _reading = limits.to_read().await?;
    let mut answer = request.answer(&queries).await?;
    if answer.traces.is_empty()
        && let Some(other) = request.in_stored_case(&queries).await?
    {
        answer = other.answer(&queries).await?;
    }
    let json = write(answer.traces.into_iter().map(Arc::new).collect()).await?;
    Ok(dialect::with_warnings(large(&limits, json)?, &answer.warnings))
}

/// Traces as a list of lists of spans.
pub(super) async fn write(traces: Vec<Arc<TraceTree>>) -> Result<Vec<u8>, Failure> {
    let write = move || -> Result<Vec<u8>, ModelError> {
        let mut json = vec![b'['];
        for (place, tree) in traces.iter().enumerate() {
            if place > 0 {
                json.push(b',');
            }
            json.extend(span::list(tree)?);
        }
        json.push(b']');
        Ok(json)
    };
    let written = tokio::task::spawn_blocking(write).await;
    let written = written.map_err(|error| Failure::internal(&error))?;
    written.map_err(|error| Failure::internal(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Request, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Request::read(&Parameters::new(pairs.collect())).map_err(|failure| failure.1)
    }

    #[test]
    fn parameters_are_read_as_zipkin_reads_them() {
        let request = read(&[
            ("serviceName", "cart"),
            ("spanName", "all"),
            ("annotationQuery", "http.path=/a=b and retried and retried=yes and x= and y"),
            ("minDuration", "10"),
            ("maxDuration", "20"),
            ("endTs", "1000"),
            ("lookback", "400"),
            ("limit", "3"),
            ("unknown", "1"),
            ("remoteServiceName", ""),
        ])
        .unwrap();
        let part = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
        assert_eq!(
            request.annotations,
            [
                part("http.path", Some("/a=b")),
                part("retried", Some("yes")),
                part("x", None),
                part("y", None)
            ]
        );
        assert_eq!((request.span_name.as_deref(), request.remote_service.as_deref()), (None, None));
        assert_eq!(request.time.from_unix_nano, 600_000_000);
        assert_eq!(request.time.to_unix_nano, 1_000_001_000, "its last microsecond is in");
        assert_eq!(request.rows().len(), 5, "a row for the durations, and for each annotation");
        for (pairs, why) in [
            (vec![("limit", "0")], "limit <= 0"),
            (vec![("limit", "x")], "whole number"),
            (vec![("endTs", "-1")], "endTs <= 0"),
            (vec![("lookback", "0")], "lookback <= 0"),
            (vec![("maxDuration", "5")], "only valid with minDuration"),
            (vec![("minDuration", "6"), ("maxDuration", "5")], "maxDuration < minDuration"),
            (vec![("limit", "1001")], "limit > 1000"),
        ] {
            let error = read(&pairs).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
