//! Random queries and traces.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use spanwise_traceql::ast::*;
use spanwise_traceql::trace::{AttributeValue, Event, Instrumentation, Link, Span, Trace};
use spanwise_traceql::{Pattern, Query};

const NAMES: [&str; 6] = ["a", "b", "http.status", "a b", "5xx", "q\"\\"];

fn attribute() -> impl Strategy<Value = Field> {
    let scope = select(vec![
        Scope::Any,
        Scope::Span,
        Scope::Resource,
        Scope::Event,
        Scope::Link,
        Scope::Instrumentation,
    ]);
    (prop::bool::weighted(0.1), scope, select(&NAMES[..])).prop_map(|(parent, scope, name)| {
        let parent = parent && matches!(scope, Scope::Any | Scope::Span | Scope::Resource);
        Field::Attribute(Attribute { parent, scope, name: name.to_owned() })
    })
}

fn intrinsic(of: &'static [Intrinsic]) -> impl Strategy<Value = Field> {
    select(of).prop_map(Field::Intrinsic)
}

const NUMBERS: [Intrinsic; 7] = [
    Intrinsic::Duration,
    Intrinsic::TraceDuration,
    Intrinsic::EventTimeSinceStart,
    Intrinsic::ChildCount,
    Intrinsic::NestedSetLeft,
    Intrinsic::NestedSetRight,
    Intrinsic::NestedSetParent,
];
const TEXTS: [Intrinsic; 7] = [
    Intrinsic::Name,
    Intrinsic::StatusMessage,
    Intrinsic::RootName,
    Intrinsic::RootService,
    Intrinsic::EventName,
    Intrinsic::InstrumentationName,
    Intrinsic::InstrumentationVersion,
];

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![3 => attribute(), 1 => intrinsic(&NUMBERS), 1 => intrinsic(&TEXTS)]
}

fn number_literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        4 => (-3_i64..4).prop_map(Literal::Int),
        1 => select(vec![i64::MIN, i64::MAX]).prop_map(Literal::Int),
        1 => select(vec![0.0, -0.0, 1.5, -2.0, 1e300, 1e-7]).prop_map(Literal::Float),
        1 => select(vec![0, 1, -1, 2_000, 3_000_000_000, 5_400_000_000_000]).prop_map(Literal::Duration),
    ]
}

fn text() -> impl Strategy<Value = String> {
    select(&["", "x", "y", "xy", "é\n\"\\\t\u{1}"][..]).prop_map(str::to_owned)
}

fn status() -> impl Strategy<Value = Status> {
    select(vec![Status::Unset, Status::Ok, Status::Error])
}

fn kind() -> impl Strategy<Value = Kind> {
    select(vec![Kind::Unspecified, Kind::Internal, Kind::Server, Kind::Client, Kind::Producer])
}

fn comparison() -> impl Strategy<Value = Comparison> {
    select(vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ])
}

fn equality() -> impl Strategy<Value = Comparison> {
    select(vec![Comparison::Equal, Comparison::NotEqual])
}

fn arithmetic() -> impl Strategy<Value = Arithmetic> {
    select(vec![
        Arithmetic::Add,
        Arithmetic::Subtract,
        Arithmetic::Multiply,
        Arithmetic::Divide,
        Arithmetic::Remainder,
        Arithmetic::Power,
    ])
}

fn boxed_field(field: impl Strategy<Value = Field>) -> impl Strategy<Value = Box<Expr>> {
    field.prop_map(|field| Box::new(Expr::Field(field)))
}

/// A numeric expression.
fn number() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        number_literal().prop_map(Expr::Literal),
        attribute().prop_map(Expr::Field),
        intrinsic(&NUMBERS).prop_map(Expr::Field),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            3 => (arithmetic(), inner.clone(), inner.clone()).prop_map(|(operator, left, right)| {
                Expr::Arithmetic { operator, left: Box::new(left), right: Box::new(right) }
            }),
            1 => inner.prop_filter_map("a number has its sign", |inner| match inner {
                Expr::Literal(_) => None,
                inner => Some(Expr::Negate(Box::new(inner))),
            }),
        ]
    })
}

