//! What a store can look for before traces are put together: conditions on single spans
//! that everything a query selects satisfies.
//!
//! They are necessary, not sufficient: a trace that does not satisfy them is not
//! selected; one that does has to be evaluated, unless [`Needs::exact`]. Time is not
//! part of the language; whoever asks adds it.

use crate::ast::{
    Attribute, Body, Comparison, Expr, Field, Intrinsic, Join, Literal, Logic, Metrics, Pipeline,
    Query, Relation, Scope, Spansets, Stage, Taken,
};
use crate::evaluate::{self, matches_pattern};
use crate::pattern::Pattern;
use crate::trace::{Trace, TraceView};
use crate::value::{Value, compare};

/// What a query needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Needs {
    /// What every selected trace has.
    pub trace: SomeSpan,
    /// What every span of a result satisfies: only these are counted by metrics.
    pub spans: Condition,
    /// What the root of every selected trace satisfies.
    pub root: Condition,
    /// What every span of a result has above it.
    pub above: Option<Above>,
    /// Whether results are all spans that satisfy `spans`, whatever else their traces
    /// have. Then metrics can be counted without putting traces together.
    pub exact: bool,
}

/// A span that others have above them.
#[derive(Debug, Clone, PartialEq)]
pub struct Above {
    /// What it satisfies.
    pub span: Condition,
    /// Whether it is their parent.
    pub is_parent: bool,
}

/// A condition on a trace.
#[derive(Debug, Clone, PartialEq)]
pub enum SomeSpan {
    /// One of its spans satisfies this.
    Has(Condition),
    /// All of these.
    All(Vec<SomeSpan>),
    /// At least one of these.
    Any(Vec<SomeSpan>),
}

/// A condition on a span.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// Every span.
    Always,
    /// No span.
    Never,
    /// All of these.
    All(Vec<Condition>),
    /// At least one of these.
    Any(Vec<Condition>),
    /// A test of one field.
    Test(Test),
}

/// A test of one field of a span, without anything of other spans.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// Which field. `service.name` of [`crate::ast::Scope::Resource`] is the service,
    /// [`Intrinsic::Name`] the operation. [`Intrinsic::NestedSetParent`] is only asked
    /// to be below 0: the span is a root.
    pub field: Field,
    /// What it must be.
    pub check: Check,
}

/// What a field must be. None of them holds where it is missing or of another type. Of
/// an array, one element has to satisfy it; for what is negated, all.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// It compares so. Ints, floats and durations (in nanoseconds) are one type.
    Compare(Comparison, Literal),
    /// The expression matches all of its text.
    Matches(Pattern),
    /// It is text that the expression does not match.
    NotMatches(Pattern),
    /// It is there.
    Exists,
}

impl Query {
    /// What is necessary for a trace to be selected, or counted.
    #[must_use]
    pub fn needs(&self) -> Needs {
        match &self.body {
            Body::Search(pipeline) => of_pipeline(pipeline),
            Body::Metrics(metrics) => of_metrics(metrics).unwrap_or(Needs {
                trace: SomeSpan::Has(Condition::Never),
                spans: Condition::Never,
                root: Condition::Never,
                above: None,
                exact: true,
            }),
        }
    }
}

impl Pipeline {
    /// What is necessary for a trace to be selected.
    #[must_use]
    pub fn needs(&self) -> Needs {
        of_pipeline(self)
    }
}

impl Condition {
    /// The fields that it tests.
    #[must_use]
    pub fn fields(&self) -> Vec<&Field> {
        match self {
            Condition::Always | Condition::Never => Vec::new(),
            Condition::All(all) | Condition::Any(all) => {
                all.iter().flat_map(Condition::fields).collect()
            }
            Condition::Test(test) => vec![&test.field],
        }
    }

    /// Whether a span satisfies it.
    #[must_use]
    pub fn holds(&self, view: &TraceView<'_>, span: usize) -> bool {
        match self {
            Condition::Always => true,
            Condition::Never => false,
            Condition::All(all) => all.iter().all(|one| one.holds(view, span)),
            Condition::Any(any) => any.iter().any(|one| one.holds(view, span)),
            Condition::Test(test) => {
                let value = view.field(span, &test.field);
                match &test.check {
                    Check::Compare(operator, literal) => {
                        compare(*operator, &value, &Value::from(literal))
                    }
                    Check::Matches(pattern) => {
                        matches_pattern(false, &value, &|text| pattern.matches(text))
                    }
                    Check::NotMatches(pattern) => {
                        matches_pattern(true, &value, &|text| pattern.matches(text))
                    }
                    Check::Exists => value != Value::Nil,
                }
            }
        }
    }

