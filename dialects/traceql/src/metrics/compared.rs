//! `compare()`: attribute values of a selection of spans, compared with those of all other spans.

use std::collections::{HashMap, HashSet};

use super::Grid;
use super::series::Series;
use crate::ast::{Expr, Field};
use crate::evaluate::{Key, holds};
use crate::trace::TraceView;
use crate::value::Value;

/// The label for the group of a series.
const META_TYPE: &str = "__meta_type";

pub(crate) struct Compared<'q> {
    selection: &'q Expr,
    top: usize,
    window: Option<(i64, i64)>,
    points: usize,
    max_values: usize,
    /// Number of points that may still be kept.
    cells: usize,
    truncated: bool,
    /// Baseline and selection.
    sides: [HashMap<Field, Values>; 2],
}

#[derive(Default)]
struct Values {
    counts: HashMap<Key, Vec<f64>>,
    totals: Vec<f64>,
    /// Whether some values were not kept.
    more: bool,
}

impl<'q> Compared<'q> {
    pub(crate) fn new(
        selection: &'q Expr,
        top: usize,
        window: Option<(i64, i64)>,
        grid: Grid,
        max_values: usize,
        cells: usize,
    ) -> Self {
        let points = grid.len();
        Compared {
            selection,
            top,
            window,
            points,
            max_values,
            cells,
            truncated: false,
            sides: Default::default(),
        }
    }

    pub(crate) fn observe(&mut self, view: &TraceView<'_>, span: usize, place: usize) {
        let start = i64::try_from(view.trace().spans[span].start_unix_nanos).unwrap_or(i64::MAX);
        let within = self.window.is_none_or(|(from, to)| start > from && start <= to);
        let side = usize::from(within && holds(self.selection, view, span));
        let (points, max_values) = (self.points, self.max_values);
        let (fields, cells) = (&mut self.sides[side], &mut self.cells);
        let mut truncated = false;
        let mut has_room = |points| {
            let room = cells.checked_sub(points);
            *cells = room.unwrap_or(*cells);
            room.is_some()
        };
        let mut told = HashSet::new();
        view.countable_fields(span, |field, value| {
            let value = value.into_owned();
            let values = match value {
                Value::Array(values) => values,
                value => vec![value],
            };
            for value in values {
                if matches!(value, Value::Nil | Value::Other) {
                    continue;
                }
                let key = Key(value);
                // A span counts once for each value.
                if !told.insert((field.clone(), key.clone())) {
                    continue;
                }
                if !fields.contains_key(&field) && !has_room(points) {
                    // The attribute is not kept either.
                    truncated = true;
                    continue;
                }
                let kept = fields.entry(field.clone()).or_default();
                kept.totals.resize(points, 0.0);
                kept.totals[place] += 1.0;
                if !kept.counts.contains_key(&key)
                    && (kept.counts.len() >= max_values || !has_room(points))
                {
                    kept.more = true;
                    continue;
                }
                kept.counts.entry(key).or_insert_with(|| vec![0.0; points])[place] += 1.0;
            }
        });
        self.truncated |= truncated;
    }

    /// Whether attributes were left out.
    pub(crate) fn truncated(&self) -> bool {
        self.truncated
    }

    pub(crate) fn finish(self) -> Vec<Series> {
        let mut series = Vec::new();
        let mut incomplete = HashSet::new();
        let mut add = |side: &str, field: String, value: Value<'static>, values: Vec<f64>| {
            let side = (META_TYPE.to_owned(), Value::String(side.to_owned().into()));
            series.push(Series {
                labels: vec![side, (field, value)],
                values,
                exemplars: Vec::new(),
            });
        };
        for (side, fields) in ["baseline", "selection"].into_iter().zip(self.sides) {
            for (field, values) in fields {
                let name = field.to_string();
                if values.more || values.counts.len() > self.top {
                    incomplete.insert(name.clone());
                }
                let mut counts: Vec<(f64, String, Key, Vec<f64>)> = values
                    .counts
                    .into_iter()
                    .map(|(key, counts)| (counts.iter().sum(), key.0.to_string(), key, counts))
                    .collect();
                counts.sort_by(|one, other| {
                    other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1))
                });
                for (_, _, key, counts) in counts.into_iter().take(self.top) {
                    add(side, name.clone(), key.0, counts);
                }
                add(&format!("{side}_total"), name, Value::Nil, values.totals);
            }
        }
        for name in incomplete {
            let error = Value::String("__too_many_values__".into());
            series.push(Series {
                labels: vec![("__meta_error".to_owned(), error), (name, Value::Nil)],
                values: vec![0.0; self.points],
                exemplars: Vec::new(),
            });
        }
        series
    }
}
