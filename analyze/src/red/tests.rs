use std::collections::BTreeMap;

use proptest::prelude::*;
use spanwise_model::{
    Capture, Evidence, RowRef, Span, SpanBatchBuilder, SpanId, Status, TraceId, protocol,
};

use super::*;
use crate::{Call, Graph, Names};

const SECOND: u64 = 1_000_000_000;

fn now(seconds: u64) -> Now {
    Now { nano: seconds * SECOND, unix_nano: (1_000 + seconds as i64) * SECOND as i64 }
}

fn id(number: u64) -> SpanId {
    SpanId::from_u64(number).expect("not zero")
}

fn span(number: u64, service: &str, kind: Kind, capture: Capture, ms: i64) -> Span {
    let mut span = Span::new(id(number), capture, kind, service, "op", 1_000, ms * 1_000_000);
    span.protocol = Some(protocol::HTTP.into());
    span
}

fn batch(spans: &[Span]) -> RecordBatch {
    spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch")
}

fn found(row: (u64, u32), trace: u8, parent: Option<u64>) -> Assembled {
    Assembled {
        row: RowRef { batch: row.0, row: row.1 },
        trace_id: TraceId([trace; 16]),
        parent: parent.map(id),
        evidence: parent.map(|_| Evidence::SpanContext),
        confidence: parent.map(|_| 1.0),
    }
}

/// Client, server, type, calls, failures, seconds at the server and at the client.
fn edges(red: &Red) -> Vec<(String, String, &'static str, u64, u64, u128, u128)> {
    let mut edges: Vec<_> = (red.snapshot().edges.iter())
        .map(|edge| {
            let client = edge.other_durations.as_ref().expect("both sides");
            assert_eq!(client.count, edge.durations.count);
            (
                edge.first.to_string(),
                edge.second.to_string(),
                edge.connection_type().as_str(),
                edge.durations.count,
                edge.failed,
                edge.durations.sum_nano / 1_000_000,
                client.sum_nano / 1_000_000,
            )
        })
        .collect();
    edges.sort_unstable();
    edges
}

fn edge(
    client: &str,
    server: &str,
    kind: &'static str,
    figures: (u64, u64, u128, u128),
) -> (String, String, &'static str, u64, u64, u128, u128) {
    let (calls, failed, server_ms, client_ms) = figures;
    (client.to_owned(), server.to_owned(), kind, calls, failed, server_ms, client_ms)
}

#[test]
fn a_call_of_which_four_spans_tell_is_counted_once_when_it_has_settled() {
    let mut red = Red::new(&RedConfig::default());
    let mut client = span(2, "web", Kind::Client, Capture::App, 9);
    client.parent_span_id = Some(id(1));
    let spans = [
        span(1, "web", Kind::Server, Capture::App, 20),
        client,
        span(3, "web", Kind::Client, Capture::ClientProcess, 8),
    ];
    red.push(1, &batch(&spans), now(0)).expect("spans");
    let spans = [
        span(4, "cart", Kind::Server, Capture::ServerProcess, 6),
        span(5, "cart", Kind::Server, Capture::App, 5),
    ];
    red.push(2, &batch(&spans), now(1)).expect("spans");
    red.place(&[found((1, 0), 1, None), found((1, 1), 1, Some(1)), found((1, 2), 2, None)], now(1));
    // The kernel's client span was in a trace of its own at first.
    red.place(
        &[found((1, 2), 1, Some(2)), found((2, 0), 1, Some(3)), found((2, 1), 1, Some(4))],
        now(2),
    );
    red.settle(now(10));
    assert_eq!((edges(&red), red.waiting()), (vec![], 5));
    red.settle(now(11));
    let expected = [
        edge("user", "web", "virtual_node", (1, 0, 20, 20)),
        edge("web", "cart", "", (1, 0, 6, 8)),
    ];
    assert_eq!(edges(&red), expected);
    assert_eq!((red.waiting(), red.counters()), (0, RedCounters::default()));
    // Each span counts for itself; of a trace, a second of the clock keeps one example.
    let snapshot = red.snapshot();
    assert_eq!(snapshot.spans.iter().map(|series| series.durations.count).sum::<u64>(), 5);
    let example = snapshot.edges.iter().find_map(|edge| edge.durations.exemplar(0));
    assert_eq!(example.map(|example| example.trace_id), Some(TraceId([1; 16])));
    let example = snapshot.spans.iter().find_map(|series| series.durations.exemplar(4));
    let at_unix_nano = now(1).unix_nano;
    let trace_id = TraceId([1; 16]);
    assert_eq!(example, Some(&Exemplar { trace_id, nano: 20_000_000, at_unix_nano }));
}

