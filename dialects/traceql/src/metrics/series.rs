//! Series, and operations on them.

use std::collections::HashMap;

use crate::ast::{Arithmetic, Comparison, Literal};
use crate::evaluate::Key;
use crate::value::{Value, float, ordered};

/// The label of the only series of a function.
pub(crate) const NAME: &str = "__name__";

/// Labels, sorted by name.
type Labels = Vec<(String, Key)>;

/// Values over time for one set of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Names as in the query's canonical form, and values.
    pub labels: Vec<(String, Value<'static>)>,
    /// One value for each interval; NaN if there is none.
    pub values: Vec<f64>,
    /// Examples of the counted spans.
    pub exemplars: Vec<Exemplar>,
}

/// A counted span.
#[derive(Debug, Clone, PartialEq)]
pub struct Exemplar {
    /// The id of its trace.
    pub trace_id: [u8; 16],
    /// The span's id.
    pub span_id: [u8; 8],
    /// Its start.
    pub unix_nanos: u64,
    /// The index of its interval.
    pub place: usize,
    /// The measured value. If spans are only counted, the value of the series.
    pub value: f64,
}

impl Series {
    /// The labels as text, by which series are sorted.
    #[must_use]
    pub fn label_text(&self) -> String {
        let labels: Vec<String> =
            self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        labels.join(",")
    }

    /// The labels without the function's name, sorted. They identify the series.
    fn key(&self) -> Labels {
        let mut key: Labels = self
            .labels
            .iter()
            .filter(|(name, _)| name != NAME)
            .map(|(name, value)| (name.clone(), Key(value.clone())))
            .collect();
        key.sort_by(|left, right| left.0.cmp(&right.0));
        key
    }

    pub(crate) fn complete_exemplars(&mut self) {
        for exemplar in &mut self.exemplars {
            if exemplar.value.is_nan() {
                exemplar.value = self.values[exemplar.place];
            }
        }
        self.exemplars.retain(|exemplar| !self.values[exemplar.place].is_nan());
    }

    fn name(&self) -> Option<String> {
        let (_, value) = self.labels.iter().find(|(name, _)| name == NAME)?;
        Some(value.to_string())
    }
}

/// A division by 0 gives NaN.
pub(crate) fn compute(operator: Arithmetic, left: f64, right: f64) -> f64 {
    match operator {
        Arithmetic::Divide if right == 0.0 => f64::NAN,
        operator => float(operator, left, right),
    }
}

pub(crate) fn with_number(mut series: Vec<Series>, compute: &dyn Fn(f64) -> f64) -> Vec<Series> {
    for series in &mut series {
        series.values.iter_mut().for_each(|value| *value = compute(*value));
        series.exemplars.iter_mut().for_each(|exemplar| exemplar.value = compute(exemplar.value));
    }
    series
}

/// Combines series with equal labels. A series without labels is combined with every series of the
/// other side.
pub(crate) fn joined(operator: Arithmetic, left: Vec<Series>, right: Vec<Series>) -> Vec<Series> {
    let index = |series: &[Series]| -> HashMap<Labels, usize> {
        series.iter().enumerate().map(|(place, series)| (series.key(), place)).collect()
    };
    let (left_index, right_index) = (index(&left), index(&right));
    let unlabelled = Labels::new();
    let keys = if right_index.contains_key(&unlabelled) { &left } else { &right };
    let find = |index: &HashMap<Labels, usize>, key: &Labels| {
        index.get(key).or_else(|| index.get(&unlabelled)).copied()
    };
    keys.iter()
        .filter_map(|series| {
            let key = series.key();
            let left = &left[find(&left_index, &key)?];
            let right = &right[find(&right_index, &key)?];
            let values = left.values.iter().zip(&right.values);
            let named = match (left.name(), right.name()) {
                (Some(left), Some(right)) => Some(format!("({left} {operator} {right})")),
                _ => None,
            };
            let labels = match named {
                Some(name) => vec![(NAME.to_owned(), Value::String(name.into()))],
                None if left.name().is_none() => left.labels.clone(),
                None => right.labels.clone(),
            };
            // The exemplars of a series without labels belong to no particular result.
            let exemplars = [left, right]
                .into_iter()
                .filter(|side| side.key() == key)
                .flat_map(|side| side.exemplars.clone())
                .map(|exemplar| Exemplar { value: f64::NAN, ..exemplar })
                .collect();
            Some(Series {
                labels,
                values: values.map(|(left, right)| compute(operator, *left, *right)).collect(),
                exemplars,
            })
        })
        .collect()
}

/// Keeps, at each point, the `count` series with the highest or lowest values. Among equal values,
/// the first labels in order win.
pub(crate) fn highest(mut series: Vec<Series>, count: usize, lowest: bool) -> Vec<Series> {
    series.sort_by_cached_key(Series::label_text);
    let points = series.first().map_or(0, |series| series.values.len());
    for place in 0..points {
        let mut order: Vec<usize> =
            (0..series.len()).filter(|one| !series[*one].values[place].is_nan()).collect();
        if order.len() <= count {
            continue;
        }
        order.sort_by(|one, other| {
            let (one, other) = (series[*one].values[place], series[*other].values[place]);
            if lowest { one.total_cmp(&other) } else { other.total_cmp(&one) }
        });
        for out in &order[count..] {
            series[*out].values[place] = f64::NAN;
        }
    }
    without_empty(series)
}

/// Keeps the values for which the comparison is true. A duration is converted to seconds.
pub(crate) fn filtered(
    mut series: Vec<Series>,
    operator: Comparison,
    number: &Literal,
) -> Vec<Series> {
    let number = match number {
        Literal::Duration(nanoseconds) => *nanoseconds as f64 / 1e9,
        other => Value::from(other).number().unwrap_or(f64::NAN),
    };
    for value in series.iter_mut().flat_map(|series| &mut series.values) {
        if !ordered(operator, value, &number) {
            *value = f64::NAN;
        }
    }
    without_empty(series)
}

fn without_empty(mut series: Vec<Series>) -> Vec<Series> {
    series.retain(|series| series.values.iter().any(|value| !value.is_nan()));
    series
}
