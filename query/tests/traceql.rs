//! What TraceQL finds in a store is what the naive evaluator finds when it looks at every trace
//! in memory, made from the spans that were sent and not from what the store gives back.

#[path = "../../dialects/traceql/tests/generate.rs"]
#[expect(dead_code, reason = "queries are taken from it, and traces are made here")]
mod generate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;
use spanwise_assemble::{Window, WindowConfig};
use spanwise_model::{
    AttributeValue, Attributes, Capture, Event, Kind, Link, ResourceJson, Span, SpanBatchBuilder,
    SpanId, Status, TraceId,
};
use spanwise_query::Queries;
use spanwise_query::traceql::{Bounds, TraceqlMetrics, TraceqlSearch};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore};
use spanwise_store::{Appended, Store, TimeRange};
use spanwise_traceql::ast::{self, Body, Query};
use spanwise_traceql::metrics::{Evaluation, Grid, Limits, Series};
use spanwise_traceql::trace::{self, Trace, TraceView};
use spanwise_traceql::{Value, parse, search};

const TRACES: u64 = 60;
const SECOND_NANO: i64 = 1_000_000_000;
const BEGIN_NANO: i64 = 1_700_000_000 * SECOND_NANO;
const LAST_SECOND: i64 = 400;
const PLENTY: Bounds = Bounds { time: Duration::from_secs(600), traces: 10_000, spans: 1_000_000 };

/// Numbers that have nothing to do with one another.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn text(&mut self) -> &'static str {
        self.of(&["", "x", "y", "xy", "é\n\"\\\t\u{1}"])
    }

    fn value(&mut self) -> AttributeValue {
        match self.below(12) {
            0..4 => AttributeValue::Int(self.below(7) as i64 - 3),
            4 | 5 => AttributeValue::Double(self.of(&[0.0, -0.0, 1.5, -2.0, 3.0])),
            6 => AttributeValue::Bool(self.below(2) == 0),
            7 => AttributeValue::Bytes("AQI=".to_owned()),
            8 => AttributeValue::Json(
                self.of(&[
                    r#"[1,"x",true]"#,
                    r#"["y",-3,1.5]"#,
                    "[]",
                    r#"{"k":1}"#,
                    r#"[["x",2]]"#,
                ])
                .to_owned(),
            ),
            _ => self.text().into(),
        }
    }

    fn attributes(&mut self) -> Attributes {
        let names = ["a", "b", "http.status", "a b", "5xx", "q\"\\"];
        let mut all = Attributes::new();
        for _ in 0..self.below(3) {
            let name = self.of(&names).to_owned();
            if all.iter().all(|(known, _)| *known != name) {
                all.push((name, self.value()));
            }
        }
        all
    }
}

/// The spans of a trace, no two of which start at the same time.
fn spans(number: u64) -> Vec<Span> {
    let mut draw = Draw(number);
    let count = 1 + draw.below(11);
    let begin = draw.below(LAST_SECOND as u64 - 20) as i64;
    (0..count)
        .map(|n| {
            let id = |n| SpanId::from_u64(number * 100 + n + 1).expect("not zero");
            let start = BEGIN_NANO
                + begin * SECOND_NANO
                + (n * 1_000_003 + number * 17) as i64
                + draw.below(15) as i64 * SECOND_NANO;
            let kind = draw.of(&[Kind::Internal, Kind::Server, Kind::Client, Kind::Producer]);
            let duration = draw.below(5) as i64 * 1_000;
            let (service, name) = (draw.text(), draw.text());
            let mut span = Span::new(id(n), Capture::App, kind, service, name, start, duration);
            span.trace_id = Some(TraceId((u128::from(number) + 1).to_be_bytes()));
            span.parent_span_id = match draw.below(8) {
                0 => Some(id(90 + draw.below(2))),
                1 => None,
                _ if n == 0 => None,
                _ => Some(id(draw.below(n))),
            };
            span.status = draw.of(&[Status::Unset, Status::Ok, Status::Error]);
            span.error = (draw.below(3) == 0).then(|| "x".to_owned());
            span.attributes = draw.attributes();
            for (key, value) in draw.attributes() {
                span.attributes.push((format!("otel.scope.{key}"), value));
            }
            if draw.below(2) == 0 {
                span.attributes.push(("otel.scope.name".to_owned(), draw.of(&["x", "y"]).into()));
            }
            let resource = draw.attributes();
            span.resource =
                ResourceJson::from_attributes(resource.iter().map(|(key, value)| (&**key, value)));
            for _ in 0..draw.below(4).saturating_sub(2) {
                span.events.push(Event {
                    time_unix_nano: start + draw.below(9) as i64 * 1_000,
                    name: draw.text().to_owned(),
                    attributes: draw.attributes(),
                });
                span.links.push(Link {
                    trace_id: TraceId([1; 16]),
                    span_id: SpanId([2; 8]),
                    trace_state: None,
                    attributes: draw.attributes(),
                });
            }
            span
        })
        .collect()
}

