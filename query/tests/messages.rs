//! Spans of different traces that carried the same messages are linked when either trace is read.

use spanwise_model::{
    Capture, Kind, Link, RowRef, Span, SpanBatch, SpanBatchBuilder, SpanId, TraceId, WrittenId,
};
use spanwise_query::{PagePosition, Queries, TraceQuery};
use spanwise_store::Store;
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore};

const SECOND_NANO: i64 = 1_000_000_000;
const BEGIN_NANO: i64 = 1_700_000_000 * SECOND_NANO;

fn span(number: u8, service: &str, kind: Kind, operation: &str, second: i64, key: &str) -> Span {
    let start = BEGIN_NANO + second * SECOND_NANO;
    let capture = Capture::ClientProcess;
    let mut span = Span::new(SpanId([number; 8]), capture, kind, service, operation, start, 1000);
    span.assembled_trace_id = Some(TraceId([number; 16]));
    span.logical_key = (!key.is_empty()).then(|| key.to_owned());
    span.protocol = Some("redis".to_owned());
    span
}

async fn links_of(queries: &Queries, number: u8) -> Vec<Link> {
    let id = WrittenId::Trace(TraceId([number; 16]));
    let query = TraceQuery { id, page: PagePosition::Whole, limit: 100, snapshot: None };
    let tree = queries.trace(&query).await.expect("a trace").tree;
    let span = |at: RowRef| tree.batches[at.batch as usize].span(at.row as usize);
    let spans: Vec<Span> =
        tree.trace.nodes.iter().map(|node| span(node.row.at).expect("a span")).collect();
    assert_eq!(spans.len(), 1);
    spans[0].links.clone()
}

fn shown(links: &[Link]) -> Vec<String> {
    let text = |link: &Link| {
        let values: Vec<String> =
            link.attributes.iter().map(|(_, value)| value.to_string()).collect();
        format!("{} {}", link.span_id.0[0], values.join(" "))
    };
    links.iter().map(text).collect()
}

#[tokio::test]
async fn who_queued_a_task_and_who_ran_it_are_linked() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || EmbeddedStore::open(EmbeddedConfig::new(directory.path().join("data")));
    let mut own = span(2, "worker", Kind::Client, "BRPOP", 3700, "<task:1 <content:7");
    own.links.push(Link {
        trace_id: TraceId([9; 16]),
        span_id: SpanId([9; 8]),
        trace_state: None,
        attributes: Vec::new(),
    });
    // The receiver may arrive first, and hours later.
    let parts = [
        vec![own, span(3, "other", Kind::Client, "BRPOP", 60, "<task:2")],
        vec![
            span(1, "shop", Kind::Client, "LPUSH", 0, ">task:1"),
            span(4, "redis", Kind::Server, "LPUSH", 0, ">task:1"),
            span(5, "nobody", Kind::Client, "GET", 0, ""),
        ],
    ];
    for part in parts {
        let store = open().await.expect("a store");
        let batch = part.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        store
            .append(SpanBatch::try_from(batch).expect("spans").into_record_batch().into(), None)
            .await
            .expect("stored");
        // The first part is in a file, the second in memory and in a file.
        if part.len() == 3 {
            check(&Queries::new(store)).await;
        } else {
            store.close().await.expect("closed");
        }
    }
    let store = open().await.expect("a store");
    check(&Queries::new(store)).await;
}

async fn check(queries: &Queries) {
    let received = links_of(queries, 2).await;
    assert_eq!(shown(&received), ["9 ", "1 sent task shop LPUSH"]);
    assert_eq!(received[1].trace_id, TraceId([1; 16]));
    assert_eq!(shown(&links_of(queries, 1).await), ["2 received task worker BRPOP"]);
    for alone in [3, 4, 5] {
        assert_eq!(shown(&links_of(queries, alone).await), [""; 0]);
    }
}
