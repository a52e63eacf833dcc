//! Results of queries on small traces.

use std::sync::Arc;

use spanwise_traceql::ast::{Body, Kind, Status};
use spanwise_traceql::trace::{
    AttributeValue, Event, Instrumentation, Link, Span, Trace, TraceView,
};
use spanwise_traceql::{Spanset, Value, parse, search};

pub(crate) fn span(id: u8, parent: u8, service: &str, name: &str) -> Span {
    Span {
        id: [0, 0, 0, 0, 0, 0, 0, id],
        parent_id: (parent > 0).then_some([0, 0, 0, 0, 0, 0, 0, parent]),
        name: name.to_owned(),
        kind: Kind::Internal,
        status: Status::Unset,
        status_message: String::new(),
        start_unix_nanos: u64::from(id) * 1_000_000_000,
        duration_nanos: 100_000_000,
        attributes: Vec::new(),
        events: Vec::new(),
        links: Vec::new(),
        resource: Arc::new(vec![(
            "service.name".to_owned(),
            AttributeValue::String(service.to_owned()),
        )]),
        instrumentation: Arc::new(Instrumentation::default()),
    }
}

/// 1 is the root; 2 and 3 are its children; 4 and 5 are below 2; 6 is below 5; 7 has a missing
/// parent, and 8 is below 7.
pub(crate) fn shop() -> Trace {
    let text = |text: &str| AttributeValue::String(text.to_owned());
    let mut spans = vec![
        span(1, 0, "frontend", "GET /cart"),
        span(2, 1, "cart", "load"),
        span(3, 1, "frontend", "render"),
        span(4, 2, "db", "SELECT"),
        span(5, 2, "db", "SELECT"),
        span(6, 5, "db", "lock"),
        span(7, 99, "worker", "job"),
        span(8, 7, "db", "INSERT"),
    ];
    let mut with = |index: usize, name: &str, value: AttributeValue| {
        spans[index].attributes.push((name.to_owned(), value));
    };
    with(0, "http.status", AttributeValue::Int(200));
    with(1, "http.status", text("200"));
    with(2, "ratio", AttributeValue::Float(0.5));
    with(3, "tags", AttributeValue::Array(vec![text("a"), text("b")]));
    with(4, "retry", AttributeValue::Bool(true));
    with(5, "rows", AttributeValue::Int(0));
    with(6, "service.name", text("span's own"));
    with(7, "rows", AttributeValue::Int(3));
    spans[0].kind = Kind::Server;
    spans[5].status = Status::Error;
    spans[5].status_message = "deadlock".to_owned();
    spans[5].duration_nanos = 2_000_000_000;
    spans[4].events = ["exception", "log"]
        .into_iter()
        .zip([5_000_000_000_u64, 5_050_000_000])
        .map(|(name, unix_nanos)| Event {
            name: name.to_owned(),
            unix_nanos,
            attributes: vec![("of".to_owned(), text(name))],
        })
        .collect();
    spans[3].links = vec![Link {
        trace_id: [0xab; 16],
        span_id: [0, 0, 0, 0, 0, 0, 0, 9],
        attributes: vec![("why".to_owned(), text("batch"))],
    }];
    spans[2].instrumentation = Arc::new(Instrumentation {
        name: "lib".to_owned(),
        version: "1.2".to_owned(),
        attributes: vec![("language".to_owned(), text("rust"))],
    });
    let mut id = [0; 16];
    id[15] = 0x1f;
    Trace { id, spans }
}

pub(crate) fn found(query: &str, trace: &Trace) -> Vec<Spanset> {
    let query = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let Body::Search(pipeline) = &query.body else { panic!("a search") };
    search(pipeline, &TraceView::new(trace))
}

/// The spans that a query finds, numbered from 1.
fn spans(query: &str) -> Vec<Vec<u32>> {
    let sets = found(query, &shop());
    sets.into_iter().map(|set| set.spans.iter().map(|span| span + 1).collect()).collect()
}