/// A boolean expression.
pub(crate) fn condition() -> impl Strategy<Value = Expr> {
    let compared = (comparison(), number(), number()).prop_map(|(operator, left, right)| {
        Expr::Compare { operator, left: Box::new(left), right: Box::new(right) }
    });
    let with_literal = (
        comparison(),
        boxed_field(attribute()),
        prop_oneof![number_literal(), text().prop_map(Literal::String),],
    );
    let with_literal =
        (with_literal, any::<bool>()).prop_map(|((operator, field, literal), turned)| {
            let literal = Box::new(Expr::Literal(literal));
            let (left, right) = if turned { (literal, field) } else { (field, literal) };
            Expr::Compare { operator, left, right }
        });
    let texts = (comparison(), boxed_field(intrinsic(&TEXTS)), text()).prop_map(
        |(operator, left, text)| {
            let right = Box::new(Expr::Literal(Literal::String(text)));
            Expr::Compare { operator, left, right }
        },
    );
    let words = (
        equality(),
        prop_oneof![
            status().prop_map(|status| (Intrinsic::Status, Literal::Status(status))),
            kind().prop_map(|kind| (Intrinsic::Kind, Literal::Kind(kind))),
        ],
    )
        .prop_map(|(operator, (intrinsic, literal))| Expr::Compare {
            operator,
            left: Box::new(Expr::Field(Field::Intrinsic(intrinsic))),
            right: Box::new(Expr::Literal(literal)),
        });
    let searched = prop_oneof![boxed_field(attribute()), boxed_field(intrinsic(&TEXTS))];
    let matched = (any::<bool>(), searched, select(&["x.*", ".*y", "x|y", "[^x]+", ""][..]))
        .prop_map(|(negated, text, pattern)| {
            let pattern = Pattern::new(pattern).expect("an expression");
            Expr::Match { negated, text, pattern }
        });
    let leaf = prop_oneof![
        2 => compared,
        4 => with_literal,
        1 => texts,
        2 => words,
        2 => matched,
        1 => boxed_field(attribute()).prop_map(Expr::Missing),
        1 => boxed_field(field()).prop_map(Expr::Exists),
        1 => attribute().prop_map(Expr::Field),
        1 => any::<bool>().prop_map(|value| Expr::Literal(Literal::Bool(value))),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let logic = select(vec![Logic::And, Logic::Or]);
        prop_oneof![
            4 => (logic, vec(inner.clone(), 2..4)).prop_filter_map(
                "a chain begins with something else",
                |(operator, operands)| match &operands[0] {
                    Expr::Logic { operator: first, .. } if *first == operator => None,
                    _ => Some(Expr::Logic { operator, operands }),
                }
            ),
            2 => inner.clone().prop_map(|inner| Expr::Not(Box::new(inner))),
            1 => (equality(), inner.clone(), inner.clone()).prop_map(|(operator, left, right)| {
                Expr::Compare { operator, left: Box::new(left), right: Box::new(right) }
            }),
            1 => inner.prop_map(|inner| Expr::Exists(Box::new(inner))),
        ]
    })
}

fn has_field(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) => false,
        Expr::Arithmetic { left, right, .. } => has_field(left) || has_field(right),
        Expr::Negate(inner) => has_field(inner),
        _ => true,
    }
}

fn scalar() -> impl Strategy<Value = Scalar> {
    let function =
        select(vec![Aggregate::Average, Aggregate::Maximum, Aggregate::Minimum, Aggregate::Sum]);
    let of = number().prop_filter("of the span", has_field);
    prop_oneof![
        Just(Scalar::Count),
        (function, of).prop_map(|(function, of)| Scalar::Aggregate { function, of: Box::new(of) }),
        arithmetic().prop_map(|operator| Scalar::Arithmetic {
            operator,
            left: Box::new(Scalar::Count),
            right: Box::new(Scalar::Number(Literal::Int(2))),
        }),
    ]
}

fn join() -> impl Strategy<Value = Join> {
    let relation = select(vec![
        Relation::Child,
        Relation::Parent,
        Relation::Descendant,
        Relation::Ancestor,
        Relation::Sibling,
    ]);
    let taken = select(vec![Taken::Related, Taken::Unrelated, Taken::Both]);
    prop_oneof![
        1 => Just(Join::And),
        1 => Just(Join::Or),
        4 => (relation, taken).prop_map(|(relation, taken)| Join::Structure { relation, taken }),
    ]
}

fn spansets() -> impl Strategy<Value = Spansets> {
    let leaf = condition().prop_map(Spansets::Where);
    leaf.prop_recursive(2, 4, 2, |inner| {
        let filter = (inner.clone(), scalar()).prop_map(|(spansets, left)| {
            let right = Scalar::Number(Literal::Int(1));
            let filter = ScalarFilter { operator: Comparison::Greater, left, right };
            Spansets::Pipeline(Pipeline {
                stages: vec![Stage::Spansets(spansets), Stage::Filter(filter)],
            })
        });
        prop_oneof![
            3 => (join(), inner.clone(), inner).prop_map(|(operator, left, right)| {
                Spansets::Join { operator, left: Box::new(left), right: Box::new(right) }
            }),
            1 => filter,
        ]
    })
}

pub(crate) fn pipeline() -> impl Strategy<Value = Pipeline> {
    let filter = (comparison(), scalar(), number_literal()).prop_map(|(operator, left, number)| {
        Stage::Filter(ScalarFilter { operator, left, right: Scalar::Number(number) })
    });
    let later = prop_oneof![
        2 => spansets().prop_map(Stage::Spansets),
        1 => filter,
        1 => field().prop_map(|field| Stage::Group(Expr::Field(field))),
        1 => Just(Stage::Coalesce),
        1 => vec(field(), 1..3).prop_map(Stage::Select),
    ];
    (spansets(), vec(later, 0..3)).prop_map(|(first, later)| {
        let mut stages = vec![Stage::Spansets(first)];
        stages.extend(later);
        Pipeline { stages }
    })
}