fn value(value: &AttributeValue) -> trace::AttributeValue {
    use trace::AttributeValue as To;
    fn of_json(json: &serde_json::Value) -> To {
        match json {
            serde_json::Value::Null => To::Empty,
            serde_json::Value::Bool(flag) => To::Bool(*flag),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(number) => To::Int(number),
                None => To::Float(number.as_f64().expect("a number")),
            },
            serde_json::Value::String(text) => To::String(text.clone()),
            serde_json::Value::Array(all) => To::Array(all.iter().map(of_json).collect()),
            serde_json::Value::Object(_) => To::Map(Vec::new()),
        }
    }
    match value {
        AttributeValue::String(text) => To::String(text.clone()),
        AttributeValue::Int(number) => To::Int(*number),
        AttributeValue::Double(number) => To::Float(*number),
        AttributeValue::Bool(flag) => To::Bool(*flag),
        AttributeValue::Bytes(_) => To::Bytes(Vec::new()),
        AttributeValue::Json(text) => of_json(&serde_json::from_str(text).expect("JSON")),
    }
}

fn attributes(all: &Attributes) -> trace::Attributes {
    all.iter().map(|(key, one)| (key.clone(), value(one))).collect()
}

fn kind(kind: Kind) -> ast::Kind {
    match kind {
        Kind::Internal => ast::Kind::Internal,
        Kind::Server => ast::Kind::Server,
        Kind::Client => ast::Kind::Client,
        Kind::Producer => ast::Kind::Producer,
        Kind::Consumer => ast::Kind::Consumer,
    }
}

fn status(status: Status) -> ast::Status {
    match status {
        Status::Unset => ast::Status::Unset,
        Status::Ok => ast::Status::Ok,
        Status::Error => ast::Status::Error,
    }
}

/// The trace as TraceQL has it, in the order of its starts.
fn trace(number: u64) -> Trace {
    let mut sent = spans(number);
    sent.sort_by_key(|span| span.start_unix_nano);
    let id = sent[0].trace_id.expect("an id").0;
    let span = |span: Span| {
        let mut scope = trace::Instrumentation::default();
        let mut own = trace::Attributes::new();
        for (key, one) in &span.attributes {
            match (key.strip_prefix("otel.scope."), one) {
                (Some("name"), AttributeValue::String(name)) => scope.name.clone_from(name),
                (Some(key), one) => scope.attributes.push((key.to_owned(), value(one))),
                (None, one) => own.push((key.clone(), value(one))),
            }
        }
        let resource: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(span.resource.as_str()).expect("JSON");
        let resource = resource.into_iter().map(|(key, json)| {
            let text = json.as_str().map(str::to_owned);
            let typed = text.map_or_else(|| AttributeValue::Json(json.to_string()), Into::into);
            (key, value(&typed))
        });
        let service = trace::AttributeValue::String(span.service.clone());
        trace::Span {
            id: span.span_id.0,
            parent_id: span.parent_span_id.map(|parent| parent.0),
            name: span.operation,
            kind: kind(span.kind),
            status: status(span.status),
            status_message: span.error.unwrap_or_default(),
            start_unix_nanos: span.start_unix_nano as u64,
            duration_nanos: span.duration_nano as u64,
            attributes: own,
            events: (span.events.iter())
                .map(|event| trace::Event {
                    name: event.name.clone(),
                    unix_nanos: event.time_unix_nano as u64,
                    attributes: attributes(&event.attributes),
                })
                .collect(),
            links: (span.links.iter())
                .map(|link| trace::Link {
                    trace_id: link.trace_id.0,
                    span_id: link.span_id.0,
                    attributes: attributes(&link.attributes),
                })
                .collect(),
            resource: Arc::new(resource.chain([("service.name".to_owned(), service)]).collect()),
            instrumentation: Arc::new(scope),
        }
    };
    Trace { id, spans: sent.into_iter().map(span).collect() }
}

