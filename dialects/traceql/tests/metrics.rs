//! Series of traces that are small enough to count by hand.

use spanwise_traceql::ast::Body;
use spanwise_traceql::metrics::{Answer, Evaluation, Grid, Limits};
use spanwise_traceql::parse;
use spanwise_traceql::trace::TraceView;

use crate::meaning::shop;

const SECOND: u64 = 1_000_000_000;

fn answer(query: &str, grid: Grid, limits: Limits) -> Answer {
    let query = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let Body::Metrics(metrics) = &query.body else { panic!("metrics") };
    let mut evaluation = Evaluation::new(metrics, grid, limits);
    evaluation.observe(&TraceView::new(&shop()));
    evaluation.finish()
}

/// Labels and values of each series. Spans 1 to 8 start at seconds 1 to 8.
fn series(query: &str) -> Vec<(String, String)> {
    let grid = Grid::range(0, 8 * SECOND, 4 * SECOND).expect("a range");
    answer(query, grid, Limits::default())
        .series
        .iter()
        .map(|series| {
            let values: Vec<String> = series
                .values
                .iter()
                .map(|value| format!("{}", (value * 1e6).round() / 1e6))
                .collect();
            (series.label_text(), values.join(" "))
        })
        .collect()
}

#[test]
fn functions() {
    let service = "resource.service.name";
    for (query, expected) in [
        ("{} | rate()", vec![("__name__=rate", "1 1")]),
        ("{} | count_over_time()", vec![("__name__=count_over_time", "4 4")]),
        ("{ .none = 1 } | count_over_time()", vec![]),
        (
            "{} | count_over_time() by (resource.service.name)",
            vec![
                ("resource.service.name=cart", "1 0"),
                ("resource.service.name=db", "1 3"),
                ("resource.service.name=frontend", "2 0"),
                ("resource.service.name=worker", "0 1"),
            ],
        ),
        // Missing values are left out. If all are missing, the first label is nil.
        (
            "{ status = error || .retry } | count_over_time() by (.retry, .rows)",
            vec![(".retry=true", "0 1"), (".rows=0", "0 1")],
        ),
        ("{ .tags != nil } | count_over_time() by (.x, .y)", vec![(".x=nil", "1 0")]),
        ("{} | max_over_time(duration)", vec![("__name__=max_over_time", "0.1 2")]),
        ("{} | min_over_time(.rows)", vec![("__name__=min_over_time", "NaN 0")]),
        ("{} | sum_over_time(duration)", vec![("__name__=sum_over_time", "0.4 2.3")]),
        ("{} | avg_over_time(.rows)", vec![("__name__=avg_over_time", "NaN 1.5")]),
        ("{} | sum_over_time(event:timeSinceStart)", vec![("__name__=sum_over_time", "NaN 0.05")]),
        // 0.1 s is in the bucket up to 2^27 ns.
        (
            "{} | histogram_over_time(duration)",
            vec![("__bucket=0.134217728", "4 3"), ("__bucket=2.147483648", "0 1")],
        ),
        (
            "{} | quantile_over_time(duration, 1, 0)",
            vec![("p=0", "0.079806 0.084552"), ("p=1", "0.134218 2.147484")],
        ),
        // Second stages.
        (
            "{} | count_over_time() by (resource.service.name) | topk(1)",
            vec![
                ("resource.service.name=db", "NaN 3"),
                ("resource.service.name=frontend", "2 NaN"),
            ],
        ),
        (
            "{} | count_over_time() by (resource.service.name) | bottomk(1)",
            vec![
                ("resource.service.name=cart", "NaN 0"),
                ("resource.service.name=worker", "0 NaN"),
            ],
        ),
        (
            "{} | count_over_time() by (resource.service.name) > 0 | bottomk(1)",
            vec![
                ("resource.service.name=cart", "1 NaN"),
                ("resource.service.name=worker", "NaN 1"),
            ],
        ),
        ("{} | max_over_time(duration) > 1s", vec![("__name__=max_over_time", "NaN 2")]),
        ("{} | rate() > 1", vec![]),
        // Arithmetic.
        (
            "({ status = error } | count_over_time()) / ({} | count_over_time())",
            vec![("__name__=(count_over_time / count_over_time)", "0 0.25")],
        ),
        (
            "100 * ({} | count_over_time() by (resource.service.name)) / ({} | count_over_time())",
            vec![
                ("resource.service.name=cart", "25 0"),
                ("resource.service.name=db", "25 75"),
                ("resource.service.name=frontend", "50 0"),
                ("resource.service.name=worker", "0 25"),
            ],
        ),
        (
            "({} | count_over_time() by (name)) / ({ status = error } | count_over_time() by (name))",
            vec![("name=lock", "NaN 1")],
        ),
        ("({} | rate()) - 3", vec![("__name__=rate", "-2 -2")]),
    ] {
        let expected: Vec<(String, String)> =
            expected.into_iter().map(|(one, two)| (one.to_owned(), two.to_owned())).collect();
        assert_eq!(series(query), expected, "{query}");
    }
    assert_eq!(series(&format!("{{}} | rate() by ({service}) | topk(100)")).len(), 4);
}

