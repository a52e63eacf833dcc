//! The semantics of a query: of its expressions for one span, and of its pipelines for one trace.
//!
//! If a value is missing or has another type, every comparison with it is false, and `!` of the
//! comparison is true. Arithmetic without a result (an integer divided by 0, or a result that does
//! not fit) has no value. A condition that is not a boolean is false.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::ast::{
    Aggregate, Expr, Join, Logic, Pipeline, Scalar, ScalarFilter, Spansets, Stage, Taken,
};
use crate::trace::TraceView;
use crate::value::{Value, compare, compute};

/// A set of spans that a query found in a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spanset {
    /// Indexes of the spans in the trace, ascending.
    pub spans: Vec<u32>,
    /// Grouping keys and computed numbers: the text and the value of each.
    pub attributes: Vec<(Arc<str>, Value<'static>)>,
}

/// The sets of spans that a pipeline finds in a trace; empty if the trace does not match.
#[must_use]
pub fn search(pipeline: &Pipeline, view: &TraceView<'_>) -> Vec<Spanset> {
    let count = u32::try_from(view.trace().spans.len()).unwrap_or(u32::MAX);
    let all = Spanset { spans: (0..count).collect(), attributes: Vec::new() };
    run(pipeline, view, vec![all])
}

/// Whether a span satisfies a condition.
pub(crate) fn holds(condition: &Expr, view: &TraceView<'_>, span: usize) -> bool {
    matches!(value(condition, view, span), Value::Bool(true))
}

/// The value of an expression for a span.
pub(crate) fn value<'a>(expr: &'a Expr, view: &TraceView<'a>, span: usize) -> Value<'a> {
    let inner = |expr| value(expr, view, span);
    match expr {
        Expr::Literal(literal) => Value::from(literal),
        Expr::Field(field) => view.field(span, field),
        Expr::Logic { operator, operands } => {
            let mut each = operands.iter().map(|operand| holds(operand, view, span));
            Value::Bool(match operator {
                Logic::And => each.all(|holds| holds),
                Logic::Or => each.any(|holds| holds),
            })
        }
        Expr::Compare { operator, left, right } => {
            Value::Bool(compare(*operator, &inner(left), &inner(right)))
        }
        Expr::Match { negated, text, pattern } => {
            Value::Bool(matches_pattern(*negated, &inner(text), &|text| pattern.matches(text)))
        }
        Expr::Arithmetic { operator, left, right } => {
            compute(*operator, &inner(left), &inner(right))
        }
        Expr::Not(operand) => match inner(operand) {
            Value::Bool(value) => Value::Bool(!value),
            _ => Value::Nil,
        },
        Expr::Negate(operand) => match inner(operand) {
            Value::Int(number) => number.checked_neg().map_or(Value::Nil, Value::Int),
            Value::Duration(number) => number.checked_neg().map_or(Value::Nil, Value::Duration),
            Value::Float(number) => Value::Float(-number),
            _ => Value::Nil,
        },
        Expr::Exists(operand) => Value::Bool(inner(operand) != Value::Nil),
        Expr::Missing(operand) => Value::Bool(inner(operand) == Value::Nil),
    }
}

/// Of an array, at least one element must match. If negated, none may match.
pub(crate) fn matches_pattern(
    negated: bool,
    value: &Value<'_>,
    matches: &dyn Fn(&str) -> bool,
) -> bool {
    match value {
        Value::String(text) => matches(text) != negated,
        Value::Array(values) => {
            let mut each = values.iter().map(|value| matches_pattern(negated, value, matches));
            if negated { each.all(|holds| holds) } else { each.any(|holds| holds) }
        }
        _ => false,
    }
}

