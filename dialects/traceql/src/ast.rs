//! The syntax tree. It holds no positions: types are checked while it is built,
//! where positions are known, so that two texts of one meaning give equal trees.

use crate::pattern::Pattern;

/// A whole query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// What is asked.
    pub body: Body,
    /// `with(name=value, …)`, in their order.
    pub hints: Vec<Hint>,
}

/// What a query gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Sets of spans.
    Search(Pipeline),
    /// Series over time.
    Metrics(Metrics),
}

/// `name=value` of `with(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// Its name. Which names mean something is for whoever runs the query.
    pub name: String,
    /// Its value.
    pub value: Literal,
}

/// Stages joined by `|`. There is at least one, and the first is not `coalesce()`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// The stages.
    pub stages: Vec<Stage>,
}

/// One stage of a pipeline: sets of spans in, sets of spans out.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// `{…}`, and such joined by operators.
    Spansets(Spansets),
    /// `count() > 2`
    Filter(ScalarFilter),
    /// `by(expression)`
    Group(Expr),
    /// `coalesce()`
    Coalesce,
    /// `select(field, …)`
    Select(Vec<Field>),
}

/// An expression that selects spans.
#[derive(Debug, Clone, PartialEq)]
pub enum Spansets {
    /// `{…}`. `{}` is `{ true }`.
    Where(Expr),
    /// Two of them joined by an operator.
    Join {
        /// The operator.
        operator: Join,
        /// What stands left of it.
        left: Box<Spansets>,
        /// What stands right of it.
        right: Box<Spansets>,
    },
    /// `({…} | …)`
    Pipeline(Pipeline),
}

/// An operator between sets of spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// `&&`: both have spans.
    And,
    /// `||`: one of them has spans.
    Or,
    /// A relation in the tree of spans.
    Structure {
        /// Which one.
        relation: Relation,
        /// Which spans are taken.
        taken: Taken,
    },
}

/// How a span on the right side is related to one on the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `>`: it is its child.
    Child,
    /// `<`: it is its parent.
    Parent,
    /// `>>`: it is below it.
    Descendant,
    /// `<<`: it is above it.
    Ancestor,
    /// `~`: it is another one with the same parent.
    Sibling,
}

/// Which spans an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Those of the right side that have a partner on the left.
    Related,
    /// `!>`: those of the right side that have none.
    Unrelated,
    /// `&>`: those of both sides that have a partner on the other.
    Both,
}

/// A comparison of what is computed from a set of spans.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalarFilter {
    /// How they are compared.
    pub operator: Comparison,
    /// The left side.
    pub left: Scalar,
    /// The right side.
    pub right: Scalar,
}

/// A number computed from a set of spans.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A number. Arithmetic of numbers alone is computed while parsing.
    Number(Literal),
    /// `count()`
    Count,
    /// `max(expression)`
    Aggregate {
        /// Which one.
        function: Aggregate,
        /// Of what.
        of: Box<Expr>,
    },
    /// Two of them.
    Arithmetic {
        /// The operator.
        operator: Arithmetic,
        /// The left side.
        left: Box<Scalar>,
        /// The right side.
        right: Box<Scalar>,
    },
}

/// A function over the spans of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum Aggregate {
    Average,
    Maximum,
    Minimum,
    Sum,
}

/// An expression on one span.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// What a span has.
    Field(Field),
    /// `a && b && c`. At least two operands.
    Logic {
        /// `&&` or `||`.
        operator: Logic,
        /// What is joined.
        operands: Vec<Expr>,
    },
    /// `a < b`
    Compare {
        /// How.
        operator: Comparison,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// `text =~ "pattern"`
    Match {
        /// Whether it is `!~`.
        negated: bool,
        /// What is searched.
        text: Box<Expr>,
        /// The expression.
        pattern: Pattern,
    },
    /// `a + b`
    Arithmetic {
        /// The operator.
        operator: Arithmetic,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// `!a`
    Not(Box<Expr>),
    /// `-a`
    Negate(Box<Expr>),
    /// `a != nil`
    Exists(Box<Expr>),
    /// `a = nil`
    Missing(Box<Expr>),
}

/// `&&` or `||`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum Logic {
    And,
    Or,
}

/// `=`, `!=`, `<`, `<=`, `>`, `>=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison that says the same with its sides exchanged.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

/// `+`, `-`, `*`, `/`, `%`, `^`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `200`
    Int(i64),
    /// `1.5`, finite.
    Float(f64),
    /// `true`
    Bool(bool),
    /// `"text"` or in backticks.
    String(String),
    /// `1h30m`, in nanoseconds.
    Duration(i64),
    /// `error`
    Status(Status),
    /// `server`
    Kind(Kind),
}

/// A span's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "OpenTelemetry's own")]
pub enum Status {
    Unset,
    Ok,
    Error,
}

/// A span's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "OpenTelemetry's own")]
pub enum Kind {
    Unspecified,
    Internal,
    Server,
    Client,
    Producer,
    Consumer,
}

/// What a span has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Field {
    /// `span.http.route`
    Attribute(Attribute),
    /// `duration`, `span:duration`
    Intrinsic(Intrinsic),
}

