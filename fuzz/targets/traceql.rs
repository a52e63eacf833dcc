//! TraceQL. An accepted query is printed as text that parses to the same tree; its needs are
//! computed; and it is evaluated on a small trace.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanwise_traceql::ast::Body;
use spanwise_traceql::metrics::{Evaluation, Grid, Limits};
use spanwise_traceql::trace::{Trace, TraceView};
use spanwise_traceql::{parse, search};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(query) = parse(text) else { return };
    let printed = query.to_string();
    assert_eq!(parse(&printed).as_ref(), Ok(&query), "{printed}");
    let needs = query.needs();
    let trace = Trace { id: [1; 16], spans: spanwise_fuzz::traceql::spans() };
    let view = TraceView::new(&trace);
    match &query.body {
        Body::Search(pipeline) => {
            let found = search(pipeline, &view);
            assert!(found.is_empty() || needs.trace.holds(&view), "{printed}");
        }
        Body::Metrics(metrics) => {
            let grid = Grid::range(0, 10, 2).expect("a range");
            let mut evaluation = Evaluation::new(metrics, grid, Limits::default());
            evaluation.observe(&view);
            drop(evaluation.finish());
        }
    }
});
