//! One function over the spans that a pipeline gives.

use std::collections::HashMap;

use super::compared::Compared;
use super::quantile::{Buckets, bound, bucket};
use super::series::{Exemplar, NAME, Series};
use super::{Counted, Grid, Limits};
use crate::ast::{Field, Function, Intrinsic, Measure};
use crate::evaluate::{Key, each_number, search};
use crate::trace::TraceView;
use crate::value::Value;

/// Exemplars of one series in one interval.
const EXEMPLARS_OF_A_POINT: usize = 2;

pub(crate) struct Measured<'q> {
    measure: &'q Measure,
    grid: Grid,
    limits: Limits,
    groups: HashMap<Vec<Key>, Group>,
    compared: Option<Compared<'q>>,
    /// Exemplars of each interval.
    exemplars: Vec<usize>,
    all_exemplars: usize,
    truncated: bool,
}

/// Spans with the same values of what is grouped by.
struct Group {
    points: Points,
    exemplars: Vec<Exemplar>,
    exemplars_of_points: HashMap<usize, usize>,
}

/// What is kept for each interval.
enum Points {
    Counts(Vec<u64>),
    /// Sums, minima or maxima, and of how many numbers.
    Numbers(Vec<(f64, u64)>),
    Buckets(Vec<Buckets>),
}

impl<'q> Measured<'q> {
    /// With at most `cells` points in all series together.
    pub(crate) fn new(measure: &'q Measure, grid: Grid, limits: Limits, cells: usize) -> Self {
        let limits = Limits { series: limits.series.min(cells / grid.len()), ..limits };
        let compared = match &measure.function {
            Function::Compare { selection, top, window } => {
                Some(Compared::new(selection, *top, *window, grid, limits.series, cells))
            }
            _ => None,
        };
        Measured {
            measure,
            grid,
            limits,
            groups: HashMap::new(),
            compared,
            exemplars: vec![0; grid.len()],
            all_exemplars: 0,
            truncated: false,
        }
    }

    pub(crate) fn truncated(&self) -> bool {
        self.truncated || self.compared.as_ref().is_some_and(Compared::truncated)
    }

    pub(crate) fn observe(&mut self, view: &TraceView<'_>) {
        self.each_span(view, |measured, span, place| match &mut measured.compared {
            Some(compared) => compared.observe(view, span, place),
            None => measured.count(view, span, place),
        });
    }

    /// Only takes exemplars for groups that are there.
    pub(crate) fn observe_exemplars(&mut self, view: &TraceView<'_>) {
        self.each_span(view, |measured, span, place| {
            let numbers = measured.numbers(view, span);
            let key = measured.key(view, span);
            if !numbers.is_empty() && measured.groups.contains_key(&key) {
                measured.take_exemplar(key, view, span, place, numbers[0]);
            }
        });
    }

    fn each_span(&mut self, view: &TraceView<'_>, mut each: impl FnMut(&mut Self, usize, usize)) {
        let mut spans: Vec<u32> =
            search(&self.measure.spans, view).into_iter().flat_map(|set| set.spans).collect();
        spans.sort_unstable();
        spans.dedup();
        for span in spans {
            let span = span as usize;
            let start = view.trace().spans[span].start_unix_nanos;
            if let Some(place) = self.grid.place(start) {
                each(self, span, place);
            }
        }
    }

    fn count(&mut self, view: &TraceView<'_>, span: usize, place: usize) {
        let numbers = self.numbers(view, span);
        if numbers.is_empty() {
            return;
        }
        let key = self.key(view, span);
        let function = &self.measure.function;
        let Some(group) = self.group(&key) else { return };
        for number in &numbers {
            group.points.add(function, place, *number);
        }
        self.take_exemplar(key, view, span, place, numbers[0]);
    }

    /// Adds spans that were counted elsewhere.
    pub(crate) fn add(&mut self, counted: Counted) {
        if counted.place >= self.grid.len() || counted.spans == 0 {
            return;
        }
        let function = &self.measure.function;
        let key: Vec<Key> = counted.by.iter().cloned().map(Key).collect();
        if let Some(group) = self.group(&key) {
            group.points.add_counted(function, &counted);
        }
    }

    fn key(&self, view: &TraceView<'_>, span: usize) -> Vec<Key> {
        let by = self.measure.by.iter();
        by.map(|field| Key(view.field(span, field).into_owned())).collect()
    }

