//! What the store is asked for: predicates, of which every span that a query may select
//! fulfils at least one.

use spanwise_model::Status as StoredStatus;
use spanwise_store::{
    Above as RowsAbove, AttributeCondition, AttributeTest, Number, Predicate, TimeRange,
};
use spanwise_traceql::ast::{Attribute, Comparison, Field, Intrinsic, Literal, Scope, Status};
use spanwise_traceql::{Above, Check, Condition, Needs, Test};

use super::spans::MADE;
use crate::trace::AROUND_NANO;

/// The most predicates; what would need more is looked for less exactly.
const MAX_PREDICATES: usize = 8;
/// Beyond this a double does not tell all integers apart.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The predicates for a condition; none where no span fulfils it.
pub(super) fn predicates(condition: &Condition) -> Vec<Predicate> {
    let mut all = alternatives(condition);
    for predicate in &mut all {
        // What is in no trace yet is in no answer.
        predicate.assembled = true;
    }
    all
}

/// The predicates for what a query needs of traces, and the time in which their rows are; those
/// of the roots, where nothing else can be looked for.
pub(super) fn of_traces(needs: &Needs, time: TimeRange) -> (Vec<Predicate>, TimeRange) {
    let mut spans = predicates(&needs.spans);
    let nothing = Predicate { assembled: true, ..Predicate::default() };
    let mut roots = predicates(&needs.root);
    // A span may be outside of the time of those that belong to its trace.
    let around = TimeRange {
        from_unix_nano: time.from_unix_nano.saturating_sub(AROUND_NANO),
        to_unix_nano: time.to_unix_nano.saturating_add(AROUND_NANO),
    };
    if spans != [nothing.clone()] || roots.contains(&nothing) {
        let above = needs.above.as_ref().and_then(|above| rows_above(above, around));
        for span in &mut spans {
            span.above.clone_from(&above);
        }
        return (spans, time);
    }
    for root in &mut roots {
        root.root = true;
    }
    (roots, around)
}

/// What the store can look for above a row; `None` where that may be any.
fn rows_above(above: &Above, within: TimeRange) -> Option<RowsAbove> {
    let any = alternatives(&above.span);
    let is_looked_at = |predicate: &Predicate| {
        predicate.service.is_some() || predicate.operation.is_some() || predicate.status.is_some()
    };
    let only_parent = above.is_parent;
    any.iter().all(is_looked_at).then_some(RowsAbove { any, only_parent, within })
}

fn alternatives(condition: &Condition) -> Vec<Predicate> {
    match condition {
        Condition::Always => vec![Predicate::default()],
        Condition::Never => Vec::new(),
        Condition::Any(any) => {
            let mut all: Vec<Predicate> = Vec::new();
            for one in any.iter().flat_map(alternatives) {
                if one == Predicate::default() || all.len() >= MAX_PREDICATES {
                    return vec![Predicate::default()];
                }
                if !all.contains(&one) {
                    all.push(one);
                }
            }
            all
        }
        Condition::All(all) => {
            let mut parts: Vec<Vec<Predicate>> = all.iter().map(alternatives).collect();
            // Those with most alternatives are left out where there would be too many.
            parts.sort_by_key(Vec::len);
            parts.into_iter().fold(vec![Predicate::default()], |before, part| {
                if before.len() * part.len() > MAX_PREDICATES {
                    return before;
                }
                let both = before.iter().flat_map(|one| part.iter().map(move |two| (one, two)));
                both.filter_map(|(one, two)| both_of(one, two)).collect()
            })
        }
        Condition::Test(test) => of_test(test),
    }
}

