//! A journey over a store: spans with a key, whatever their trace, and what the answer leaves out.

use spanwise_analyze::logical::HandOffEvidence;
use spanwise_assemble::{Window, WindowConfig};
use spanwise_model::{
    AttributeValue, Capture, Kind, Span, SpanBatchBuilder, SpanId, Status, TraceId,
};
use spanwise_query::{Journey, JourneyBounds, JourneyQuery, Queries};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore};
use spanwise_store::{Appended, Store, TimeRange};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
const BEGIN: i64 = 1_700_000_000 * SECOND;

fn span(trace: u8, kind: Kind, service: &str, second: i64, key: AttributeValue) -> Span {
    let id = SpanId([trace, kind as u8, second as u8, 1, 1, 1, 1, 1]);
    let start = BEGIN + second * SECOND;
    let mut span = Span::new(id, Capture::App, kind, service, "do", start, SECOND);
    span.trace_id = Some(TraceId([trace; 16]));
    span.attributes = vec![("spanwise.key.order".to_owned(), key)];
    span
}

async fn queries(directory: &std::path::Path, spans: &[Span]) -> Queries {
    let store = EmbeddedStore::open(EmbeddedConfig::new(directory.join("data"))).await;
    let store = store.expect("a store");
    let rows = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
    let appended = store.append(rows.clone().into(), None).await.expect("stored");
    let Appended::Stored { batch } = appended else { panic!("new") };
    let mut window = Window::new(WindowConfig::default());
    window.push(batch, &rows.into(), 0).expect("spans");
    store.annotate(&window.flush(0)).await.expect("annotated");
    Queries::new(store)
}

async fn journey(queries: &Queries, value: &str, bounds: JourneyBounds) -> Journey {
    let time = TimeRange { from_unix_nano: BEGIN - SECOND, to_unix_nano: BEGIN + 9 * DAY * SECOND };
    let query = JourneyQuery {
        name: "order".to_owned(),
        value: value.to_owned(),
        time,
        gap_nano: 60 * SECOND,
        bounds,
    };
    queries.journey(&query).await.expect("an answer")
}

const PLENTY: JourneyBounds = JourneyBounds { spans: 1000, rows: 1000 };

#[tokio::test]
async fn spans_of_a_key_are_a_timeline_over_traces() {
    let mut failed = span(1, Kind::Server, "pay", 0, "47".into());
    failed.status = Status::Error;
    let mut sent = span(2, Kind::Producer, "pay", DAY, "47".into());
    sent.logical_key = Some(">task:1".to_owned());
    // It brings several messages.
    let list = AttributeValue::Json("[\"46\",\"47\"]".to_owned());
    let mut received = span(3, Kind::Consumer, "mail", 2 * DAY, list);
    received.logical_key = Some("<task:1".to_owned());
    let mut without = span(3, Kind::Client, "smtp", 2 * DAY, "x".into());
    without.attributes.clear();
    let between = span(4, Kind::Server, "shop", DAY + 9, "47".into());
    let spans =
        [received, between, failed, without, sent, span(5, Kind::Server, "pay", 0, "470".into())];
    let directory = tempfile::tempdir().expect("a directory");
    let queries = queries(directory.path(), &spans).await;
    let found = journey(&queries, "47", PLENTY).await;
    let steps: Vec<_> =
        found.steps.iter().map(|step| (step.service.as_str(), step.attempt, step.failed)).collect();
    assert_eq!(
        steps,
        [("pay", 1, true), ("pay", 2, false), ("shop", 1, false), ("mail", 1, false)]
    );
    assert_eq!(
        found.gaps.iter().map(|gap| (gap.after, gap.before)).collect::<Vec<_>>(),
        [(0, 1), (2, 3)]
    );
    let hands: Vec<_> =
        found.hand_offs.iter().map(|hand| (hand.from, hand.to, hand.evidence)).collect();
    assert_eq!(hands, [(1, 2, HandOffEvidence::Time), (1, 3, HandOffEvidence::Link)]);
    assert_eq!((found.total_traces, found.spans), (4, 4));
    let traces: Vec<_> = (found.traces.iter())
        .map(|trace| (trace.summary.trace_id.0[0], trace.steps, trace.summary.spans))
        .collect();
    assert_eq!(traces, [(1, 1, 1), (2, 1, 1), (4, 1, 1), (3, 1, 2)]);
    assert!(found.warnings.is_empty() && found.names.contains("order"), "{found:?}");
    assert_eq!(journey(&queries, "46", PLENTY).await.total_steps, 1);
    assert_eq!(journey(&queries, "4", PLENTY).await.total_steps, 0);
}

#[tokio::test]
async fn an_answer_is_bounded_and_says_so() {
    let spans: Vec<Span> =
        (0..20).map(|n| span(n, Kind::Server, "a", i64::from(n) * 10, "47".into())).collect();
    let directory = tempfile::tempdir().expect("a directory");
    let queries = queries(directory.path(), &spans[1..]).await;
    let found = journey(&queries, "47", JourneyBounds { spans: 5, rows: 3 }).await;
    assert_eq!(
        (found.spans, found.total_steps, found.steps.len(), found.traces.len()),
        (5, 5, 3, 3)
    );
    assert_eq!(found.from_unix_nano, BEGIN + 150 * SECOND);
    assert_eq!(found.warnings.len(), 3, "{:?}", found.warnings);
    assert!(found.warnings[0].contains("more than 5 spans"), "{:?}", found.warnings);
}