fn metrics() -> impl Strategy<Value = Metrics> {
    let of = || prop_oneof![attribute(), intrinsic(&NUMBERS)];
    let function = prop_oneof![
        Just(Function::Rate),
        Just(Function::Count),
        of().prop_map(Function::Minimum),
        of().prop_map(Function::Maximum),
        of().prop_map(Function::Average),
        of().prop_map(Function::Sum),
        of().prop_map(Function::Histogram),
        (of(), vec(select(vec![0.0, 0.5, 0.99, 1.0]), 1..3))
            .prop_map(|(field, quantiles)| Function::Quantile { field, quantiles }),
    ];
    let measure = (pipeline(), function, vec(field(), 0..3))
        .prop_map(|(spans, function, by)| Metrics::Measure(Measure { spans, function, by }));
    let second = prop_oneof![
        (1_usize..5).prop_map(SecondStage::Top),
        (1_usize..5).prop_map(SecondStage::Bottom),
        (comparison(), number_literal())
            .prop_map(|(operator, number)| SecondStage::Compare(operator, number)),
    ];
    let operator = select(vec![
        Arithmetic::Add,
        Arithmetic::Subtract,
        Arithmetic::Multiply,
        Arithmetic::Divide,
    ]);
    measure.prop_recursive(2, 4, 2, move |inner| {
        let series = inner.clone();
        prop_oneof![
            (operator.clone(), inner.clone(), inner.clone(), 0..3, select(vec![1.5, -2.0]))
                .prop_map(|(operator, left, right, numbers, number)| {
                    let (left, right) = match numbers {
                        0 => (Metrics::Number(number), right),
                        1 => (left, Metrics::Number(number)),
                        _ => (left, right),
                    };
                    Metrics::Arithmetic { operator, left: Box::new(left), right: Box::new(right) }
                }),
            (series, vec(second.clone(), 1..3)).prop_filter_map("once", |(metrics, stages)| {
                match metrics {
                    Metrics::Then { .. } => None,
                    metrics => Some(Metrics::Then { metrics: Box::new(metrics), stages }),
                }
            }),
        ]
    })
}

fn hint() -> impl Strategy<Value = Hint> {
    (
        select(&["sample", "most_recent"][..]),
        select(vec![
            Literal::Bool(true),
            Literal::Float(0.1),
            Literal::Int(7),
            Literal::String("x".to_owned()),
        ]),
    )
        .prop_map(|(name, value)| Hint { name: name.to_owned(), value })
}

pub(crate) fn query() -> impl Strategy<Value = Query> {
    let body = prop_oneof![
        2 => pipeline().prop_map(Body::Search),
        1 => metrics().prop_map(Body::Metrics),
    ];
    (body, vec(hint(), 0..2)).prop_map(|(body, hints)| Query { body, hints })
}

fn value() -> impl Strategy<Value = AttributeValue> {
    let leaf = prop_oneof![
        (-3_i64..4).prop_map(AttributeValue::Int),
        select(vec![0.0, 1.5, -2.0]).prop_map(AttributeValue::Float),
        any::<bool>().prop_map(AttributeValue::Bool),
        text().prop_map(AttributeValue::String),
        Just(AttributeValue::Empty),
        Just(AttributeValue::Bytes(vec![1])),
    ];
    prop_oneof![6 => leaf.clone(), 1 => vec(leaf, 0..3).prop_map(AttributeValue::Array)]
}

fn attributes() -> impl Strategy<Value = Vec<(String, AttributeValue)>> {
    vec((select(&NAMES[..]).prop_map(str::to_owned), value()), 0..3)
}

fn span() -> impl Strategy<Value = Span> {
    let times = (0_u64..20, 0_u64..5);
    let ids = (0_u8..12, prop::option::weighted(0.8, 0_u8..12));
    let events = vec((text(), 0_u64..9, attributes()), 0..3);
    let links = vec(attributes(), 0..2);
    let more = (attributes(), attributes(), attributes());
    (ids, times, text(), status(), kind(), events, links, more).prop_map(
        |((id, parent), (start, duration), name, status, kind, events, links, more)| Span {
            id: [id; 8],
            parent_id: parent.map(|parent| [parent; 8]),
            name: name.clone(),
            kind,
            status,
            status_message: name,
            start_unix_nanos: start * 1_000,
            duration_nanos: duration * 1_000,
            attributes: more.0,
            events: events
                .into_iter()
                .map(|(name, time, attributes)| Event {
                    name,
                    unix_nanos: time * 1_000,
                    attributes,
                })
                .collect(),
            links: links
                .into_iter()
                .map(|attributes| Link { trace_id: [1; 16], span_id: [2; 8], attributes })
                .collect(),
            resource: Arc::new(more.1),
            instrumentation: Arc::new(Instrumentation {
                name: "x".to_owned(),
                version: "1".to_owned(),
                attributes: more.2,
            }),
        },
    )
}

pub(crate) fn trace() -> impl Strategy<Value = Trace> {
    vec(span(), 0..12).prop_map(|spans| Trace { id: [7; 16], spans })
}