/// The predicate that says what both say; `None` where no row fulfils both.
fn both_of(one: &Predicate, two: &Predicate) -> Option<Predicate> {
    fn same<T: Clone + PartialEq>(one: &Option<T>, two: &Option<T>) -> Option<Option<T>> {
        match (one, two) {
            (Some(one), Some(two)) if one != two => None,
            _ => Some(one.clone().or_else(|| two.clone())),
        }
    }
    let status = match (one.status, two.status) {
        // The store takes `Ok` for everything that is no error.
        (Some(StoredStatus::Ok), Some(StoredStatus::Unset))
        | (Some(StoredStatus::Unset), Some(StoredStatus::Ok)) => Some(StoredStatus::Unset),
        (one, two) => same(&one, &two)?,
    };
    let least = one.min_duration_nano.max(two.min_duration_nano);
    let most = one.max_duration_nano.into_iter().chain(two.max_duration_nano).min();
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        return None;
    }
    Some(Predicate {
        service: same(&one.service, &two.service)?,
        operation: same(&one.operation, &two.operation)?,
        min_duration_nano: least,
        max_duration_nano: most,
        status,
        attributes: [&one.attributes[..], &two.attributes].concat(),
        anywhere: [&one.anywhere[..], &two.anywhere].concat(),
        assembled: false,
        root: one.root || two.root,
        above: None,
    })
}

fn of_test(Test { field, check }: &Test) -> Vec<Predicate> {
    let any = || vec![Predicate::default()];
    match field {
        Field::Intrinsic(intrinsic) => match (intrinsic, check) {
            (Intrinsic::Name, check) => match texts(check) {
                Some(texts) => texts
                    .map(|text| Predicate { operation: Some(text), ..Predicate::default() })
                    .collect(),
                None => any(),
            },
            (Intrinsic::Duration, Check::Compare(operator, literal)) => {
                durations(*operator, literal).unwrap_or_else(any)
            }
            (Intrinsic::Status, Check::Compare(operator, Literal::Status(status))) => {
                let status = match (operator, status) {
                    (Comparison::Equal, Status::Error) => StoredStatus::Error,
                    (Comparison::Equal, Status::Unset) => StoredStatus::Unset,
                    // Which the store takes for everything that is no error.
                    (Comparison::Equal, Status::Ok) | (Comparison::NotEqual, Status::Error) => {
                        StoredStatus::Ok
                    }
                    _ => return any(),
                };
                vec![Predicate { status: Some(status), ..Predicate::default() }]
            }
            // Of a single span this can only be asked so.
            (Intrinsic::NestedSetParent, _) => {
                vec![Predicate { root: true, ..Predicate::default() }]
            }
            (Intrinsic::InstrumentationName, check) => of_scope("name", check),
            (Intrinsic::InstrumentationVersion, check) => of_scope("version", check),
            _ => any(),
        },
        Field::Attribute(Attribute { scope: Scope::Resource, name, .. })
            if name == "service.name" =>
        {
            match texts(check) {
                Some(texts) => texts
                    .map(|text| Predicate { service: Some(text), ..Predicate::default() })
                    .collect(),
                None => any(),
            }
        }
        Field::Attribute(Attribute { name, .. }) if MADE.contains(&name.as_str()) => any(),
        Field::Attribute(Attribute { scope, name, .. }) => {
            let mut all: Vec<Predicate> = tests(check)
                .into_iter()
                .map(|test| {
                    let test = AttributeTest::Element(Box::new(test));
                    let condition = vec![AttributeCondition { key: name.clone(), test }];
                    match scope {
                        Scope::Span | Scope::Resource => {
                            Predicate { attributes: condition, ..Predicate::default() }
                        }
                        _ => Predicate { anywhere: condition, ..Predicate::default() },
                    }
                })
                .collect();
            // The service that is shown may not be in the resource.
            if *scope == Scope::Any && name == "service.name" {
                match texts(check) {
                    Some(texts) => all.extend(
                        texts.map(|text| Predicate { service: Some(text), ..Predicate::default() }),
                    ),
                    None => return any(),
                }
            }
            all
        }
    }
}

/// A test of what every span has of its instrumentation scope. It may be empty, and is no
/// attribute then.
fn of_scope(part: &str, check: &Check) -> Vec<Predicate> {
    let Some(texts) = texts(check) else { return vec![Predicate::default()] };
    let texts: Vec<String> = texts.collect();
    if texts.iter().any(String::is_empty) {
        return vec![Predicate::default()];
    }
    texts
        .into_iter()
        .map(|text| {
            let (key, test) = (format!("otel.scope.{part}"), AttributeTest::Equal(text));
            let attributes = vec![AttributeCondition { key, test }];
            Predicate { attributes, ..Predicate::default() }
        })
        .collect()
}

