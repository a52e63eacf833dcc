//! Metrics queries in TraceQL, over all spans of a time.

use std::sync::Arc;
use std::time::Instant;

use ahash::AHashSet;
use arrow::array::RecordBatch;
use spanwise_model::TraceId;
use spanwise_store::{Order, Predicate, Query as RowQuery, TimeRange};
use spanwise_traceql::Query;
use spanwise_traceql::ast::{Body, Field, Function, Measure, Metrics};
use spanwise_traceql::metrics::{Answer, Evaluation, Grid, Limits, Series};
use spanwise_traceql::trace::TraceView;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Bounds;
use super::candidates::Candidates;
use super::search::{EVALUATING, each_trace};
use super::spans::{Looked, SpanReader};
use super::{counted, plan};
use crate::trace::GatheredTraces;
use crate::{Queries, QueryError};

/// Parts of the time, of each of which the longest and the newest rows give exemplars, where the
/// store counts.
const EXEMPLAR_PARTS: i64 = 10;
/// Rows of a page, where rows are evaluated.
const PAGE_ROWS: usize = 250_000;
/// Traces that are put together at first, and at most.
const FIRST_TRACES: usize = 64;
const MAX_TRACES: usize = 2_000;
/// Spans that are put together, about.
const SPANS_TOGETHER: usize = 50_000;
/// Parts that may wait to be evaluated, each of about as many spans.
const PARTS_WAITING: usize = 1;

/// A metrics query in TraceQL.
#[derive(Debug, Clone)]
pub struct TraceqlMetrics {
    /// The query, which is no search.
    pub query: Arc<Query>,
    /// The intervals.
    pub grid: Grid,
    /// The most series and exemplars.
    pub limits: Limits,
    /// What it may take.
    pub bounds: Bounds,
}

/// What a metrics query gives.
#[derive(Debug, Clone, Default)]
pub struct TraceqlSeries {
    /// The series.
    pub series: Vec<Series>,
    /// Traces that were put together; 0 where that was not necessary.
    pub examined_traces: usize,
    /// Spans that were looked at.
    pub examined_spans: usize,
    /// What is missing, and why.
    pub incomplete: Vec<String>,
}

/// Where a query has got to.
struct Progress {
    began: Instant,
    bounds: Bounds,
    traces: usize,
    spans: usize,
    incomplete: Vec<String>,
}

impl Progress {
    /// Whether a bound is reached; it is told then.
    fn has_reached(&mut self, back_to_unix_nano: i64) -> bool {
        let Some(reached) = self.bounds.reached(self.began, self.traces, self.spans) else {
            return false;
        };
        self.incomplete.push(format!(
            "the query stopped when {reached}: only spans from {} on are counted; choose a \
             shorter time, or ask for a service, a name or an attribute as well",
            super::moment(back_to_unix_nano),
        ));
        true
    }
}