struct World {
    runtime: tokio::runtime::Runtime,
    traces: Vec<Trace>,
    queries: Queries,
    _directory: tempfile::TempDir,
}

/// Parts of the spans, of which the last is in memory and each other in a file of its own.
const PARTS: usize = 4;

async fn add(store: &EmbeddedStore, spans: &[Span]) {
    let mut builder = SpanBatchBuilder::sharing();
    spans.iter().for_each(|span| builder.push(span));
    let rows = builder.finish_rows().expect("rows");
    let appended = store.append(rows, None).await.expect("stored");
    let Appended::Stored { batch } = appended else { panic!("new") };
    let rows = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
    let mut window = Window::new(WindowConfig::default());
    window.push(batch, &rows.into(), 0).expect("spans");
    store.annotate(&window.flush(0)).await.expect("annotated");
}

/// The spans of these traces in parts. Half of the traces are in one part, and the others in
/// several: of them, assembly did not know all spans.
fn parts(traces: impl Iterator<Item = Vec<Span>>) -> Vec<Vec<Span>> {
    let mut parts: Vec<Vec<Span>> = vec![Vec::new(); PARTS];
    for (number, spans) in traces.enumerate() {
        let mut draw = Draw(number as u64 + 1_000);
        let (is_split, own) = (number % 2 == 1, number / 2 % PARTS);
        for span in spans {
            let other = (own + draw.below(2) as usize) % PARTS;
            parts[if is_split { other } else { own }].push(span);
        }
    }
    parts
}

/// A store of these spans.
fn world(parts: &[Vec<Span>]) -> World {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let directory = tempfile::tempdir().expect("a directory");
    let open = || EmbeddedStore::open(EmbeddedConfig::new(directory.path().join("data")));
    let store = runtime.block_on(async {
        let (last, files) = parts.split_last().expect("parts");
        for part in files {
            let store = open().await.expect("a store");
            add(&store, part).await;
            store.close().await.expect("closed");
        }
        let store = open().await.expect("a store");
        let status = store.status();
        let in_files: usize = files.iter().map(Vec::len).sum();
        assert_eq!((status.file_rows, status.recent_rows), (in_files as u64, 0), "{status:?}");
        add(&store, last).await;
        assert!(store.status().recent_rows > 0, "{:?}", store.status());
        store
    });
    World { runtime, traces: Vec::new(), queries: Queries::new(store), _directory: directory }
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let world = world(&parts((0..TRACES).map(spans)));
    World { traces: (0..TRACES).map(trace).collect(), ..world }
});

/// The same with spans that agents reported, spans that two sides reported under one id, spans with
/// the ids of others, and circles.
static MIXED: LazyLock<World> = LazyLock::new(|| {
    let mixed = |number| {
        let mut draw = Draw(number + 2_000);
        let mut spans = spans(number);
        for at in 0..spans.len() {
            let other = draw.below(spans.len() as u64) as usize;
            match draw.below(if number % 3 == 0 { 1_000 } else { 12 }) {
                0 => {
                    spans[at].capture = draw.of(&[Capture::ServerProcess, Capture::ClientProcess]);
                    spans[at].fragment_id = Some(number * 10 + draw.below(2));
                }
                1 => {
                    let mut half = spans[at].clone();
                    (spans[at].kind, half.kind) = (Kind::Client, Kind::Server);
                    (half.service, half.start_unix_nano) =
                        ("half".into(), half.start_unix_nano + 1);
                    spans.push(half);
                }
                2 => spans[at].span_id = spans[other].span_id,
                3 => spans[at].parent_span_id = Some(spans[other].span_id),
                4 => spans[at].parent_span_id = Some(spans[at].span_id),
                5 => spans[at].span_id = spans[other].span_id.receiving_half(),
                _ => {}
            }
        }
        spans
    };
    world(&parts((0..TRACES).map(mixed)))
});