    fn all(conditions: impl IntoIterator<Item = Condition>) -> Condition {
        let mut all = Vec::new();
        for condition in conditions {
            match condition {
                Condition::Always => {}
                Condition::Never => return Condition::Never,
                Condition::All(more) => all.extend(more),
                one => all.push(one),
            }
        }
        match all.len() {
            0 => Condition::Always,
            1 => all.remove(0),
            _ => Condition::All(all),
        }
    }

    fn any(conditions: impl IntoIterator<Item = Condition>) -> Condition {
        let mut any = Vec::new();
        for condition in conditions {
            match condition {
                Condition::Always => return Condition::Always,
                Condition::Never => {}
                Condition::Any(more) => any.extend(more),
                one => any.push(one),
            }
        }
        match any.len() {
            0 => Condition::Never,
            1 => any.remove(0),
            _ => Condition::Any(any),
        }
    }
}

impl SomeSpan {
    /// Whether a trace satisfies it.
    #[must_use]
    pub fn holds(&self, view: &TraceView<'_>) -> bool {
        match self {
            SomeSpan::Has(condition) => {
                (0..view.trace().spans.len()).any(|span| condition.holds(view, span))
            }
            SomeSpan::All(all) => all.iter().all(|one| one.holds(view)),
            SomeSpan::Any(any) => any.iter().any(|one| one.holds(view)),
        }
    }

    fn both(left: SomeSpan, right: SomeSpan) -> SomeSpan {
        if left == SomeSpan::Has(Condition::Always) || left == right {
            // A trace without any span is not selected by what is right, either.
            return right;
        }
        let mut all = Vec::new();
        for side in [left, right] {
            match side {
                SomeSpan::All(more) => all.extend(more),
                one => all.push(one),
            }
        }
        SomeSpan::All(all)
    }

    fn either(left: SomeSpan, right: SomeSpan) -> SomeSpan {
        match (left, right) {
            (SomeSpan::Has(left), SomeSpan::Has(right)) => {
                SomeSpan::Has(Condition::any([left, right]))
            }
            (SomeSpan::Any(mut any), one) | (one, SomeSpan::Any(mut any)) => {
                any.push(one);
                SomeSpan::Any(any)
            }
            (left, right) => SomeSpan::Any(vec![left, right]),
        }
    }
}

fn of_metrics(metrics: &Metrics) -> Option<Needs> {
    match metrics {
        Metrics::Measure(measure) => Some(of_pipeline(&measure.spans)),
        Metrics::Number(_) => None,
        Metrics::Then { metrics, .. } => of_metrics(metrics),
        Metrics::Arithmetic { left, right, .. } => match (of_metrics(left), of_metrics(right)) {
            (Some(left), Some(right)) => Some(Needs {
                trace: SomeSpan::either(left.trace, right.trace),
                // Each side counts its own, so neither is all of them.
                exact: left.exact && right.exact && left.spans == right.spans,
                spans: Condition::any([left.spans, right.spans]),
                root: Condition::any([left.root, right.root]),
                above: None,
            }),
            (one, other) => one.or(other),
        },
    }
}