    /// The group with this key; none where there is no room for one more.
    fn group(&mut self, key: &[Key]) -> Option<&mut Group> {
        if !self.groups.contains_key(key) {
            if self.groups.len() >= self.limits.series {
                self.truncated = true;
                return None;
            }
            let group = Group {
                points: Points::new(&self.measure.function, self.grid.len()),
                exemplars: Vec::new(),
                exemplars_of_points: HashMap::new(),
            };
            self.groups.insert(key.to_vec(), group);
        }
        self.groups.get_mut(key)
    }

    fn take_exemplar(
        &mut self,
        key: Vec<Key>,
        view: &TraceView<'_>,
        span: usize,
        place: usize,
        number: f64,
    ) {
        // Evenly over time: no interval may take all.
        let share = self.limits.exemplars.div_ceil(self.grid.len());
        if self.grid.is_instant()
            || self.exemplars[place] >= share
            || self.all_exemplars >= self.limits.exemplars
        {
            return;
        }
        let unit = self.unit();
        let Some(group) = self.groups.get_mut(&key) else { return };
        let of_point = group.exemplars_of_points.entry(place).or_default();
        if *of_point >= EXEMPLARS_OF_A_POINT {
            return;
        }
        self.all_exemplars += 1;
        self.exemplars[place] += 1;
        *of_point += 1;
        let found = &view.trace().spans[span];
        let counted = matches!(self.measure.function, Function::Rate | Function::Count);
        group.exemplars.push(Exemplar {
            trace_id: view.trace().id,
            span_id: found.id,
            unix_nanos: found.start_unix_nanos,
            place,
            value: if counted { f64::NAN } else { number / unit },
        });
    }

    /// Nanoseconds are told as seconds.
    fn unit(&self) -> f64 {
        match self.measure.function.field() {
            Some(Field::Intrinsic(
                Intrinsic::Duration | Intrinsic::TraceDuration | Intrinsic::EventTimeSinceStart,
            )) => 1e9,
            _ => 1.0,
        }
    }

    /// The numbers to be counted of a span.
    fn numbers(&self, view: &TraceView<'_>, span: usize) -> Vec<f64> {
        let Some(field) = self.measure.function.field() else { return vec![0.0] };
        let mut numbers = Vec::new();
        each_number(view.field(span, field).into_owned(), &mut |value| {
            numbers.extend(value.number());
        });
        numbers
    }

    pub(crate) fn finish(self) -> Vec<Series> {
        let unit = self.unit();
        let Measured { measure, grid, groups, compared, .. } = self;
        if let Some(compared) = compared {
            return compared.finish();
        }
        let mut series = Vec::new();
        for (key, group) in groups {
            let labels = labels(measure, key);
            match (&measure.function, group.points) {
                (Function::Histogram(_), Points::Buckets(points)) => {
                    histogram(&labels, &points, &group.exemplars, unit, &mut series);
                }
                (Function::Quantile { quantiles, .. }, Points::Buckets(points)) => {
                    quantile_series(
                        &labels,
                        &points,
                        quantiles,
                        &group.exemplars,
                        unit,
                        &mut series,
                    );
                }
                (function, points) => series.push(Series {
                    labels,
                    values: points.values(function, grid, unit),
                    exemplars: group.exemplars,
                }),
            }
        }
        series
    }
}

impl Function {
    /// What is measured of each span; nothing where spans are counted.
    #[must_use]
    pub fn field(&self) -> Option<&Field> {
        match self {
            Function::Rate | Function::Count | Function::Compare { .. } => None,
            Function::Minimum(field)
            | Function::Maximum(field)
            | Function::Average(field)
            | Function::Sum(field)
            | Function::Histogram(field)
            | Function::Quantile { field, .. } => Some(field),
        }
    }
}

impl Points {
    fn new(function: &Function, points: usize) -> Self {
        match function {
            Function::Quantile { .. } | Function::Histogram(_) => {
                Points::Buckets(vec![Buckets::default(); points])
            }
            function if function.field().is_some() => Points::Numbers(vec![(0.0, 0); points]),
            _ => Points::Counts(vec![0; points]),
        }
    }

    fn add(&mut self, function: &Function, place: usize, number: f64) {
        match self {
            Points::Counts(counts) => counts[place] += 1,
            Points::Buckets(points) => points[place].add(number),
            Points::Numbers(numbers) => {
                let (total, count) = &mut numbers[place];
                *total = match function {
                    _ if *count == 0 => number,
                    Function::Minimum(_) => total.min(number),
                    Function::Maximum(_) => total.max(number),
                    _ => *total + number,
                };
                *count += 1;
            }
        }
    }