fn run(pipeline: &Pipeline, view: &TraceView<'_>, mut sets: Vec<Spanset>) -> Vec<Spanset> {
    for stage in &pipeline.stages {
        sets = match stage {
            Stage::Spansets(spansets) => {
                sets.into_iter().flat_map(|set| select(spansets, view, set)).collect()
            }
            Stage::Filter(filter) => {
                let mut names = Vec::new();
                aggregate_names(&filter.left, &mut names);
                aggregate_names(&filter.right, &mut names);
                sets.into_iter().filter_map(|set| filtered(filter, &names, view, set)).collect()
            }
            Stage::Group(expr) => {
                let name: Arc<str> = format!("by({expr})").into();
                sets.into_iter().flat_map(|set| grouped(expr, &name, view, &set)).collect()
            }
            Stage::Coalesce => {
                let mut spans: Vec<u32> = sets.into_iter().flat_map(|set| set.spans).collect();
                spans.sort_unstable();
                spans.dedup();
                vec![Spanset { spans, attributes: Vec::new() }]
            }
            // Selected fields are displayed with the spans. They do not affect the result.
            Stage::Select(_) => sets,
        };
        sets.retain(|set| !set.spans.is_empty());
    }
    sets
}

fn select(spansets: &Spansets, view: &TraceView<'_>, mut set: Spanset) -> Vec<Spanset> {
    match spansets {
        Spansets::Where(condition) => {
            set.spans.retain(|span| holds(condition, view, *span as usize));
            if set.spans.is_empty() { Vec::new() } else { vec![set] }
        }
        Spansets::Pipeline(pipeline) => run(pipeline, view, vec![set]),
        Spansets::Join { operator, left, right } => {
            let spans = |side: &Spansets| {
                select(side, view, set.clone())
                    .into_iter()
                    .fold(Vec::new(), |all, set| merged(&all, &set.spans))
            };
            let (left, right) = (spans(left), spans(right));
            let joined = match *operator {
                Join::And if left.is_empty() || right.is_empty() => Vec::new(),
                Join::And | Join::Or => merged(&left, &right),
                Join::Structure { relation, taken } => {
                    let tree = view.tree();
                    let wanted = taken != Taken::Unrelated;
                    let pick = |spans: &[u32], related: Vec<bool>| -> Vec<u32> {
                        let pairs = spans.iter().zip(related);
                        pairs
                            .filter(|(_, related)| *related == wanted)
                            .map(|(span, _)| *span)
                            .collect()
                    };
                    let picked = pick(&right, tree.related(relation, &left, &right));
                    if taken == Taken::Both {
                        let partners = pick(&left, tree.related(relation.inverse(), &right, &left));
                        merged(&partners, &picked)
                    } else {
                        picked
                    }
                }
            };
            if joined.is_empty() {
                return Vec::new();
            }
            vec![Spanset { spans: joined, attributes: set.attributes }]
        }
    }
}

/// The union of two ascending lists.
fn merged(left: &[u32], right: &[u32]) -> Vec<u32> {
    let mut all = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let span = **one.min(other);
        left.next_if(|next| **next == span);
        right.next_if(|next| **next == span);
        all.push(span);
    }
    all.extend(left);
    all.extend(right);
    all
}

/// The texts of all numbers that are computed for a set, in the order of [`scalar`]. All sets share
/// them.
fn aggregate_names(of: &Scalar, names: &mut Vec<Arc<str>>) {
    match of {
        Scalar::Number(_) => {}
        Scalar::Arithmetic { left, right, .. } => {
            aggregate_names(left, names);
            aggregate_names(right, names);
        }
        Scalar::Count | Scalar::Aggregate { .. } => names.push(of.to_string().into()),
    }
}

/// Returns the set with the computed numbers if it passes the filter.
fn filtered(
    filter: &ScalarFilter,
    names: &[Arc<str>],
    view: &TraceView<'_>,
    mut set: Spanset,
) -> Option<Spanset> {
    let mut names = names.iter();
    let left = scalar(&filter.left, &mut names, view, &mut set);
    let right = scalar(&filter.right, &mut names, view, &mut set);
    compare(filter.operator, &left, &right).then_some(set)
}

fn scalar<'n>(
    of: &Scalar,
    names: &mut impl Iterator<Item = &'n Arc<str>>,
    view: &TraceView<'_>,
    set: &mut Spanset,
) -> Value<'static> {
    let computed = match of {
        Scalar::Number(number) => return Value::from(number).into_owned(),
        Scalar::Arithmetic { operator, left, right } => {
            let left = scalar(left, names, view, set);
            return compute(*operator, &left, &scalar(right, names, view, set));
        }
        Scalar::Count => Value::Int(set.spans.len() as i64),
        Scalar::Aggregate { function, of } => aggregated(*function, of, view, &set.spans),
    };
    if let Some(name) = names.next()
        && computed != Value::Nil
        && set.attributes.iter().all(|(before, _)| before != name)
    {
        set.attributes.push((name.clone(), computed.clone()));
    }
    computed
}