fn of_pipeline(pipeline: &Pipeline) -> Needs {
    let mut needs = Needs {
        trace: SomeSpan::Has(Condition::Always),
        spans: Condition::Always,
        root: Condition::Always,
        above: None,
        exact: true,
    };
    for stage in &pipeline.stages {
        match stage {
            Stage::Spansets(spansets) => {
                let before = needs;
                let stage = of_spansets(spansets);
                let spans = Condition::all([before.spans.clone(), stage.spans]);
                let trace = match spansets {
                    Spansets::Where(_) => SomeSpan::Has(spans.clone()),
                    // To ask each part of it for what is known of all would double with
                    // every stage.
                    _ => stage.trace,
                };
                needs = Needs {
                    // That there were spans to begin with goes without saying.
                    trace: if before.trace == SomeSpan::Has(before.spans)
                        && matches!(spansets, Spansets::Where(_))
                    {
                        trace
                    } else {
                        SomeSpan::both(before.trace, trace)
                    },
                    spans,
                    root: Condition::all([before.root, stage.root]),
                    // Stages only leave spans out.
                    above: before.above.or(stage.above),
                    exact: before.exact && stage.exact,
                };
            }
            // Sets are left out as a whole.
            Stage::Filter(_) => needs.exact = false,
            Stage::Group(_) | Stage::Coalesce | Stage::Select(_) => {}
        }
    }
    needs
}

fn of_spansets(spansets: &Spansets) -> Needs {
    match spansets {
        Spansets::Where(expr) => {
            let (spans, exact) = of_expr(expr);
            let trace = SomeSpan::Has(spans.clone());
            Needs { trace, spans, root: of_root(expr), above: None, exact }
        }
        Spansets::Pipeline(pipeline) => of_pipeline(pipeline),
        Spansets::Join { operator, left, right } => {
            let (left, right) = (of_spansets(left), of_spansets(right));
            match operator {
                Join::Or => Needs {
                    exact: left.exact && right.exact,
                    trace: SomeSpan::either(left.trace, right.trace),
                    spans: Condition::any([left.spans, right.spans]),
                    root: Condition::any([left.root, right.root]),
                    above: None,
                },
                Join::And | Join::Structure { taken: Taken::Both, .. } => Needs {
                    exact: false,
                    trace: SomeSpan::both(left.trace, right.trace),
                    spans: Condition::any([left.spans, right.spans]),
                    root: Condition::all([left.root, right.root]),
                    above: None,
                },
                Join::Structure { relation, taken: Taken::Related } => Needs {
                    exact: false,
                    trace: SomeSpan::both(left.trace, right.trace),
                    spans: right.spans,
                    root: Condition::all([left.root, right.root]),
                    above: match relation {
                        Relation::Child => Some(Above { span: left.spans, is_parent: true }),
                        Relation::Descendant => Some(Above { span: left.spans, is_parent: false }),
                        _ => right.above,
                    },
                },
                Join::Structure { taken: Taken::Unrelated, .. } => Needs { exact: false, ..right },
            }
        }
    }
}

/// A condition on the root of the trace that is necessary for a span to be selected.
fn of_root(expr: &Expr) -> Condition {
    let field = |expr: &Expr| match expr {
        Expr::Field(Field::Intrinsic(Intrinsic::RootName)) => {
            Some(Field::Intrinsic(Intrinsic::Name))
        }
        Expr::Field(Field::Intrinsic(Intrinsic::RootService)) => {
            let name = "service.name".to_owned();
            Some(Field::Attribute(Attribute { parent: false, scope: Scope::Resource, name }))
        }
        _ => None,
    };
    let test = |field, check| Condition::Test(Test { field, check });
    match expr {
        Expr::Logic { operator: Logic::And, operands } => {
            Condition::all(operands.iter().map(of_root))
        }
        Expr::Logic { operator: Logic::Or, operands } => {
            Condition::any(operands.iter().map(of_root))
        }
        Expr::Compare { operator, left, right } => {
            let (field, operator, other) = match (field(left), field(right)) {
                (Some(field), None) => (field, *operator, right),
                (None, Some(field)) => (field, operator.mirrored(), left),
                _ => return Condition::Always,
            };
            match constant(other).filter(|_| !crate::types::has_field(other)) {
                Some(literal) => test(field, Check::Compare(operator, literal)),
                None => Condition::Always,
            }
        }
        Expr::Match { negated: false, text, pattern } => match field(text) {
            Some(field) => test(field, Check::Matches(pattern.clone())),
            None => Condition::Always,
        },
        _ => Condition::Always,
    }
}