#[test]
fn compared() {
    let told = series("{ name = \"SELECT\" || status = error } | compare({ status = error }, 1)");
    let has = |labels: &str, values: &str| {
        assert!(told.contains(&(labels.to_owned(), values.to_owned())), "{labels}: {told:#?}");
    };
    has("__meta_type=selection,name=lock", "0 1");
    has("__meta_type=baseline,name=SELECT", "1 1");
    has("__meta_type=baseline_total,name=nil", "1 1");
    has("__meta_type=selection,status=error", "0 1");
    has("__meta_type=selection,span.rows=0", "0 1");
    // Two event names, of which one is reported.
    has("__meta_error=__too_many_values__,event:name=nil", "0 0");
    assert!(
        !told.iter().any(|(labels, _)| labels.contains("duration") || labels.contains("span:id"))
    );
    let window = "{ } | compare({ }, 10, 2000000000, 3000000000)";
    assert!(
        series(window)
            .contains(&("__meta_type=selection,name=render".to_owned(), "1 0".to_owned()))
    );
    assert!(
        series(window).contains(&("__meta_type=baseline,name=load".to_owned(), "1 0".to_owned()))
    );
}

#[test]
fn exemplars() {
    let grid = Grid::range(0, 8 * SECOND, 4 * SECOND).expect("a range");
    let exemplars = |query: &str, grid, count| -> Vec<(u8, f64)> {
        answer(query, grid, Limits { series: 10, exemplars: count })
            .series
            .iter()
            .flat_map(|series| &series.exemplars)
            .map(|exemplar| (exemplar.span_id[7], exemplar.value))
            .collect()
    };
    // Two for each point. If spans are only counted, the value is the point's.
    assert_eq!(exemplars("{} | rate()", grid, 100), [(1, 1.0), (2, 1.0), (5, 1.0), (6, 1.0)]);
    assert_eq!(exemplars("{} | max_over_time(duration)", grid, 2), [(1, 0.1), (5, 0.1)]);
    assert_eq!(exemplars("{} | rate()", grid, 1), [(1, 1.0)]);
    assert!(exemplars("{} | rate()", grid, 0).is_empty());
    let instant = Grid::instant(0, 8 * SECOND).expect("a range");
    assert!(exemplars("{} | rate()", instant, 100).is_empty());
    // In the series of their buckets.
    let histogram = answer("{} | histogram_over_time(duration)", grid, Limits::default());
    assert_eq!(histogram.series[1].exemplars.len(), 1);
    assert_eq!(histogram.series[1].exemplars[0].span_id[7], 6);
}

#[test]
fn instant_and_bounds() {
    let instant = Grid::instant(SECOND, 8 * SECOND).expect("a range");
    let rate = answer("{} | rate()", instant, Limits::default());
    assert_eq!(rate.series[0].values, [8.0 / 7.0]);
    let query = "{} | rate() by (name)";
    let few = answer(query, instant, Limits { series: 3, exemplars: 0 });
    assert!(few.truncated);
    assert_eq!(few.series.len(), 3);
    assert!(!answer(query, instant, Limits::default()).truncated);
}