impl Queries {
    /// The series of a metrics query.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn traceql_metrics(
        &self,
        asked: &TraceqlMetrics,
    ) -> Result<TraceqlSeries, QueryError> {
        let Body::Metrics(metrics) = &asked.query.body else { return Ok(TraceqlSeries::default()) };
        let (first, last) = asked.grid.bounds();
        let time = TimeRange {
            from_unix_nano: signed(first),
            to_unix_nano: signed(last).saturating_add(1),
        };
        let mut progress = Progress {
            began: Instant::now(),
            bounds: asked.bounds,
            traces: 0,
            spans: 0,
            incomplete: Vec::new(),
        };
        let predicates = plan::predicates(&asked.query.needs().spans);
        let looked = looked(metrics);
        let counted =
            self.counted_by_store(asked, metrics, &predicates, time, &looked, &mut progress);
        let answer = match counted.await? {
            Some(answer) => answer,
            None if metrics.measures().into_iter().all(is_of_rows) => {
                self.of_rows(asked, predicates, time, looked, &mut progress).await?
            }
            None => self.of_traces(asked, time, looked, &mut progress).await?,
        };
        if answer.truncated {
            progress.incomplete.push(format!(
                "there are more series than are told, which are {} at most: group by fewer \
                 attributes, or choose a longer step",
                asked.limits.series
            ));
        }
        Ok(TraceqlSeries {
            series: answer.series,
            examined_traces: progress.traces,
            examined_spans: progress.spans,
            incomplete: progress.incomplete,
        })
    }

    /// What the store counts itself, with exemplars from a few rows; `None` where it cannot.
    async fn counted_by_store(
        &self,
        asked: &TraceqlMetrics,
        metrics: &Metrics,
        predicates: &[Predicate],
        time: TimeRange,
        looked: &Looked,
        progress: &mut Progress,
    ) -> Result<Option<Answer>, QueryError> {
        let Some(counts) = counted::counts(metrics, asked.grid) else { return Ok(None) };
        let mut evaluation = Evaluation::new(metrics, asked.grid, asked.limits);
        let counted =
            self.add_counts(&counts, asked.grid, &mut evaluation, asked.bounds.time).await?;
        let Some(spans) = counted else { return Ok(None) };
        progress.spans += spans;
        if asked.limits.exemplars > 0 && spans > 0 {
            let from = time.from_unix_nano;
            let length = time.to_unix_nano.saturating_sub(from) / EXEMPLAR_PARTS;
            // The slowest are looked for most, and others show what is usual.
            let orders = [Order::LongestFirst, Order::NewestFirst];
            let queries = EXEMPLAR_PARTS as usize * orders.len();
            let rows = asked.limits.exemplars.div_ceil(queries);
            for part in 0..EXEMPLAR_PARTS {
                let from_unix_nano = from.saturating_add(part * length);
                let time = TimeRange {
                    from_unix_nano,
                    to_unix_nano: from_unix_nano.saturating_add(length),
                };
                for (predicate, order) in
                    predicates.iter().flat_map(|predicate| orders.map(|order| (predicate, order)))
                {
                    let query = RowQuery {
                        predicate: predicate.clone(),
                        time,
                        columns: looked.columns(),
                        keys: looked.keys(),
                        limit: rows,
                        order,
                    };
                    for batch in self.store.find(&query).await? {
                        let mut reader = SpanReader::new(&batch, looked)?;
                        for row in 0..reader.len() {
                            evaluation.observe_exemplars(&TraceView::new(&reader.alone(row)));
                        }
                    }
                }
            }
        }
        Ok(Some(evaluation.finish()))
    }

    /// Evaluates rows, without putting traces together.
    async fn of_rows(
        &self,
        asked: &TraceqlMetrics,
        predicates: Vec<Predicate>,
        time: TimeRange,
        looked: Looked,
        progress: &mut Progress,
    ) -> Result<Answer, QueryError> {
        let (columns, keys) = (looked.columns(), looked.keys());
        // A row that fulfils several predicates counts once.
        let mut known = (predicates.len() > 1).then(AHashSet::new);
        let (parts, evaluated) = evaluate(asked, move |evaluation, part: RowPart| {
            let mut reader = SpanReader::new(&part.batch, &looked)?;
            for row in 0..reader.len() {
                let is_new = |known: &mut AHashSet<_>| known.insert(reader.identity(row));
                if reader.start_unix_nano(row) >= part.from_unix_nano
                    && known.as_mut().is_none_or(is_new)
                {
                    evaluation.observe(&TraceView::new(&reader.alone(row)));
                }
            }
            Ok(())
        });
        'all: for predicate in predicates {
            let (columns, keys, order) = (columns.clone(), keys.clone(), Order::NewestFirst);
            let mut query = RowQuery { predicate, time, columns, keys, limit: PAGE_ROWS, order };
            loop {
                let batches = self.store.find(&query).await?;
                let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
                progress.spans += found;
                let starts = || crate::search::rows(&batches).map(|(_, start)| start);
                let (Some(oldest), Some(newest)) = (starts().min(), starts().max()) else { break };
                let is_last = found < query.limit;
                // Rows that start with the oldest one are counted with the next page.
                let is_whole = is_last || oldest == newest;
                let from_unix_nano = if is_whole { oldest } else { oldest.saturating_add(1) };
                for batch in batches {
                    if parts.send(RowPart { batch, from_unix_nano }).await.is_err() {
                        break 'all;
                    }
                }
                if is_last {
                    break;
                }
                if progress.has_reached(from_unix_nano) {
                    break 'all;
                }
                if is_whole {
                    progress.incomplete.push(format!(
                        "more than {PAGE_ROWS} spans start at one nanosecond, and not all of them \
                         are counted"
                    ));
                }
                query.time.to_unix_nano = from_unix_nano;
            }
        }
        drop(parts);
        finished(evaluated).await
    }

    /// Evaluates whole traces.
    async fn of_traces(
        &self,
        asked: &TraceqlMetrics,
        time: TimeRange,
        looked: Looked,
        progress: &mut Progress,
    ) -> Result<Answer, QueryError> {
        let outline = looked.outline();
        let mut known = AHashSet::new();
        let (parts, evaluated) =
            evaluate(asked, move |evaluation, part: (GatheredTraces, Vec<TraceId>)| {
                let (mut gathered, ids) = part;
                each_trace(&mut gathered, &ids, &looked, &mut known, |trace| {
                    evaluation.observe(&TraceView::new(&trace));
                })
            });
        let (predicates, time) = plan::of_traces(&asked.query.needs(), time);
        let mut candidates = Candidates::new(predicates, time);
        let mut count = FIRST_TRACES;
        loop {
            let part = candidates.next(self, count).await?;
            let (Some((newest, _)), Some((last, _))) = (part.first(), part.last()) else { break };
            let time = TimeRange { from_unix_nano: *last, to_unix_nano: newest.saturating_add(1) };
            let oldest = *last;
            let ids: Vec<TraceId> = part.iter().map(|(_, id)| *id).collect();
            let gathered = self.gather(ids.iter().copied(), time, outline.as_ref()).await?;
            let rows: usize = gathered.batches.iter().map(RecordBatch::num_rows).sum();
            progress.traces += ids.len();
            progress.spans += rows;
            let is_last = ids.len() < count;
            if parts.send((gathered, ids)).await.is_err() || is_last || progress.has_reached(oldest)
            {
                break;
            }
            let each = (progress.spans / progress.traces).max(1);
            count = (SPANS_TOGETHER / each).clamp(FIRST_TRACES / 4, MAX_TRACES).min(count * 4);
        }
        if candidates.passed_over {
            progress.incomplete.push(
                "more than 100000 spans start at one nanosecond, and not all of their traces are \
                 counted"
                    .to_owned(),
            );
        }
        drop(parts);
        finished(evaluated).await
    }
}

