//! Spans and stores for tests.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use spanwise_model::{
    Assembled, AttributeValue, Capture, Event, Evidence, Flow, Kind, Link, Network, ResourceJson,
    RowRef, Span, SpanBatch, SpanBatchBuilder, SpanId, SpanRows, Status, TraceId,
};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore, ObjectStorageConfig, SqlWorker};
use spanwise_store::{Appended, Origin, Store, StoreError, StoreStatus, TimeRange};

/// 2026-01-01T00:00:00Z.
pub(crate) const BEGIN_UNIX_NANO: i64 = 1_767_225_600_000_000_000;
pub(crate) const SECOND_NANO: i64 = 1_000_000_000;

pub(crate) fn trace_id(n: u64) -> TraceId {
    let mut bytes = [0xaa; 16];
    bytes[8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    TraceId(bytes)
}

pub(crate) fn span_id(n: u64) -> SpanId {
    SpanId::from_u64(n + 1).expect("not zero")
}

/// The `n`-th span. Every column has a value in some spans, and starts are a second apart.
pub(crate) fn span(n: u64) -> Span {
    let odd = n % 2 == 1;
    let number = i64::try_from(n).expect("small");
    // Sorted by key, as stores may return them.
    let attributes = vec![
        ("cached".to_owned(), AttributeValue::Bool(odd)),
        ("http.route".to_owned(), AttributeValue::from(["/cart", "/pay"][(n % 2) as usize])),
        ("n".to_owned(), AttributeValue::Int(number)),
        ("share".to_owned(), AttributeValue::Double(0.5)),
    ];
    let mut span = Span::new(
        span_id(n),
        if odd { Capture::App } else { Capture::ServerProcess },
        if odd { Kind::Internal } else { Kind::Server },
        ["cart", "payment", "stock"][(n % 3) as usize],
        format!("GET /{}", n % 5),
        BEGIN_UNIX_NANO + number * SECOND_NANO,
        number * 1000,
    );
    span.trace_id = odd.then(|| trace_id(n / 4));
    span.parent_span_id = odd.then(|| span_id(n - 1));
    span.trace_state = odd.then(|| "a=b".to_owned());
    span.instance = Some(format!("host/{}", n % 4));
    span.protocol = (!odd).then(|| "http".to_owned());
    span.status = [Status::Unset, Status::Ok, Status::Error][(n % 3) as usize];
    span.status_code = (!odd).then_some(200);
    span.error = (n % 3 == 2).then(|| "500".to_owned());
    span.fragment_id = (!odd).then_some(u64::MAX - n);
    span.request_tcp_seq = (!odd).then_some(u32::MAX - n as u32);
    span.response_tcp_seq = (!odd).then_some(n as u32);
    span.flow = Flow {
        client_address: Some("10.0.0.1".to_owned()),
        client_port: Some(40000),
        server_address: Some("10.0.0.2".to_owned()),
        server_port: Some(80),
        network_namespace: Some(4_026_531_840),
    };
    span.x_request_id = n.is_multiple_of(4).then(|| format!("request-{n}"));
    span.logical_key = odd.then(|| format!("order-{n}"));
    span.evidence = (!odd).then_some(Evidence::Thread);
    span.confidence = (!odd).then_some(1.0);
    span.host = Some("host".to_owned());
    span.process_id = Some(42);
    span.resource = ResourceJson::from_column(r#"{"service.name":"cart"}"#);
    span.network = Network {
        rtt_nano: Some(30_000),
        request_bytes: Some(n),
        response_bytes: Some(u64::MAX),
        ..Network::default()
    };
    if n.is_multiple_of(7) {
        let zones = ("zones".to_owned(), AttributeValue::Json(r#"["a",7]"#.to_owned()));
        span.events = vec![Event {
            time_unix_nano: span.start_unix_nano,
            name: "exception".to_owned(),
            attributes: [&attributes[..], &[zones]].concat(),
        }];
        span.links = vec![Link {
            trace_id: trace_id(n),
            span_id: span_id(n),
            trace_state: None,
            attributes: Vec::new(),
        }];
    }
    span.attributes = attributes;
    span
}

pub(crate) fn batch(numbers: impl IntoIterator<Item = u64>) -> SpanRows {
    // A builder in the state of a server that has received some thousand spans, so that rows have
    // templates.
    static BUILDER: LazyLock<Mutex<SpanBatchBuilder>> = LazyLock::new(|| {
        let mut builder = SpanBatchBuilder::sharing();
        (0..5_000).for_each(|n| builder.push(&span(n)));
        builder.finish_rows().expect("rows");
        Mutex::new(builder)
    });
    let mut builder = BUILDER.lock().unwrap_or_else(PoisonError::into_inner);
    for n in numbers {
        builder.push(&span(n));
    }
    builder.finish_rows().expect("spans make a batch")
}

/// The spans in some batches, sorted by id.
pub(crate) fn spans(batches: &[RecordBatch]) -> Vec<Span> {
    let mut spans: Vec<Span> = batches
        .iter()
        .flat_map(|batch| {
            let batch = SpanBatch::try_from(batch.clone()).expect("the span schema");
            batch.spans().map(|span| span.expect("a span")).collect::<Vec<_>>()
        })
        .collect();
    spans.sort_by_key(|span| span.span_id);
    spans
}

/// The numbers of the spans in some batches, sorted.
pub(crate) fn numbers(batches: &[RecordBatch]) -> Vec<u64> {
    spans(batches).iter().map(|span| span.span_id.as_u64() - 1).collect()
}

pub(crate) fn origin(source: u8, sequence: u64) -> Option<Origin> {
    Some(Origin { source: [source; 16], sequence })
}

/// Stores spans and returns the batch's number.
pub(crate) async fn append(store: &dyn Store, numbers: impl IntoIterator<Item = u64>) -> u64 {
    match store.append(batch(numbers), None).await.expect("stored") {
        Appended::Stored { batch } => batch,
        other => panic!("its spans are new: {other:?}"),
    }
}

/// Assigns all rows of a batch to one trace. The first row is the root.
pub(crate) async fn assemble(store: &dyn Store, batch: u64, numbers: &[u64], trace: TraceId) {
    let rows: Vec<Assembled> = (0..)
        .zip(numbers)
        .map(|(row, _)| Assembled {
            row: RowRef { batch, row },
            trace_id: trace,
            parent: (row > 0).then(|| span_id(numbers[0])),
            evidence: (row > 0).then_some(Evidence::TcpSequence),
            confidence: (row > 0).then_some(1.0),
        })
        .collect();
    store.annotate(&rows).await.expect("annotated");
}

/// All spans in the store.
pub(crate) async fn everything(store: &dyn Store) -> Vec<RecordBatch> {
    let query = spanwise_store::Query {
        predicate: spanwise_store::Predicate::default(),
        time: TimeRange::ALL,
        columns: Vec::new(),
        keys: None,
        limit: usize::MAX,
        order: spanwise_store::Order::NewestFirst,
    };
    store.find(&query).await.expect("found")
}

/// Statements run in a separate process in tests, too: this test program, with only the test
/// [`super::sql::worker`]. It uses a third descriptor, because the test harness prints to standard
/// output.
pub(crate) fn sql_worker() -> SqlWorker {
    let program = std::env::current_exe().expect("this program");
    let start =
        format!("exec '{}' --exact sql::worker --ignored 3>&1 >/dev/null", program.display());
    SqlWorker {
        program: "/bin/sh".into(),
        arguments: vec!["-c".to_owned(), start],
        // The allocator reserves address space, which is limited, for every thread.
        environment: vec![("MALLOC_ARENA_MAX".to_owned(), "1".to_owned())],
    }
}

/// A configuration under which nothing becomes a file by itself.
pub(crate) fn in_memory(directory: &Path) -> EmbeddedConfig {
    EmbeddedConfig {
        generation_max_age: Duration::from_secs(3600),
        min_free_bytes: 0,
        sql_worker: Some(sql_worker()),
        ..EmbeddedConfig::new(directory.to_owned())
    }
}

/// A configuration under which everything becomes a file at once.
pub(crate) fn in_files(directory: &Path) -> EmbeddedConfig {
    EmbeddedConfig {
        generation_max_age: Duration::ZERO,
        settle_deadline: Duration::ZERO,
        ..in_memory(directory)
    }
}

/// The same, with files uploaded at once and hardly any local copies.
pub(crate) fn in_bucket(directory: &Path, url: &str) -> EmbeddedConfig {
    let object_storage = ObjectStorageConfig {
        cache_max_bytes: 64 << 10,
        upload_after: Duration::ZERO,
        ..ObjectStorageConfig::new(url.to_owned())
    };
    EmbeddedConfig { object_storage: Some(object_storage), ..in_files(directory) }
}

/// Opens a store. The one before it may be under way to let go of its directory: its last owner
/// was counted out before its files are closed.
pub(crate) async fn open(config: EmbeddedConfig) -> Arc<EmbeddedStore> {
    let begin = Instant::now();
    loop {
        match EmbeddedStore::open(config.clone()).await {
            Err(StoreError::Invalid(why))
                if why.contains("in use") && begin.elapsed() < Duration::from_secs(5) =>
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            opened => return opened.expect("the store opens"),
        }
    }
}

/// Drops a store without closing it, as a kill would, after its background work has ended.
pub(crate) async fn abandon<S: ?Sized>(store: Arc<S>) {
    let left = Arc::downgrade(&store);
    drop(store);
    until("the store to go", || left.strong_count() == 0).await;
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until all rows are in files, and the files are where they should be.
pub(crate) async fn until_in_files(store: &dyn Store) {
    let begin = Instant::now();
    let is_on_its_way = |status: &StoreStatus| {
        let remote = status.object_storage.as_ref();
        let waits = remote.is_some_and(|remote| {
            remote.waiting_files > 0 || remote.cache_bytes > remote.cache_max_bytes
        });
        status.recent_rows > 0 || waits
    };
    while is_on_its_way(&store.status()) {
        let late = begin.elapsed() > Duration::from_secs(30);
        assert!(!late, "rows stay where they are: {:?}", store.status());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn counter(store: &dyn Store, name: &str) -> u64 {
    let counters = store.status().counters;
    counters.iter().find(|(counter, _)| counter == name).map_or(0, |(_, n)| *n)
}

/// Files with this suffix, sorted.
pub(crate) fn files(directory: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the directory is there");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}