/// Calls `each` for each number in a value: for an array, for each of its elements.
pub(crate) fn each_number(value: Value<'static>, each: &mut dyn FnMut(Value<'static>)) {
    match value {
        Value::Array(values) => values.into_iter().for_each(|value| each_number(value, each)),
        value if value.number().is_some_and(|number| !number.is_nan()) => each(value),
        _ => {}
    }
}

fn aggregated(
    function: Aggregate,
    of: &Expr,
    view: &TraceView<'_>,
    spans: &[u32],
) -> Value<'static> {
    let mut total = Value::Nil;
    let mut count = 0_u64;
    for span in spans {
        let found = value_owned(of, view, *span as usize);
        each_number(found, &mut |found| {
            count += 1;
            total = match (&total, function) {
                (Value::Nil, _) => found,
                (total, Aggregate::Minimum) if found.number() < total.number() => found,
                (total, Aggregate::Maximum) if found.number() > total.number() => found,
                (total, Aggregate::Minimum | Aggregate::Maximum) => total.clone(),
                (total, Aggregate::Sum | Aggregate::Average) => added(total, &found),
            };
        });
    }
    match (function, total) {
        (Aggregate::Average, Value::Duration(total)) => {
            Value::Duration((i128::from(total) / i128::from(count)) as i64)
        }
        (Aggregate::Average, total) => {
            total.number().map_or(Value::Nil, |total| Value::Float(total / count as f64))
        }
        (_, total) => total,
    }
}

fn added(left: &Value<'static>, right: &Value<'static>) -> Value<'static> {
    let exact = match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.checked_add(*right).map(Value::Int),
        (Value::Duration(left), Value::Duration(right)) => {
            left.checked_add(*right).map(Value::Duration)
        }
        _ => None,
    };
    exact.unwrap_or_else(|| {
        Value::Float(left.number().unwrap_or(0.0) + right.number().unwrap_or(0.0))
    })
}

fn value_owned(expr: &Expr, view: &TraceView<'_>, span: usize) -> Value<'static> {
    value(expr, view, span).into_owned()
}

/// One set for each value, in the order of their first occurrence.
fn grouped(expr: &Expr, name: &Arc<str>, view: &TraceView<'_>, set: &Spanset) -> Vec<Spanset> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut groups: Vec<Spanset> = Vec::new();
    for span in &set.spans {
        let key = Key(value_owned(expr, view, *span as usize));
        let place = *places.entry(key).or_insert_with_key(|key| {
            let mut attributes = set.attributes.clone();
            attributes.push((name.clone(), key.0.clone()));
            groups.push(Spanset { spans: Vec::new(), attributes });
            groups.len() - 1
        });
        groups[place].spans.push(*span);
    }
    groups
}

/// A value as a grouping key. It equals itself even if it is NaN.
#[derive(Debug, Clone)]
pub(crate) struct Key(pub(crate) Value<'static>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Value::Float(left), Value::Float(right)) => left.to_bits() == right.to_bits(),
            (Value::Array(left), Value::Array(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|(left, right)| Key(left.clone()) == Key(right.clone()))
            }
            (left, right) => left == right,
        }
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        fn hash<H: Hasher>(value: &Value<'_>, hasher: &mut H) {
            std::mem::discriminant(value).hash(hasher);
            match value {
                Value::Nil | Value::Other => {}
                Value::Int(number) | Value::Duration(number) => number.hash(hasher),
                Value::Float(number) => number.to_bits().hash(hasher),
                Value::Bool(value) => value.hash(hasher),
                Value::Status(status) => status.hash(hasher),
                Value::Kind(kind) => kind.hash(hasher),
                Value::String(text) => text.hash(hasher),
                Value::Array(values) => values.iter().for_each(|value| hash(value, hasher)),
            }
        }
        hash(&self.0, hasher);
    }
}