#[test]
fn what_nobody_traced_is_a_virtual_node_or_a_database() {
    let mut red = Red::new(&RedConfig::default());
    let mut query = span(1, "cart", Kind::Client, Capture::ClientProcess, 4);
    query.protocol = Some(protocol::POSTGRESQL.into());
    query.flow.server_address = Some("10.0.0.9".into());
    query.flow.server_port = Some(5432);
    query.status = Status::Error;
    let mut call = span(2, "cart", Kind::Client, Capture::App, 3);
    call.flow.server_address = Some("pay.example".into());
    // Its parent is elsewhere, so nobody is said to have called.
    let mut served = span(3, "cart", Kind::Server, Capture::App, 30);
    served.parent_span_id = Some(id(77));
    let mut sent = span(4, "cart", Kind::Producer, Capture::App, 2);
    sent.protocol = Some("kafka".into());
    let mut taken = span(5, "mail", Kind::Consumer, Capture::App, 1);
    taken.protocol = Some("kafka".into());
    // A message that the kernel saw come to the service is no request by a user.
    let mut pushed = span(6, "mail", Kind::Consumer, Capture::ServerProcess, 3);
    pushed.protocol = Some("kafka".into());
    red.push(7, &batch(&[query, call, served, sent, taken, pushed]), now(0)).expect("spans");
    let results = [(0, None), (1, Some(3)), (2, None), (3, Some(3)), (4, Some(4)), (5, None)];
    red.place(&results.map(|(row, parent)| found((7, row), 1, parent)), now(1));
    red.settle_all(now(1));
    let expected = [
        edge("cart", "http pay.example", "virtual_node", (1, 0, 3, 3)),
        edge("cart", "kafka", "messaging_system", (1, 0, 2, 2)),
        edge("cart", "postgresql 10.0.0.9:5432", "database", (1, 1, 4, 4)),
        edge("kafka", "mail", "messaging_system", (2, 0, 4, 4)),
    ];
    assert_eq!(edges(&red), expected);
}

#[test]
fn what_comes_after_a_trace_was_counted_is_counted_and_told() {
    let mut red = Red::new(&RedConfig::default());
    red.push(1, &batch(&[span(1, "a", Kind::Client, Capture::App, 1)]), now(0)).expect("spans");
    red.place(&[found((1, 0), 1, None)], now(0));
    red.settle(now(10));
    let other = span(2, "a", Kind::Client, Capture::App, 1);
    red.push(2, &batch(&[other]), now(11)).expect("spans");
    // A batch of which assembly never speaks is forgotten.
    red.push(3, &batch(&[span(3, "a", Kind::Client, Capture::App, 1)]), now(11)).expect("spans");
    red.place(&[found((2, 0), 1, None), found((9, 0), 1, None), found((2, 9), 1, None)], now(12));
    red.settle(now(22));
    assert_eq!(edges(&red), [edge("a", "http unknown", "virtual_node", (2, 0, 2, 2))]);
    assert_eq!((red.counters().traces_reopened, red.waiting()), (1, 1));
    red.settle(now(131));
    let counters = red.counters();
    assert_eq!((counters.spans_not_assembled, red.waiting()), (1, 0));
    // Nothing is remembered forever.
    red.push(4, &batch(&[span(4, "a", Kind::Client, Capture::App, 1)]), now(200)).expect("spans");
    red.place(&[found((4, 0), 1, None)], now(200));
    red.settle_all(now(200));
    assert_eq!(red.counters(), counters);
}

#[test]
fn many_waiting_spans_are_counted_early() {
    let mut red = Red::new(&RedConfig::default());
    let spans: Vec<Span> =
        (1..=60_000).map(|number| span(number, "a", Kind::Client, Capture::App, 1)).collect();
    let spans = batch(&spans);
    for number in 1..=4 {
        red.push(number, &spans, now(0)).expect("spans");
        let results = (0..60_000).map(|row| found((number, row), number as u8, None));
        red.place(&results.collect::<Vec<_>>(), now(0));
        red.settle(now(1));
    }
    assert_eq!(edges(&red).iter().map(|edge| edge.3).sum::<u64>(), 60_000);
    assert_eq!((red.counters().traces_counted_early, red.waiting()), (1, 180_000));
}

#[test]
fn names_of_counted_spans_are_not_kept() {
    let mut red = Red::new(&RedConfig { series: 100, ..RedConfig::default() });
    let mut expected = 0;
    for number in 1..=70u64 {
        let spans: Vec<Span> = (0..2_000)
            .map(|row| {
                let mut span = span(row + 1, "a", Kind::Client, Capture::App, 1);
                span.flow.server_address = Some(format!("{number}.{row}"));
                span
            })
            .collect();
        red.push(number, &batch(&spans), now(0)).expect("spans");
        let results = (0..2_000).map(|row| found((number, row), number as u8, None));
        red.place(&results.collect::<Vec<_>>(), now(0));
        if number % 2 == 0 {
            red.settle_all(now(0));
            expected += 4_000;
        }
        assert!(red.edges.names.len() < 70_000, "{}", red.edges.names.len());
    }
    let counted: u64 = edges(&red).iter().map(|edge| edge.3).sum();
    assert_eq!(counted, expected);
    let snapshot = red.snapshot();
    assert!(snapshot.edges.len() <= 101, "{}", snapshot.edges.len());
    let folded = snapshot.edges.iter().filter(|edge| &*edge.second == OTHER);
    let folded: u64 = folded.map(|edge| edge.durations.count).sum();
    assert_eq!((folded, red.counters().edges_folded), (expected - 75, expected - 75));
}