    fn add_counted(&mut self, function: &Function, counted: &Counted) {
        match self {
            Points::Counts(counts) => counts[counted.place] += counted.spans,
            // These need every number.
            Points::Buckets(_) => {}
            Points::Numbers(numbers) => {
                let (total, count) = &mut numbers[counted.place];
                *total = match function {
                    Function::Minimum(_) if *count == 0 => counted.least,
                    Function::Minimum(_) => total.min(counted.least),
                    Function::Maximum(_) if *count == 0 => counted.most,
                    Function::Maximum(_) => total.max(counted.most),
                    _ => *total + counted.total,
                };
                *count += counted.spans;
            }
        }
    }

    fn values(&self, function: &Function, grid: Grid, unit: f64) -> Vec<f64> {
        match (self, function) {
            (Points::Counts(counts), Function::Rate) => {
                counts.iter().map(|count| *count as f64 / grid.step_seconds()).collect()
            }
            (Points::Counts(counts), _) => counts.iter().map(|count| *count as f64).collect(),
            (Points::Numbers(numbers), function) => numbers
                .iter()
                .map(|(total, count)| match (function, count) {
                    (_, 0) => f64::NAN,
                    (Function::Average(_), count) => total / unit / *count as f64,
                    _ => total / unit,
                })
                .collect(),
            (Points::Buckets(_), _) => Vec::new(),
        }
    }
}

/// Labels of a group. What is missing is left out; where all is, the first is nil.
fn labels(measure: &Measure, key: Vec<Key>) -> Vec<(String, Value<'static>)> {
    if measure.by.is_empty() {
        let name = Value::String(measure.function.name().into());
        return match measure.function {
            Function::Quantile { .. } | Function::Histogram(_) => Vec::new(),
            _ => vec![(NAME.to_owned(), name)],
        };
    }
    let mut labels: Vec<(String, Value<'static>)> = measure
        .by
        .iter()
        .zip(key)
        .map(|(field, key)| (field.to_string(), key.0))
        .filter(|(_, value)| *value != Value::Nil)
        .collect();
    if labels.is_empty() {
        labels.push((measure.by[0].to_string(), Value::Nil));
    }
    labels
}

/// A series for each bucket, which says how many values are in it.
fn histogram(
    labels: &[(String, Value<'static>)],
    points: &[Buckets],
    exemplars: &[Exemplar],
    unit: f64,
    series: &mut Vec<Series>,
) {
    let mut by_bucket: HashMap<i16, Vec<f64>> = HashMap::new();
    for (place, buckets) in points.iter().enumerate() {
        for (bucket, count) in buckets.counts() {
            by_bucket.entry(bucket).or_insert_with(|| vec![0.0; points.len()])[place] =
                count as f64;
        }
    }
    for (one, values) in by_bucket {
        let mut labels = labels.to_vec();
        labels.push(("__bucket".to_owned(), Value::Float(bound(one) / unit)));
        let inside = exemplars.iter().filter(|exemplar| bucket(exemplar.value * unit) == one);
        series.push(Series { labels, values, exemplars: inside.cloned().collect() });
    }
}

/// A series for each quantile.
fn quantile_series(
    labels: &[(String, Value<'static>)],
    points: &[Buckets],
    quantiles: &[f64],
    exemplars: &[Exemplar],
    unit: f64,
    series: &mut Vec<Series>,
) {
    let first = series.len();
    for quantile in quantiles {
        let mut labels = labels.to_vec();
        labels.push(("p".to_owned(), Value::Float(*quantile)));
        let values = points.iter().map(|buckets| buckets.quantile(*quantile) / unit).collect();
        series.push(Series { labels, values, exemplars: Vec::new() });
    }
    // A span is shown with the lowest quantile that is not below it.
    for exemplar in exemplars {
        let places = first..series.len();
        let value = |place: &usize| series[*place].values[exemplar.place];
        let above = places.clone().filter(|place| value(place) >= exemplar.value);
        let highest = places.max_by(|one, other| value(one).total_cmp(&value(other)));
        let place = above.min_by(|one, other| value(one).total_cmp(&value(other))).or(highest);
        if let Some(place) = place {
            series[place].exemplars.push(exemplar.clone());
        }
    }
}