/// A number as far as the order of a sum does not matter.
fn rounded(value: &Value<'_>) -> String {
    match value {
        Value::Float(number) => format!("{number:.9e}"),
        other => format!("{other:?}"),
    }
}

/// What of a set is told, whatever its order.
type Set = (Vec<[u8; 8]>, Vec<(String, String)>);

/// The sets of each trace that has a selected span in this time.
fn naive(query: &Query, time: TimeRange) -> BTreeMap<[u8; 16], Vec<Set>> {
    let Body::Search(pipeline) = &query.body else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    for trace in &WORLD.traces {
        let sets = search(pipeline, &TraceView::new(trace));
        let is_in_time = |span: &u32| {
            let start = trace.spans[*span as usize].start_unix_nanos as i64;
            (time.from_unix_nano..time.to_unix_nano).contains(&start)
        };
        if !sets.iter().flat_map(|set| &set.spans).any(is_in_time) {
            continue;
        }
        let set = |set: spanwise_traceql::Spanset| {
            let mut ids: Vec<_> = set.spans.iter().map(|n| trace.spans[*n as usize].id).collect();
            ids.sort_unstable();
            let told = set.attributes.iter();
            (ids, told.map(|(name, value)| (name.to_string(), rounded(value))).collect())
        };
        let mut sets: Vec<Set> = sets.into_iter().map(set).collect();
        sets.sort();
        found.insert(trace.id, sets);
    }
    found
}

fn found(query: &Query, time: TimeRange, limit: usize) -> BTreeMap<[u8; 16], Vec<Set>> {
    found_in(&WORLD, query, time, limit)
}

fn found_in(
    world: &World,
    query: &Query,
    time: TimeRange,
    limit: usize,
) -> BTreeMap<[u8; 16], Vec<Set>> {
    let asked = TraceqlSearch {
        query: Arc::new(query.clone()),
        time,
        min_duration_nano: None,
        max_duration_nano: None,
        limit,
        spans_per_set: usize::MAX,
        bounds: PLENTY,
    };
    let mut told = 0;
    let found = world.queries.traceql_search(&asked, |traces| told += traces.len());
    let answer = world.runtime.block_on(found).expect("an answer");
    assert_eq!(answer.stopped, None);
    assert!(told >= answer.traces.len());
    let starts: Vec<u64> = answer.traces.iter().map(|trace| trace.start_unix_nanos).collect();
    assert!(starts.is_sorted_by(|one, other| one >= other), "the newest first");
    let mut all = BTreeMap::new();
    for trace in answer.traces {
        let set = |set: spanwise_query::traceql::FoundSet| {
            let mut ids: Vec<_> = set.spans.iter().map(|span| span.id).collect();
            ids.sort_unstable();
            assert_eq!(ids.len(), set.matched);
            let told = set.attributes.iter();
            (ids, told.map(|(name, value)| (name.to_string(), rounded(value))).collect())
        };
        let mut sets: Vec<Set> = trace.sets.into_iter().map(set).collect();
        sets.sort();
        assert!(all.insert(trace.id.0, sets).is_none(), "each trace comes once");
    }
    all
}