/// A necessary condition, and whether it is sufficient as well.
fn of_expr(expr: &Expr) -> (Condition, bool) {
    const UNKNOWN: (Condition, bool) = (Condition::Always, false);
    if !crate::types::has_field(expr) {
        let holds = matches!(constant(expr), Some(Literal::Bool(true)));
        return (if holds { Condition::Always } else { Condition::Never }, true);
    }
    let test =
        |field: &Field, check: Check| (Condition::Test(Test { field: field.clone(), check }), true);
    let boolean = |field: &Field, value: bool| {
        test(field, Check::Compare(Comparison::Equal, Literal::Bool(value)))
    };
    match expr {
        Expr::Logic { operator, operands } => {
            let (conditions, exact): (Vec<Condition>, Vec<bool>) =
                operands.iter().map(of_expr).unzip();
            let condition = match operator {
                Logic::And => Condition::all(conditions),
                Logic::Or => Condition::any(conditions),
            };
            (condition, exact.into_iter().all(|exact| exact))
        }
        Expr::Compare { operator, left, right } => {
            let (field, operator, other) = match (left.as_ref(), right.as_ref()) {
                (Expr::Field(field), other) => (field, *operator, other),
                (other, Expr::Field(field)) => (field, operator.mirrored(), other),
                _ => return UNKNOWN,
            };
            if crate::types::has_field(other) {
                return UNKNOWN;
            }
            // Whether a span is a root, it knows by itself.
            if *field == Field::Intrinsic(Intrinsic::NestedSetParent)
                && asks_for_root(operator, constant(other).as_ref())
            {
                return test(field, Check::Compare(Comparison::Less, Literal::Int(0)));
            }
            if !of_single_span(field) {
                return UNKNOWN;
            }
            match constant(other) {
                Some(literal) => test(field, Check::Compare(operator, literal)),
                None => (Condition::Never, true),
            }
        }
        Expr::Match { negated, text, pattern } => match text.as_ref() {
            Expr::Field(field) if of_single_span(field) => {
                let pattern = pattern.clone();
                test(
                    field,
                    if *negated { Check::NotMatches(pattern) } else { Check::Matches(pattern) },
                )
            }
            _ => UNKNOWN,
        },
        Expr::Exists(operand) => match operand.as_ref() {
            Expr::Field(field) if of_single_span(field) => test(field, Check::Exists),
            _ => UNKNOWN,
        },
        // Only the value itself is a boolean; of an array, none is.
        Expr::Field(field) if of_single_span(field) => (boolean(field, true).0, false),
        Expr::Not(operand) => match operand.as_ref() {
            Expr::Field(field) if of_single_span(field) => (boolean(field, false).0, false),
            _ => UNKNOWN,
        },
        _ => UNKNOWN,
    }
}

/// Whether a comparison of [`Intrinsic::NestedSetParent`] holds of all roots, and of
/// nothing else: theirs is -1, and no other is below 0.
fn asks_for_root(operator: Comparison, number: Option<&Literal>) -> bool {
    match number {
        Some(Literal::Int(0)) => operator == Comparison::Less,
        Some(Literal::Int(-1)) => {
            matches!(operator, Comparison::Equal | Comparison::LessOrEqual)
        }
        _ => false,
    }
}

/// Whether the field is of the span by itself: not of its trace, its parent or its
/// children.
pub(crate) fn of_single_span(field: &Field) -> bool {
    match field {
        Field::Attribute(Attribute { parent, .. }) => !parent,
        Field::Intrinsic(intrinsic) => !matches!(
            intrinsic,
            Intrinsic::TraceDuration
                | Intrinsic::RootName
                | Intrinsic::RootService
                | Intrinsic::ChildCount
                | Intrinsic::NestedSetLeft
                | Intrinsic::NestedSetRight
                | Intrinsic::NestedSetParent
        ),
    }
}

/// The value of an expression without fields; none where it has none.
fn constant(expr: &Expr) -> Option<Literal> {
    let trace = Trace::default();
    Some(match evaluate::value(expr, &TraceView::new(&trace), 0) {
        Value::Int(number) => Literal::Int(number),
        Value::Float(number) => Literal::Float(number),
        Value::Bool(value) => Literal::Bool(value),
        Value::Duration(nanoseconds) => Literal::Duration(nanoseconds),
        Value::Status(status) => Literal::Status(status),
        Value::Kind(kind) => Literal::Kind(kind),
        Value::String(text) => Literal::String(text.into_owned()),
        Value::Nil | Value::Array(_) | Value::Other => return None,
    })
}
