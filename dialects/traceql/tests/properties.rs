//! Properties of every query on every trace.

use proptest::prelude::*;
use spanwise_traceql::ast::{Body, Pipeline, Relation, Spansets, Stage};
use spanwise_traceql::metrics::{Evaluation, Grid, Limits};
use spanwise_traceql::trace::{Trace, TraceView};
use spanwise_traceql::{parse, search};

use crate::generate;

fn where_spans(pipeline: &Pipeline, view: &TraceView<'_>) -> Vec<u32> {
    let mut spans: Vec<u32> =
        search(pipeline, view).into_iter().flat_map(|set| set.spans).collect();
    spans.sort_unstable();
    spans
}

/// The parent by its definition, found by searching all spans.
fn parent(trace: &Trace, span: usize) -> Option<usize> {
    use spanwise_traceql::ast::Kind;
    let named = |span: usize| {
        let id = trace.spans[span].parent_id?;
        let found: Vec<usize> =
            (0..trace.spans.len()).filter(|one| trace.spans[*one].id == id).collect();
        match found[..] {
            [one] => Some(one),
            [_, _] => {
                let server = trace.spans[span].kind == Kind::Server;
                let wanted = if server { Kind::Client } else { Kind::Server };
                found.into_iter().find(|one| trace.spans[*one].kind == wanted)
            }
            _ => None,
        }
    };
    let mut above = named(span);
    for _ in 0..trace.spans.len() {
        if above == Some(span) {
            // The span is its own ancestor.
            return None;
        }
        above = above.and_then(named);
    }
    named(span)
}

fn is_below(trace: &Trace, span: usize, above: usize) -> bool {
    let mut next = parent(trace, span);
    while let Some(one) = next {
        if one == above {
            return true;
        }
        next = parent(trace, one);
    }
    false
}

