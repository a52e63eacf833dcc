//! What the crate records, read back.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span as Read;
use prost::Message as _;
use spanwise_native::{Recording, otlp};
use spanwise_native_client::{
    Attribute, Context, Counter, Histogram, Kind, Level, Policy, StartError, Status, Tracer, key,
    log, site,
};

static REQUESTS: Counter = Counter::new(c"requests", c"{request}");
static LATENCY: Histogram = Histogram::new(c"latency", c"ms");

#[test]
fn spans_logs_and_metrics_are_read_back() {
    // Before a tracer, everything may be called and nothing is recorded.
    let nothing = site!("early").begin();
    assert!(!nothing.is_recorded() && nothing.context().is_none() && Context::current().is_none());
    drop(nothing);
    LATENCY.observe(1.0);

    let here = tempfile::tempdir().expect("a directory");
    let dir = here.path().join("trace");
    let wrong = Tracer::new(&dir, "shop").ring_bytes(17).start();
    assert!(matches!(wrong, Err(StartError::System(_))));
    assert!(matches!(Tracer::new("a\0b", "shop").start(), Err(StartError::Text(_))));
    let tracer = Tracer::new(&dir, "shop")
        .policy(Policy::Roll)
        .ring_bytes(1 << 20)
        .resource("deployment.environment.name", "test")
        .start()
        .expect("started");
    assert!(matches!(Tracer::new(&dir, "shop").start(), Err(StartError::Already)));
    REQUESTS.register(&tracer).expect("registered");
    REQUESTS.register(&tracer).expect("registered once");
    LATENCY.register(&tracer).expect("registered");

    let parent: Context =
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().expect("a context");
    assert_eq!(Context::from_bytes(&parent.to_bytes()), Ok(parent));
    assert!(Context::from_bytes(&[0; 32]).is_err() && "00-x".parse::<Context>().is_err());
    let long = "x".repeat(5000);
    let (outer, inner, detached);
    {
        let span = site!("serve", Kind::Server).begin_remote(parent);
        outer = span.context().expect("recorded");
        assert_eq!((outer.trace_id, outer.flags), (parent.trace_id, 1));
        span.set(key!("http.response.status_code"), 500);
        span.set_all(&[
            Attribute::new(key!("text"), "café"),
            Attribute::new(key!("ratio"), 0.5),
            Attribute::new(key!("cached"), true),
            Attribute::new(key!("raw"), &b"\x00\x01"[..]),
            Attribute::new(key!("long"), long.as_str()),
        ]);
        span.set_error("out of\0stock");
        span.set_tracestate("x=1");
        {
            let span = site!("query", Kind::Client, Level::Debug).begin();
            inner = span.context().expect("recorded");
            assert_eq!(Context::current(), Some(inner));
            span.event(key!("retry"), &[Attribute::new(key!("attempt"), 2)]);
            span.link(parent, &[]);
            log(Level::Warn, "slow", &[Attribute::new(key!("attempt"), 2)]);
        }
        let mut task = site!("task").begin_detached(Some(outer));
        detached = task.context().expect("recorded");
        std::thread::spawn(move || {
            task.set(key!("thread"), "another");
            task.set_status(Status::Ok);
        })
        .join()
        .expect("joined");
    }
    REQUESTS.add(3);
    LATENCY.observe(4.0);
    drop(tracer);
    assert!(!site!("late").begin().is_recorded());

    let mut recording = Recording::open(std::slice::from_ref(&dir)).expect("a recording");
    let (mut spans, mut logs, mut points) = (Vec::<Read>::new(), Vec::new(), Vec::new());
    while let Some(piece) = recording.next_piece() {
        let mut bytes = Vec::new();
        otlp::traces(&recording.processes[piece.process], &piece, |_| true, &mut bytes);
        let request = ExportTraceServiceRequest::decode(&bytes[..]).expect("OTLP");
        let scopes = request.resource_spans.into_iter().flat_map(|of| of.scope_spans);
        spans.extend(scopes.flat_map(|scope| scope.spans));
        logs.extend(piece.logs);
        points.extend(piece.metrics);
    }
    assert_eq!(recording.problems(), Vec::<String>::new());
    let process = &recording.processes[0];
    assert!(process.resource.contains(&("service.name".to_owned(), "shop".to_owned())));
    assert!(process.resource.iter().any(|(key, _)| key == "deployment.environment.name"));
    assert!(
        process.sites.iter().any(|site| site.name == "serve" && site.file.ends_with("recorded.rs"))
    );
    assert_eq!(spans.len(), 3);
    let find = |name: &str| spans.iter().find(|span| span.name == name).expect("a span");
    let value = |span: &Read, key: &str| {
        let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
        found.value.clone()?.value
    };
    let (serve, query, task) = (find("serve"), find("query"), find("task"));
    let is = |span: &Read, context: Context, parent: u64| {
        assert_eq!(span.trace_id, context.trace_id.to_be_bytes());
        assert_eq!(span.span_id, context.span_id.to_be_bytes());
        assert_eq!(span.parent_span_id, parent.to_be_bytes());
    };
    is(serve, outer, parent.span_id);
    is(query, inner, outer.span_id);
    is(task, detached, outer.span_id);
    assert_eq!((serve.kind, query.kind, task.kind), (2, 3, 1));
    assert_eq!(value(serve, "http.response.status_code"), Some(Any::IntValue(500)));
    assert_eq!(value(serve, "text"), Some(Any::StringValue("café".to_owned())));
    assert_eq!(value(serve, "ratio"), Some(Any::DoubleValue(0.5)));
    assert_eq!(value(serve, "cached"), Some(Any::BoolValue(true)));
    assert_eq!(value(serve, "raw"), Some(Any::BytesValue(vec![0, 1])));
    assert_eq!(value(serve, "long"), Some(Any::StringValue("x".repeat(4096))));
    assert_eq!(value(serve, "spanwise.value_cut"), Some(Any::BoolValue(true)));
    let status = serve.status.clone().expect("a status");
    assert_eq!((status.code, status.message.as_str()), (2, "out of"));
    assert_eq!(serve.trace_state, "x=1");
    assert_eq!((query.events[0].name.as_str(), query.links.len()), ("retry", 1));
    assert_eq!(value(task, "thread"), Some(Any::StringValue("another".to_owned())));
    assert_eq!(task.status.clone().expect("a status").code, 1);
    assert_eq!((logs.len(), logs[0].span_id, logs[0].severity), (1, inner.span_id, 13));
    let last = |name: &str| {
        let of = |id: u16| process.instruments[usize::from(id)].name == name;
        points.iter().rfind(|point| of(point.instrument)).expect("a point").words.clone()
    };
    assert_eq!(last("requests"), [3]);
    assert_eq!((last("latency")[0], f64::from_bits(last("latency")[1])), (1, 4.0));
}
