//! What a metrics query means: series over time, from traces given one after the other
//! ([TraceQL metrics](https://grafana.com/docs/tempo/latest/metrics-from-traces/metrics-queries/)).
//!
//! A span counts at its start. Durations are seconds. `rate`, `count_over_time` and
//! `quantile_over_time` are 0 where no span is; the others have no point there.

mod compared;
mod grid;
mod measured;
mod quantile;
mod series;

pub use grid::{Grid, MAX_POINTS, default_step_nanos};
pub use series::{Exemplar, Series};

use crate::ast::{Metrics, SecondStage};
use crate::trace::TraceView;
use crate::value::Value;
use measured::Measured;

/// Points of all series of a query together.
const MAX_CELLS: usize = 4_000_000;

/// Bounds on what an evaluation keeps.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Series of each function; more are left out. `compare()` keeps as many values of
    /// each attribute. With many points, there are fewer: four million points in all.
    pub series: usize,
    /// Exemplars of each function; none for an instant query.
    pub exemplars: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { series: 10_000, exemplars: 100 }
    }
}

/// Spans of one interval with the same values of what is grouped by.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// These values.
    pub by: Vec<Value<'static>>,
    /// The interval.
    pub place: usize,
    /// How many spans.
    pub spans: u64,
    /// The least of their numbers, durations in nanoseconds; 0 where spans are counted.
    pub least: f64,
    /// The greatest.
    pub most: f64,
    /// The sum.
    pub total: f64,
}

/// What a metrics query gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// In the order of their labels.
    pub series: Vec<Series>,
    /// Whether series were left out for [`Limits::series`]; what is told of the others
    /// is whole.
    pub truncated: bool,
}

/// A metrics query that traces are shown to.
pub struct Evaluation<'q> {
    metrics: &'q Metrics,
    measured: Vec<Measured<'q>>,
}

impl<'q> Evaluation<'q> {
    /// Begins with no traces.
    #[must_use]
    pub fn new(metrics: &'q Metrics, grid: Grid, limits: Limits) -> Self {
        let measures = metrics.measures();
        let cells = MAX_CELLS / measures.len().max(1);
        let measured = measures
            .into_iter()
            .map(|measure| Measured::new(measure, grid, limits, cells))
            .collect();
        Evaluation { metrics, measured }
    }

    /// Counts the spans of a trace. Every trace may be shown once.
    pub fn observe(&mut self, view: &TraceView<'_>) {
        for measured in &mut self.measured {
            measured.observe(view);
        }
    }

    /// Adds spans that somebody else has counted, of a function by its place in
    /// [`Metrics::measures`]. It must be one that counts spans, or sums a number.
    pub fn add(&mut self, measure: usize, counted: Counted) {
        if let Some(measured) = self.measured.get_mut(measure) {
            measured.add(counted);
        }
    }

    /// Takes exemplars from a trace whose spans are counted by [`Self::add`].
    pub fn observe_exemplars(&mut self, view: &TraceView<'_>) {
        for measured in &mut self.measured {
            measured.observe_exemplars(view);
        }
    }

    /// The series of all traces that were shown.
    #[must_use]
    pub fn finish(self) -> Answer {
        let truncated = self.measured.iter().any(Measured::truncated);
        let mut measured = self.measured.into_iter();
        let mut series = result(self.metrics, &mut measured);
        for one in &mut series {
            one.complete_exemplars();
        }
        series.retain(|series| series.values.iter().any(|value| !value.is_nan()));
        series.sort_by_cached_key(Series::label_text);
        Answer { series, truncated }
    }
}

/// `measured` are in the order of [`Metrics::measures`].
fn result<'q>(metrics: &Metrics, measured: &mut impl Iterator<Item = Measured<'q>>) -> Vec<Series> {
    match metrics {
        Metrics::Measure(_) => measured.next().map(Measured::finish).unwrap_or_default(),
        // Only within arithmetic.
        Metrics::Number(_) => Vec::new(),
        Metrics::Arithmetic { operator, left, right } => match (left.as_ref(), right.as_ref()) {
            (Metrics::Number(number), series) => {
                let series = result(series, measured);
                series::with_number(series, &|value| series::compute(*operator, *number, value))
            }
            (series, Metrics::Number(number)) => {
                let series = result(series, measured);
                series::with_number(series, &|value| series::compute(*operator, value, *number))
            }
            (left, right) => {
                let left = result(left, measured);
                series::joined(*operator, left, result(right, measured))
            }
        },
        Metrics::Then { metrics, stages } => {
            stages.iter().fold(result(metrics, measured), |series, stage| match stage {
                SecondStage::Top(count) => series::highest(series, *count, false),
                SecondStage::Bottom(count) => series::highest(series, *count, true),
                SecondStage::Compare(operator, number) => {
                    series::filtered(series, *operator, number)
                }
            })
        }
    }
}