/// Labels and values of series, as far as the order of sums does not matter.
fn told(series: Vec<Series>) -> Told {
    let mut all: Vec<_> = (series.into_iter())
        .map(|series| {
            let label = |(name, value): &(String, Value<'static>)| (name.clone(), rounded(value));
            let labels = series.labels.iter().map(label).collect();
            (labels, series.values.iter().map(|value| format!("{value:.9e}")).collect())
        })
        .collect();
    all.sort();
    all
}

fn time() -> impl Strategy<Value = TimeRange> {
    (0..LAST_SECOND, 0..LAST_SECOND, any::<bool>()).prop_map(|(one, other, all)| {
        if all {
            return TimeRange::ALL;
        }
        let nano = |second: i64| BEGIN_NANO + second * SECOND_NANO;
        TimeRange { from_unix_nano: nano(one.min(other)), to_unix_nano: nano(one.max(other) + 1) }
    })
}

/// A test that the store can look for above other spans, and the same as it cannot.
fn test_above() -> impl Strategy<Value = (String, String)> {
    let field = prop::sample::select(&["resource.service.name", "name"][..]);
    let text = prop::sample::select(&["x", "y", "xy", "half", "none"][..]);
    (field, text, 0..3).prop_map(|(field, text, test)| match test {
        0 => ("status = error".to_owned(), "!(status != error)".to_owned()),
        1 => (format!("{field} = `{text}`"), format!("!({field} != `{text}`)")),
        _ => (
            format!("{field} = `{text}` && status != error"),
            format!("!({field} != `{text}` || status = error)"),
        ),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn spans_below_others_are_those_that_are_found_without_the_store(
        (above, unknown) in test_above(),
        below in prop_oneof![Just(String::new()), test_above().prop_map(|(test, _)| test)],
        operator in prop::sample::select(&[">", ">>"][..]),
        time in time(),
    ) {
        let ask = |above: &str| parse(&format!("{{ {above} }} {operator} {{ {below} }}"));
        let (query, other) = (ask(&above).expect("a query"), ask(&unknown).expect("a query"));
        prop_assert_eq!(found(&query, time, 1_000), naive(&query, time), "{}", query);
        let of_mixed = |query| found_in(&MIXED, query, time, 1_000);
        prop_assert_eq!(of_mixed(&query), of_mixed(&other), "{}", query);
    }

    #[test]
    fn a_search_finds_what_the_naive_evaluator_finds(
        query in generate::pipeline(),
        time in time(),
        limit in 1..5_usize,
    ) {
        let query = Query { body: Body::Search(query), hints: Vec::new() };
        let all = naive(&query, time);
        prop_assert_eq!(&found(&query, time, 1_000), &all, "{}", query);
        let some = found(&query, time, limit);
        prop_assert_eq!(some.len(), all.len().min(limit));
        prop_assert!(some.iter().all(|(id, sets)| all.get(id) == Some(sets)), "{}", query);
    }

    #[test]
    fn metrics_are_those_of_the_naive_evaluator(
        query in generate::query(),
        time in time(),
        instant in any::<bool>(),
    ) {
        let Body::Metrics(_) = &query.body else { return Ok(()) };
        let (answered, naive) = both(&query, time, instant);
        prop_assert_eq!(answered, naive, "{}", query);
    }
}

/// Labels and values of series.
type Told = Vec<(Vec<(String, String)>, Vec<String>)>;

/// The series that a query gives, and those of the naive evaluator.
fn both(query: &Query, time: TimeRange, instant: bool) -> (Told, Told) {
    let Body::Metrics(metrics) = &query.body else { panic!("metrics") };
    let first = time.from_unix_nano.max(BEGIN_NANO) as u64;
    let last = time.to_unix_nano.min(BEGIN_NANO + LAST_SECOND * SECOND_NANO) as u64;
    let grid = match instant {
        true => Grid::instant(first, last),
        false => Grid::range(first, last, 20 * SECOND_NANO as u64),
    };
    let grid = grid.expect("a range");
    let limits = Limits { exemplars: 0, ..Limits::default() };
    let mut evaluation = Evaluation::new(metrics, grid, limits);
    for trace in &WORLD.traces {
        evaluation.observe(&TraceView::new(trace));
    }
    let asked = TraceqlMetrics { query: Arc::new(query.clone()), grid, limits, bounds: PLENTY };
    let answer = WORLD.runtime.block_on(WORLD.queries.traceql_metrics(&asked));
    let answer = answer.expect("an answer");
    assert_eq!(answer.incomplete, Vec::<String>::new());
    (told(answer.series), told(evaluation.finish().series))
}

/// Metrics as people write them, of which each way is taken: counted by the store, by words and by
/// a statement, from rows, and from traces.
#[test]
fn written_metrics() {
    let mut given = 0;
    for text in [
        "{} | rate()",
        "{} | rate() by (resource.service.name)",
        "{ kind = server && name =~ `x.*` } | count_over_time() by (status, name)",
        "{ status != error || resource.service.name = `y` } | rate() by (kind)",
        "({ status = error } | rate()) / ({} | rate())",
        "{ nestedSetParent < 0 } | rate() by (name)",
        "{ duration > 1us && status = error } | count_over_time()",
        "{ resource.service.name = `x` } | avg_over_time(duration) by (name)",
        "{} | min_over_time(duration) by (kind)",
        "{} | max_over_time(duration)",
        "{} | sum_over_time(duration) | topk(2)",
        "{} | quantile_over_time(duration, .5, .9) by (resource.service.name)",
        "{ .a != nil } | count_over_time() by (.a)",
        "{ rootName = `x` } | rate() by (rootServiceName)",
        "{ status = error } >> { duration > 0ns } | histogram_over_time(duration)",
        "{} | compare({ status = error }, 1000)",
    ] {
        let query = parse(text).expect("a query");
        let last = BEGIN_NANO + 333 * SECOND_NANO + 1;
        let part = TimeRange { from_unix_nano: BEGIN_NANO + 7, to_unix_nano: last };
        for (time, instant) in
            [(TimeRange::ALL, false), (TimeRange::ALL, true), (part, false), (part, true)]
        {
            let (answered, naive) = both(&query, time, instant);
            given += usize::from(!naive.is_empty());
            assert_eq!(answered, naive, "{text} {instant}");
        }
    }
    assert!(given > 60, "{given} of them give something");
}

/// Queries as people write them, of which each way is taken: by service, name, duration, status,
/// kind, attributes of every scope, lists, roots, structure.
#[test]
fn written_queries() {
    let mut selected = 0;
    for text in [
        "{}",
        r#"{ resource.service.name = "x" && duration > 1us }"#,
        r#"{ resource.service.name =~ "x|y" && status = error }"#,
        r#"{ .service.name = "xy" }"#,
        r#"{ name = "xy" } >> { status != ok }"#,
        "{ .a = 1 }",
        "{ .a > -2 && .b != nil }",
        r#"{ span.a = "x" || event.b = "y" }"#,
        "{ link.a = 1.5 } || { instrumentation.b = true }",
        r#"{ instrumentation:name = "x" && event:name = "y" }"#,
        "{ nestedSetParent < 0 } | select(nestedSetLeft)",
        "{ nestedSetParent < 0 && kind = server } &>> { status = error }",
        r#"{ rootServiceName = "x" } | by(resource.service.name) | count() > 1"#,
        r#"{ trace:id = "3" }"#,
        "{ parent.a = 1 }",
        "{ traceDuration > 5s } | avg(duration) > 1us",
    ] {
        let query = parse(text).expect("a query");
        let all = naive(&query, TimeRange::ALL);
        selected += usize::from(!all.is_empty());
        assert_eq!(found(&query, TimeRange::ALL, 1_000), all, "{text}");
    }
    assert!(selected > 12, "{selected} of them select something");
}

#[test]
fn traces_are_not_put_together_if_nothing_in_them_fits() {
    let asked = TraceqlSearch {
        query: Arc::new(parse("{ name = `none` } >> {}").expect("a query")),
        time: TimeRange::ALL,
        min_duration_nano: None,
        max_duration_nano: None,
        limit: 20,
        spans_per_set: 3,
        bounds: PLENTY,
    };
    let answer = WORLD.runtime.block_on(WORLD.queries.traceql_search(&asked, |_| {}));
    let parts = parts((0..TRACES).map(spans));
    let in_memory: BTreeSet<TraceId> =
        parts[PARTS - 1].iter().filter_map(|span| span.trace_id).collect();
    assert!(in_memory.len() < TRACES as usize / 2, "{in_memory:?}");
    assert_eq!(answer.expect("an answer").examined_traces, in_memory.len());
}

#[test]
fn what_reaches_a_bound_says_so() {
    let bounds = Bounds { traces: 10, ..PLENTY };
    let asked = TraceqlSearch {
        query: Arc::new(parse("{ traceDuration > 1000h }").expect("a query")),
        time: TimeRange::ALL,
        min_duration_nano: None,
        max_duration_nano: None,
        limit: 20,
        spans_per_set: 3,
        bounds,
    };
    let answer = WORLD.runtime.block_on(WORLD.queries.traceql_search(&asked, |_| {}));
    let answer = answer.expect("an answer");
    assert!(answer.examined_traces >= 10 && answer.examined_traces < TRACES as usize);
    let stopped = answer.stopped.expect("it stopped");
    let said = format!("{} traces were looked at", answer.examined_traces);
    assert!(stopped.contains(&said) && stopped.contains("2023-11-14T"), "{stopped}");
}