/// Whether `span` has this relation to `other`.
fn related(trace: &Trace, relation: Relation, other: usize, span: usize) -> bool {
    match relation {
        Relation::Child => parent(trace, span) == Some(other),
        Relation::Parent => parent(trace, other) == Some(span),
        Relation::Descendant => is_below(trace, span, other),
        Relation::Ancestor => is_below(trace, other, span),
        Relation::Sibling => {
            let (one, two) = (&trace.spans[span], &trace.spans[other]);
            span != other
                && match (parent(trace, span), parent(trace, other)) {
                    (Some(one), Some(two)) => one == two,
                    (None, None) => one.parent_id == two.parent_id,
                    _ => false,
                }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn print_then_parse_is_the_same(query in generate::query()) {
        let text = query.to_string();
        let parsed = parse(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(&parsed, &query, "{}", text);
        prop_assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn random_text_is_taken_or_refused(text in "\\PC{0,40}") {
        same_again(&text)?;
    }

    #[test]
    fn random_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        same_again(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn queries_with_a_fault_are_taken_or_refused(
        query in generate::query(),
        from in any::<prop::sample::Index>(),
        length in 0_usize..6,
        with in "[ .(){}|&!<>=~^*+\\-/%,\"`0-9a-z:]{0,3}",
    ) {
        let mut chars: Vec<char> = query.to_string().chars().collect();
        let from = from.index(chars.len());
        let to = chars.len().min(from + length);
        chars.splice(from..to, with.chars());
        same_again(&chars.into_iter().collect::<String>())?;
    }

    #[test]
    fn what_is_selected_is_necessary(query in generate::query(), trace in generate::trace()) {
        let needs = query.needs();
        let view = TraceView::new(&trace);
        let pipelines = match &query.body {
            Body::Search(pipeline) => vec![pipeline],
            Body::Metrics(metrics) => measures(metrics),
        };
        for pipeline in &pipelines {
            let spans = where_spans(pipeline, &view);
            if !spans.is_empty() {
                prop_assert!(needs.trace.holds(&view), "{} {:?}", query, needs.trace);
                let mut roots = (0..trace.spans.len())
                    .filter(|span| trace.spans[*span].parent_id.is_none());
                let is_so = needs.root == spanwise_traceql::Condition::Always
                    || roots.any(|root| needs.root.holds(&view, root));
                prop_assert!(is_so, "{} {:?}", query, needs.root);
            }
            for span in &spans {
                prop_assert!(needs.spans.holds(&view, *span as usize), "{} {:?}", query, needs.spans);
                let Some(above) = &needs.above else { continue };
                let relation =
                    if above.is_parent { Relation::Child } else { Relation::Descendant };
                let mut others = 0..trace.spans.len();
                let has = others.any(|other| {
                    related(&trace, relation, other, *span as usize)
                        && above.span.holds(&view, other)
                });
                prop_assert!(has, "{} {:?}", query, above);
            }
            if needs.exact && pipelines.len() == 1 {
                let all: Vec<u32> = (0..trace.spans.len() as u32)
                    .filter(|span| needs.spans.holds(&view, *span as usize))
                    .collect();
                prop_assert_eq!(all, spans, "{}", query);
            }
        }
    }

    #[test]
    fn structure_is_what_it_is_called(
        left in generate::condition(),
        right in generate::condition(),
        trace in generate::trace(),
        relation in prop::sample::select(vec![
            (Relation::Child, ">"),
            (Relation::Parent, "<"),
            (Relation::Descendant, ">>"),
            (Relation::Ancestor, "<<"),
            (Relation::Sibling, "~"),
        ]),
    ) {
        let view = TraceView::new(&trace);
        let spans = |spansets: String| {
            let query = parse(&spansets).expect("a query");
            let Body::Search(pipeline) = query.body else { unreachable!() };
            where_spans(&pipeline, &view)
        };
        let one = |condition| Stage::Spansets(Spansets::Where(condition)).to_string();
        let (left, right) = (one(left), one(right));
        let (of_left, of_right) = (spans(left.clone()), spans(right.clone()));
        let (relation, sign) = relation;
        let has = |span: u32, others: &[u32], relation| {
            others.iter().any(|other| related(&trace, relation, *other as usize, span as usize))
        };
        let (with, without): (Vec<u32>, Vec<u32>) =
            of_right.iter().partition(|span| has(**span, &of_left, relation));
        let mut both = with.clone();
        both.extend(of_left.iter().filter(|span| has(**span, &of_right, relation.inverse())));
        both.sort_unstable();
        both.dedup();
        prop_assert_eq!(spans(format!("{left} {sign} {right}")), with);
        prop_assert_eq!(spans(format!("{left} !{sign} {right}")), without);
        prop_assert_eq!(spans(format!("{left} &{sign} {right}")), both);
    }

    #[test]
    fn numbers_of_the_tree_nest(trace in generate::trace()) {
        let view = TraceView::new(&trace);
        let query = parse("{ } | select(nestedSetLeft)").expect("a query");
        let Body::Search(pipeline) = query.body else { unreachable!() };
        prop_assert_eq!(where_spans(&pipeline, &view).len(), trace.spans.len());
        let number = |span, intrinsic| {
            view.field(span, &spanwise_traceql::ast::Field::Intrinsic(intrinsic)).number().unwrap()
        };
        use spanwise_traceql::ast::Intrinsic::{NestedSetLeft, NestedSetRight};
        for one in 0..trace.spans.len() {
            for other in 0..trace.spans.len() {
                let inside = number(one, NestedSetLeft) > number(other, NestedSetLeft)
                    && number(one, NestedSetRight) < number(other, NestedSetRight);
                prop_assert_eq!(inside, is_below(&trace, one, other));
            }
        }
    }

    #[test]
    fn metrics_count_every_span_once(query in generate::query(), trace in generate::trace()) {
        let Body::Metrics(metrics) = &query.body else { return Ok(()) };
        let grid = Grid::range(0, 20_000, 5_000).expect("a range");
        let mut evaluation = Evaluation::new(metrics, grid, Limits::default());
        let view = TraceView::new(&trace);
        evaluation.observe(&view);
        let answer = evaluation.finish();
        for series in &answer.series {
            prop_assert_eq!(series.values.len(), grid.len());
            prop_assert!(!series.values.iter().all(|value| value.is_nan()));
        }
        if let spanwise_traceql::ast::Metrics::Measure(measure) = metrics
            && let spanwise_traceql::ast::Function::Count = measure.function
        {
            let counted: f64 = answer.series.iter().flat_map(|series| &series.values).sum();
            let spans = where_spans(&measure.spans, &view);
            let inside = spans
                .iter()
                .filter(|span| grid.place(trace.spans[**span as usize].start_unix_nanos).is_some());
            prop_assert_eq!(counted, inside.count() as f64);
        }
    }
}

fn measures(metrics: &spanwise_traceql::ast::Metrics) -> Vec<&Pipeline> {
    use spanwise_traceql::ast::Metrics;
    match metrics {
        Metrics::Measure(measure) => vec![&measure.spans],
        Metrics::Number(_) => Vec::new(),
        Metrics::Arithmetic { left, right, .. } => {
            let mut all = measures(left);
            all.extend(measures(right));
            all
        }
        Metrics::Then { metrics, .. } => measures(metrics),
    }
}

/// An accepted query is printed as text that parses to the same tree.
fn same_again(text: &str) -> Result<(), TestCaseError> {
    match parse(text) {
        Ok(query) => {
            let printed = query.to_string();
            let again = parse(&printed)
                .map_err(|error| TestCaseError::fail(format!("{text}: {printed}: {error}")))?;
            prop_assert_eq!(again, query, "{}", printed);
        }
        Err(error) => {
            prop_assert!(error.line >= 1 && error.column >= 1 && error.offset <= text.len());
            prop_assert!(!error.message.is_empty());
        }
    }
    Ok(())
}