/// A page of rows, of which those that start earlier come again.
struct RowPart {
    batch: RecordBatch,
    from_unix_nano: i64,
}

/// Evaluates parts on a thread of its own, while the next ones are read. The answer comes when
/// the sender is dropped.
fn evaluate<P: Send + 'static>(
    asked: &TraceqlMetrics,
    mut each: impl FnMut(&mut Evaluation<'_>, P) -> Result<(), QueryError> + Send + 'static,
) -> (mpsc::Sender<P>, JoinHandle<Result<Answer, QueryError>>) {
    let (sender, mut receiver) = mpsc::channel(PARTS_WAITING);
    let TraceqlMetrics { query, grid, limits, .. } = asked.clone();
    let work = move || {
        let Body::Metrics(metrics) = &query.body else {
            return Ok(Answer { series: Vec::new(), truncated: false });
        };
        let mut evaluation = Evaluation::new(metrics, grid, limits);
        while let Some(part) = receiver.blocking_recv() {
            each(&mut evaluation, part)?;
        }
        Ok(evaluation.finish())
    };
    (sender, tokio::task::spawn_blocking(work))
}

/// The answer, once all parts are evaluated.
async fn finished(evaluated: JoinHandle<Result<Answer, QueryError>>) -> Result<Answer, QueryError> {
    evaluated.await.map_err(|source| QueryError::Interrupted { what: EVALUATING, source })?
}

/// What of spans the functions look at.
fn looked(metrics: &Metrics) -> Looked {
    let measures = metrics.measures();
    if measures.iter().any(|measure| matches!(measure.function, Function::Compare { .. })) {
        return Looked::at_all();
    }
    let fields = measures.iter().flat_map(|measure| {
        let of_spans = measure.spans.fields().into_iter();
        of_spans.chain(measure.function.field()).chain(&measure.by)
    });
    Looked::at(fields.collect::<Vec<&Field>>())
}

/// Whether a function counts rows without anything of other spans of their traces.
fn is_of_rows(measure: &Measure) -> bool {
    let mut fields = measure.by.iter().chain(measure.function.field());
    !matches!(measure.function, Function::Compare { .. })
        && measure.spans.needs().exact
        && fields.all(Field::is_of_single_span)
}

fn signed(unix_nanos: u64) -> i64 {
    i64::try_from(unix_nanos).unwrap_or(i64::MAX)
}