#[derive(Debug, Clone)]
struct Pick {
    service: u8,
    operation: u8,
    kind: usize,
    status: usize,
    capture: usize,
    protocol: usize,
    trace: u8,
    parent: Option<u8>,
    nano: i64,
    confidence: bool,
}

fn pick() -> impl Strategy<Value = Pick> {
    let names = (0..4u8, 0..5u8, 0..5usize, 0..3usize, 0..3usize, 0..4usize);
    (names, (1..4u8, prop::option::of(any::<u8>()), 0..20_000_000_000i64, any::<bool>())).prop_map(
        |(
            (service, operation, kind, status, capture, protocol),
            (trace, parent, nano, confidence),
        )| {
            Pick {
                service,
                operation,
                kind,
                status,
                capture,
                protocol,
                trace,
                parent,
                nano,
                confidence,
            }
        },
    )
}

proptest! {
    /// Spans are counted as a naive count does, and calls as the service graph does, whatever the
    /// order in which batches and places arrive.
    #[test]
    fn figures_are_those_of_a_recount(
        picks in prop::collection::vec(pick(), 1..150),
        cuts in (1..20usize, 1..20usize),
        early in any::<bool>(),
    ) {
        let captures = [Capture::App, Capture::ClientProcess, Capture::ServerProcess];
        let protocols = [None, Some("http"), Some("kafka"), Some("redis")];
        let spans: Vec<Span> = (1..)
            .zip(&picks)
            .map(|(number, pick)| {
                let name = ["a", "b", "c", "d"][usize::from(pick.service)];
                let (kind, capture) = (Kind::ALL[pick.kind], captures[pick.capture]);
                let mut span = span(number, name, kind, capture, 0);
                span.operation = format!("op {}", pick.operation);
                span.duration_nano = pick.nano;
                span.status = Status::ALL[pick.status];
                span.protocol = protocols[pick.protocol].map(str::to_owned);
                span
            })
            .collect();
        // A parent is an earlier span of the trace.
        let parent = |row: usize| {
            let earlier: Vec<usize> =
                (0..row).filter(|other| picks[*other].trace == picks[row].trace).collect();
            let pick = usize::from(picks[row].parent?);
            earlier.get(pick % earlier.len().max(1)).map(|row| *row as u64 + 1)
        };
        let mut red = Red::new(&RedConfig::default());
        for (number, spans) in (0..).zip(spans.chunks(cuts.0)) {
            red.push(number, &batch(spans), now(0)).expect("spans");
        }
        let results: Vec<Assembled> = (0..picks.len())
            .map(|row| {
                let at = ((row / cuts.0) as u64, (row % cuts.0) as u32);
                let mut result = found(at, picks[row].trace, parent(row));
                result.confidence = result.confidence.filter(|_| picks[row].confidence);
                result
            })
            .collect();
        if early {
            // First, each span is a trace of its own.
            let alone = (100..).zip(&results).map(|(trace, result)| Assembled {
                trace_id: TraceId([trace; 16]), parent: None, ..*result
            });
            red.place(&alone.collect::<Vec<_>>(), now(1));
        }
        for results in results.chunks(cuts.1) {
            red.place(results, now(2));
        }
        red.settle(now(13));
        prop_assert_eq!(red.waiting(), 0);

        let mut names = Names::default();
        let calls: Vec<Call> = (0..)
            .zip(&spans)
            .map(|(row, span): (usize, _)| Call {
                span_id: span.span_id,
                parent: parent(row).map(id),
                start_unix_nano: span.start_unix_nano,
                service: names.name(&span.service),
                kind: span.kind,
                capture: span.capture,
                protocol: span.protocol.as_deref().map(|text| names.name(text)),
                error: span.status == Status::Error,
                duration_nano: span.duration_nano,
                confidence: None,
                server: None,
                network: None,
            })
            .collect();
        let graph = Graph::of(calls, &names);
        let mut expected: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for edge in graph.edges {
            let figures = expected.entry((edge.client, edge.server)).or_default();
            figures.0 += edge.figures.requests;
            figures.1 += edge.figures.errors;
        }
        let mut counted: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for (client, server, _, calls, failed, ..) in edges(&red) {
            if client != "user" {
                let figures = counted.entry((client, server)).or_default();
                figures.0 += calls;
                figures.1 += failed;
            }
        }
        prop_assert_eq!(counted, expected);

        let mut expected: BTreeMap<(String, String, Kind, Status), (u64, u128)> = BTreeMap::new();
        for span in &spans {
            let key = (span.service.clone(), span.operation.clone(), span.kind, span.status);
            let figures = expected.entry(key).or_default();
            figures.0 += 1;
            figures.1 += span.duration_nano as u128;
        }
        let snapshot = red.snapshot();
        let counted: BTreeMap<_, _> = (snapshot.spans.iter())
            .map(|series| {
                let (kind, status) = series.kind_and_status();
                let names = (series.first.to_string(), series.second.to_string(), kind, status);
                (names, (series.durations.count, series.durations.sum_nano))
            })
            .collect();
        prop_assert_eq!(counted, expected);
    }
}