/// The few texts that a check lets pass; `None` where it asks for something else.
fn texts(check: &Check) -> Option<impl Iterator<Item = String>> {
    let texts: Vec<String> = match check {
        Check::Compare(Comparison::Equal, Literal::String(text)) => vec![text.clone()],
        Check::Matches(pattern) => {
            let texts = pattern.texts().filter(|texts| texts.len() <= MAX_PREDICATES)?;
            texts.iter().map(|text| (*text).to_owned()).collect()
        }
        _ => return None,
    };
    Some(texts.into_iter())
}

/// Of each alternative, the test of one value.
fn tests(check: &Check) -> Vec<AttributeTest> {
    if let Some(texts) = texts(check) {
        return texts.map(AttributeTest::Equal).collect();
    }
    let test = match check {
        Check::Compare(operator, literal) => of_literal(*operator, literal),
        _ => None,
    };
    vec![test.unwrap_or(AttributeTest::Exists)]
}

fn of_literal(operator: Comparison, literal: &Literal) -> Option<AttributeTest> {
    let number = match literal {
        Literal::Bool(flag) if operator == Comparison::Equal => {
            return Some(AttributeTest::Equal(flag.to_string()));
        }
        Literal::Int(number) | Literal::Duration(number) => {
            (number.unsigned_abs() < EXACT as u64).then_some(Number::Int(*number))
        }
        Literal::Float(number) => (number.abs() < EXACT).then_some(Number::Double(*number)),
        _ => None,
    }?;
    Some(match operator {
        Comparison::Equal => AttributeTest::Equal(match number {
            Number::Int(number) => number.to_string(),
            Number::Double(number) => format!("{number:?}"),
        }),
        Comparison::Less => AttributeTest::Less(number),
        Comparison::LessOrEqual => AttributeTest::LessOrEqual(number),
        Comparison::Greater => AttributeTest::Greater(number),
        Comparison::GreaterOrEqual => AttributeTest::GreaterOrEqual(number),
        Comparison::NotEqual => return None,
    })
}