#[test]
fn conditions() {
    let all = [1, 2, 3, 4, 5, 6, 7, 8].as_slice();
    for (query, expected) in [
        ("{}", all),
        ("{ false }", &[]),
        (r#"{ resource.service.name = "db" }"#, &[4, 5, 6, 8]),
        // Without a scope, span attributes take precedence over resource attributes.
        (r#"{ .service.name = "span's own" }"#, &[7]),
        (r#"{ resource.service.name = "worker" }"#, &[7]),
        (r#"{ name = "SELECT" }"#, &[4, 5]),
        ("{ name =~ `S.*T` }", &[4, 5]),
        ("{ name =~ `SEL` }", &[]),
        ("{ name !~ `.*[A-Z].*` }", &[2, 3, 6, 7]),
        // Types.
        ("{ .http.status = 200 }", &[1]),
        (r#"{ .http.status >= "200" }"#, &[2]),
        ("{ .http.status != 500 }", &[1]),
        (r#"{ .http.status != "x" }"#, &[2]),
        ("{ .ratio = 1 / 2.0 }", &[3]),
        ("{ .ratio < 1 }", &[3]),
        ("{ .retry }", &[5]),
        ("{ !.retry }", &[]),
        ("{ .retry = true || .http.status = 200 }", &[1, 5]),
        // Every comparison with a missing value is false, and `!` of it is true.
        ("{ .rows != 0 }", &[8]),
        ("{ !(.rows = 0) }", &[1, 2, 3, 4, 5, 7, 8]),
        ("{ .rows = nil }", &[1, 2, 3, 4, 5, 7]),
        ("{ .rows != nil }", &[6, 8]),
        ("{ .missing || .retry }", &[5]),
        // Arithmetic: integer division truncates; division by 0 has no result.
        ("{ .rows / 2 = 1 }", &[8]),
        ("{ 6 / .rows = 2 }", &[8]),
        ("{ .rows ^ 2 = 9 && 2 ^ .rows = 8 }", &[8]),
        ("{ -.rows = -3 }", &[8]),
        ("{ .rows % 2 = 1 }", &[8]),
        // Durations are nanoseconds.
        ("{ duration > 1s }", &[6]),
        ("{ duration = 100000000 && .ratio > 0 }", &[3]),
        ("{ duration > 1.5s + 0.4s }", &[6]),
        // Enumerations.
        ("{ status = error }", &[6]),
        ("{ kind != internal }", &[1]),
        (r#"{ statusMessage = "deadlock" }"#, &[6]),
        // Arrays: one element matches, or none.
        (r#"{ .tags = "b" }"#, &[4]),
        (r#"{ .tags != "b" }"#, &[]),
        (r#"{ .tags != "c" }"#, &[4]),
        ("{ .tags =~ `[bc]` }", &[4]),
        ("{ .tags !~ `[bc]` }", &[]),
        // Events, links, instrumentation.
        (r#"{ event:name = "log" }"#, &[5]),
        (r#"{ event:name != "log" }"#, &[]),
        (r#"{ event.of = "exception" && .of = "log" }"#, &[5]),
        ("{ event:timeSinceStart > 10ms }", &[5]),
        (r#"{ link:spanID = "9" && link.why = "batch" }"#, &[4]),
        (r#"{ link:traceID = "ABABABABABABABABABABABABABABABAB" }"#, &[4]),
        (r#"{ instrumentation:name = "lib" && instrumentation:version = "1.2" }"#, &[3]),
        (r#"{ instrumentation.language = "rust" }"#, &[3]),
        // The trace, and the span's position in it.
        (r#"{ trace:id = "1f" && span:id = "2" }"#, &[2]),
        (r#"{ span:parentID = "1" }"#, &[2, 3]),
        ("{ trace:duration = 7.1s }", all),
        (r#"{ trace:rootName != "GET /cart" || trace:rootService != "frontend" }"#, &[]),
        ("{ span:childCount = 2 }", &[1, 2]),
        ("{ nestedSetParent < 0 }", &[1]),
        ("{ nestedSetParent = 0 }", &[7]),
        ("{ nestedSetLeft = 1 || nestedSetRight = 12 }", &[1]),
        ("{ parent.http.status = 200 }", &[2, 3]),
        (r#"{ parent.resource.service.name = "cart" }"#, &[4, 5]),
    ] {
        let expected: Vec<Vec<u32>> =
            if expected.is_empty() { Vec::new() } else { vec![expected.to_vec()] };
        assert_eq!(spans(query), expected, "{query}");
    }
}

#[test]
fn structure() {
    let db = r#"{ resource.service.name = "db" }"#;
    let cart = r#"{ resource.service.name = "cart" }"#;
    let front = r#"{ resource.service.name = "frontend" }"#;
    for (query, expected) in [
        (format!("{cart} > {db}"), vec![4, 5]),
        (format!("{cart} >> {db}"), vec![4, 5, 6]),
        (format!("{db} < {cart}"), vec![2]),
        (format!("{db} << {front}"), vec![1]),
        (format!("{db} ~ {db}"), vec![4, 5]),
        (format!("{cart} ~ {front}"), vec![3]),
        (format!("{cart} !> {db}"), vec![6, 8]),
        (format!("{cart} !>> {db}"), vec![8]),
        (format!("{{ }} !< {db}"), vec![4, 6, 8]),
        (format!("{db} !<< {{ }}"), vec![3, 4, 6, 8]),
        (format!("{db} !~ {db}"), vec![6, 8]),
        (format!("{cart} &> {db}"), vec![2, 4, 5]),
        (format!("{front} &>> {{ status = error }}"), vec![1, 6]),
        (format!("{{ status = error }} &<< {front}"), vec![1, 6]),
        (format!("{db} &~ {db}"), vec![4, 5]),
        // With nothing on the left, every span on the right is without a partner.
        (format!("{{ false }} !> {cart}"), vec![2]),
        (format!("{cart} && {{ status = error }}"), vec![2, 6]),
        (format!("{cart} || {{ .none = 1 }}"), vec![2]),
        // Spans below a missing root form a tree.
        ("{ name = \"job\" } > { }".to_owned(), vec![8]),
    ] {
        assert_eq!(spans(&query), vec![expected], "{query}");
    }
    for query in [format!("{cart} && {{ .none = 1 }}"), format!("{db} > {front}")] {
        assert!(spans(&query).is_empty(), "{query}");
    }
}

#[test]
fn pipelines() {
    for (query, expected) in [
        ("{ name = \"SELECT\" } | count() = 2", vec![vec![4, 5]]),
        ("{ name = \"SELECT\" } | count() > 2", vec![]),
        // There are no empty sets.
        ("{ .none = 1 } | count() = 0", vec![]),
        ("max(duration) > 1s | { status = error }", vec![vec![6]]),
        ("{ } | max(duration) - min(duration) = 1.9s", vec![vec![1, 2, 3, 4, 5, 6, 7, 8]]),
        ("{ .rows != nil } | sum(.rows) = 3 | avg(.rows) = 1.5", vec![vec![6, 8]]),
        // An aggregate of nothing compares as false.
        ("{ } | sum(.none) = 0", vec![]),
        ("{ } | by(resource.service.name) | count() >= 2", vec![vec![1, 3], vec![4, 5, 6, 8]]),
        (
            "{ } | by(resource.service.name) | count() >= 2 | coalesce()",
            vec![vec![1, 3, 4, 5, 6, 8]],
        ),
        ("{ } | by(.rows) | { status = error }", vec![vec![6]]),
        ("({ status = error } | count() = 1) && { .retry } | select(duration)", vec![vec![5, 6]]),
        ("({ status = error } | count() = 2) || { .retry }", vec![vec![5]]),
    ] {
        assert_eq!(spans(query), expected, "{query}");
    }
}

#[test]
fn sets_say_what_they_were_found_by() {
    let sets = found("{ } | by(resource.service.name) | max(duration) > 1s", &shop());
    let text = |text: &'static str| Value::String(text.into());
    assert_eq!(sets.len(), 1);
    assert_eq!(
        sets[0].attributes,
        [
            ("by(resource.service.name)".into(), text("db")),
            ("max(duration)".into(), Value::Duration(2_000_000_000)),
        ]
    );
}

#[test]
fn two_sides_with_one_id_and_circles() {
    let mut client = span(2, 1, "a", "call");
    client.kind = Kind::Client;
    let mut server = span(2, 1, "b", "serve");
    server.kind = Kind::Server;
    let spans = vec![
        span(1, 0, "a", "root"),
        client,
        server,
        span(3, 2, "b", "query"),
        span(5, 6, "x", "circle"),
        span(6, 5, "x", "circle"),
        span(7, 6, "x", "below"),
    ];
    let trace = Trace { id: [1; 16], spans };
    let names = |query: &str| -> Vec<u32> {
        found(query, &trace).into_iter().flat_map(|set| set.spans).collect()
    };
    assert_eq!(names("{ name = \"serve\" } > { }"), [3]);
    assert_eq!(names("{ name = \"call\" } > { }"), [0; 0]);
    assert_eq!(names("{ name = \"circle\" } >> { }"), [6]);
    assert_eq!(names("{ name = \"circle\" } > { name = \"circle\" }"), [0; 0]);
}

#[test]
fn nothing_is_quadratic() {
    // A chain, and as many siblings. Comparing all pairs would take too long.
    let count = 50_000_u32;
    let id = |number: u32| {
        let mut id = [0; 8];
        id[..4].copy_from_slice(&number.to_be_bytes());
        id
    };
    let spans = (0..count)
        .map(|number| {
            let mut span = span(1, 0, "a", "x");
            span.id = id(number + 1);
            let parent = if number < count / 2 { number } else { 1 };
            span.parent_id = (number > 0).then(|| id(parent));
            span.attributes = vec![("n".to_owned(), AttributeValue::Int(i64::from(number)))];
            span
        })
        .collect();
    let trace = Trace { id: [1; 16], spans };
    for operator in [">", "<", ">>", "<<", "~", "!>>", "!<<", "&>>", "&~"] {
        assert_eq!(found(&format!("{{ }} {operator} {{ }}"), &trace).len(), 1, "{operator}");
        found(&format!("{{ }} | by(.n) | {{ }} {operator} {{ }}"), &trace);
    }
}