/// An attribute by scope and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attribute {
    /// Whether it is the parent span's: `parent.x`.
    pub parent: bool,
    /// Where it is looked for.
    pub scope: Scope,
    /// Its name, without quotes.
    pub name: String,
}

/// Where an attribute is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// `.x`: in the span, its resource, its events, its links and the instrumentation
    /// scope, in this order; the first that has it.
    Any,
    /// `span.x`
    Span,
    /// `resource.x`
    Resource,
    /// `event.x`: those of all the span's events.
    Event,
    /// `link.x`: those of all the span's links.
    Link,
    /// `instrumentation.x`
    Instrumentation,
}

/// What every span has by itself. Old and new spellings are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the field of its name in the documentation's table")]
pub enum Intrinsic {
    Duration,
    Name,
    Status,
    StatusMessage,
    Kind,
    SpanId,
    ParentId,
    ChildCount,
    TraceDuration,
    RootName,
    RootService,
    TraceId,
    EventName,
    EventTimeSinceStart,
    LinkTraceId,
    LinkSpanId,
    InstrumentationName,
    InstrumentationVersion,
    NestedSetLeft,
    NestedSetRight,
    NestedSetParent,
}

/// Series over time.
#[derive(Debug, Clone, PartialEq)]
pub enum Metrics {
    /// `{…} | rate() by (…)`
    Measure(Measure),
    /// A number within arithmetic.
    Number(f64),
    /// `({…} | rate()) / ({…} | rate())`
    Arithmetic {
        /// One of `+ - * /`.
        operator: Arithmetic,
        /// The left side.
        left: Box<Metrics>,
        /// The right side.
        right: Box<Metrics>,
    },
    /// Series, and what is done with them.
    Then {
        /// The series.
        metrics: Box<Metrics>,
        /// One after the other.
        stages: Vec<SecondStage>,
    },
}

/// A function over the spans that a pipeline gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Which spans.
    pub spans: Pipeline,
    /// What is measured.
    pub function: Function,
    /// A series for each combination of values of these.
    pub by: Vec<Field>,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Function {
    /// `rate()`: spans a second.
    Rate,
    /// `count_over_time()`
    Count,
    /// `min_over_time(field)`
    Minimum(Field),
    /// `max_over_time(field)`
    Maximum(Field),
    /// `avg_over_time(field)`
    Average(Field),
    /// `sum_over_time(field)`
    Sum(Field),
    /// `quantile_over_time(field, q, …)`
    Quantile {
        /// Of what.
        field: Field,
        /// Each from 0 to 1.
        quantiles: Vec<f64>,
    },
    /// `histogram_over_time(field)`
    Histogram(Field),
    /// `compare({…}, top, start, end)`
    Compare {
        /// Which spans are the selection.
        selection: Expr,
        /// How many values of each attribute are told, 1 to 1000.
        top: usize,
        /// Only spans that start after the first and not after the second, in
        /// nanoseconds of Unix time, are of the selection.
        window: Option<(i64, i64)>,
    },
}

/// What is done with series.
#[derive(Debug, Clone, PartialEq)]
pub enum SecondStage {
    /// `topk(n)`
    Top(usize),
    /// `bottomk(n)`
    Bottom(usize),
    /// `> 10`. A duration means seconds.
    Compare(Comparison, Literal),
}

impl Field {
    /// Whether it is of the span by itself: not of its trace, its parent or its
    /// children.
    #[must_use]
    pub fn is_of_single_span(&self) -> bool {
        crate::necessary::of_single_span(self)
    }
}

impl Metrics {
    /// Every function over spans, in the order in which they are written.
    #[must_use]
    pub fn measures(&self) -> Vec<&Measure> {
        let mut measures = Vec::new();
        self.collect(&mut measures);
        measures
    }

    fn collect<'m>(&'m self, measures: &mut Vec<&'m Measure>) {
        match self {
            Metrics::Measure(measure) => measures.push(measure),
            Metrics::Number(_) => {}
            Metrics::Then { metrics, .. } => metrics.collect(measures),
            Metrics::Arithmetic { left, right, .. } => {
                left.collect(measures);
                right.collect(measures);
            }
        }
    }
}

impl Relation {
    /// The relation seen from the other side.
    #[must_use]
    pub fn inverse(self) -> Self {
        match self {
            Relation::Child => Relation::Parent,
            Relation::Parent => Relation::Child,
            Relation::Descendant => Relation::Ancestor,
            Relation::Ancestor => Relation::Descendant,
            Relation::Sibling => Relation::Sibling,
        }
    }
}

impl Pipeline {
    /// Whether it may give several sets of spans for one: something is grouped, and
    /// not joined again.
    #[must_use]
    pub fn may_split(&self) -> bool {
        self.stages.iter().fold(false, |split, stage| match stage {
            Stage::Group(_) => true,
            Stage::Coalesce => false,
            Stage::Spansets(Spansets::Pipeline(pipeline)) => split || pipeline.may_split(),
            _ => split,
        })
    }
}