/// Bounds of the duration; `None` where there are none to tell.
pub(super) fn durations(operator: Comparison, literal: &Literal) -> Option<Vec<Predicate>> {
    // The least and the most whole number of nanoseconds that are equal, or just beside.
    let (floor, ceil) = match literal {
        Literal::Int(nano) | Literal::Duration(nano) => (*nano, *nano),
        Literal::Float(nano) if nano.abs() < EXACT => (nano.floor() as i64, nano.ceil() as i64),
        _ => return None,
    };
    let (least, most) = match operator {
        Comparison::Equal => (Some(ceil), Some(floor)),
        Comparison::Less => (None, Some(ceil.checked_sub(1)?)),
        Comparison::LessOrEqual => (None, Some(floor)),
        Comparison::Greater => (Some(floor.checked_add(1)?), None),
        Comparison::GreaterOrEqual => (Some(ceil), None),
        Comparison::NotEqual => return None,
    };
    if most.is_some_and(|most| most < 0)
        || least.zip(most).is_some_and(|(least, most)| least > most)
    {
        return Some(Vec::new());
    }
    // No span takes less than nothing; a stored duration below 0 counts as 0.
    let least = least.filter(|least| *least > 0);
    Some(vec![Predicate {
        min_duration_nano: least,
        max_duration_nano: most,
        ..Predicate::default()
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_traceql::parse;

    fn asked(query: &str) -> Vec<Predicate> {
        predicates(&parse(query).expect("a query").needs().spans)
    }

    fn plain() -> Predicate {
        Predicate { assembled: true, ..Predicate::default() }
    }

    fn element(key: &str, test: AttributeTest) -> Vec<AttributeCondition> {
        vec![AttributeCondition {
            key: key.to_owned(),
            test: AttributeTest::Element(Box::new(test)),
        }]
    }

    #[test]
    fn what_the_store_can_look_for_it_is_asked_for() {
        let service = |service: &str| Some(service.to_owned());
        let equal = |text: &str| AttributeTest::Equal(text.to_owned());
        for (query, expected) in [
            ("{}", vec![plain()]),
            ("{ false }", vec![]),
            (
                r#"{ resource.service.name = "a" && name = "b" && duration > 1ms }"#,
                vec![Predicate {
                    service: service("a"),
                    operation: service("b"),
                    min_duration_nano: Some(1_000_001),
                    ..plain()
                }],
            ),
            (
                r#"{ resource.service.name =~ "a|b" && status = error }"#,
                ["a", "b"]
                    .map(|name| Predicate {
                        service: service(name),
                        status: Some(StoredStatus::Error),
                        ..plain()
                    })
                    .to_vec(),
            ),
            (r#"{ name = "a" && name = "b" }"#, vec![]),
            (
                "{ status != error && status = unset }",
                vec![Predicate { status: Some(StoredStatus::Unset), ..plain() }],
            ),
            ("{ status != error && status = error }", vec![]),
            ("{ duration < 10ns && duration > 20ns }", vec![]),
            ("{ duration >= 1.5 }", vec![Predicate { min_duration_nano: Some(2), ..plain() }]),
            ("{ duration < 0ns }", vec![]),
            (
                r#"{ span.a = "x" }"#,
                vec![Predicate { attributes: element("a", equal("x")), ..plain() }],
            ),
            ("{ .a = 3.0 }", vec![Predicate { anywhere: element("a", equal("3.0")), ..plain() }]),
            (
                "{ event.a > 2s }",
                vec![Predicate {
                    anywhere: element("a", AttributeTest::Greater(Number::Int(2_000_000_000))),
                    ..plain()
                }],
            ),
            // What others say does not matter, or cannot be said.
            (
                "{ span.a != 1 && span.b =~ `x.*` }",
                vec![Predicate {
                    attributes: [
                        element("a", AttributeTest::Exists),
                        element("b", AttributeTest::Exists),
                    ]
                    .concat(),
                    ..plain()
                }],
            ),
            (
                "{ span.a = 9007199254740993 }",
                vec![Predicate { attributes: element("a", AttributeTest::Exists), ..plain() }],
            ),
            ("{ span.spanwise.capture = `app` }", vec![plain()]),
            ("{ nestedSetParent < 0 }", vec![Predicate { root: true, ..plain() }]),
            (
                r#"{ span.a = "x" } >> { name = "b" }"#,
                vec![Predicate { operation: service("b"), ..plain() }],
            ),
            (r#"{ rootName = "x" }"#, vec![plain()]),
        ] {
            assert_eq!(asked(query), expected, "{query}");
        }
        let time = TimeRange { from_unix_nano: 0, to_unix_nano: 1 };
        let of_traces = |query| of_traces(&parse(query).expect("a query").needs(), time);
        let (roots, around) = of_traces(r#"{ rootServiceName = "a" && kind = server }"#);
        assert_eq!(roots, [Predicate { service: service("a"), root: true, ..plain() }]);
        assert_eq!(around.from_unix_nano, -AROUND_NANO);
        let above = |query| {
            let (spans, _) = of_traces(query);
            assert!(spans.iter().all(|span| span.above == spans[0].above), "{spans:?}");
            spans[0].above.clone()
        };
        for (query, only_parent) in [
            (r#"{ name = "a" } > { status = error }"#, true),
            (
                r#"{ name = "a" && span.x = 1 } >> ({ .a = 1 } || { name = "b" }) | count() > 1"#,
                false,
            ),
            (r#"{} >> { name = "a" } >> { kind = server }"#, false),
        ] {
            let found = above(query).expect(query);
            assert_eq!(found.only_parent, only_parent, "{query}");
            assert!(matches!(&found.any[..], [one] if one.operation == service("a")), "{query}");
        }
        for other in [
            r#"{ name = "a" } !>> { status = error }"#,
            r#"{ name = "a" } &>> { status = error }"#,
            r#"{ name = "a" } << { status = error }"#,
            r#"{ span.x = 1 } >> { status = error }"#,
            r#"({ name = "a" } >> { name = "b" }) || { name = "c" }"#,
        ] {
            assert_eq!(above(other), None, "{other}");
        }
        for other in [r#"{ rootName = "a" && name = "b" }"#, r#"{ rootName = "a" } || {}"#, "{}"] {
            assert_eq!(of_traces(other).1, time, "{other}");
        }
        let many: Vec<String> = (0..9).map(|n| format!("name = `{n}`")).collect();
        assert_eq!(asked(&format!("{{ {} }}", many.join(" || "))), vec![plain()]);
    }
}
