use proptest::prelude::*;
use spanwise_model::{Capture, Kind, Span, SpanBatch, Status};

use super::*;

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(u8::try_from(value & 127).unwrap() | 128);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// A batch with a head and these spans' bytes.
fn batch(texts: &[&str], count: u64, spans: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for value in [1_000_000, 3, 1, 2] {
        number(&mut out, value);
    }
    for each in ["service.name", "shop", "process.pid", "77"] {
        text(&mut out, each);
    }
    number(&mut out, texts.len() as u64);
    texts.iter().for_each(|each| text(&mut out, each));
    number(&mut out, 1);
    out.extend_from_slice(&[7; 16]);
    number(&mut out, count);
    out.extend_from_slice(spans);
    out
}

const TEXTS: [&str; 8] = [
    "GET",
    "/owners",
    "SELECT",
    "select * from owners where id = ?",
    "postgresql://db:5432/shop",
    "java.io.IOException",
    "example.org:8080",
    "h2:mem:x",
];

/// A server's span, and a statement that failed within it, in the order in which they end.
fn two() -> Vec<u8> {
    let mut statement = vec![3, flags::FAILED | flags::PARENT_ID, 3, 4, 5, 6, 0];
    statement.extend_from_slice(&[2; 8]);
    statement.extend_from_slice(&[1; 8]);
    // Starts 5 ns after the batch's time, and takes 300 ns.
    statement.extend_from_slice(&[10, 0xac, 2]);
    let mut server = vec![1, flags::STATUS | flags::CLIENT_PORT, 1, 2, 0, 200, 1, 0xc0, 0xb8, 2, 0];
    server.extend_from_slice(&[1; 8]);
    // Starts 2 ns before the statement.
    server.extend_from_slice(&[3, 1]);
    [statement, server].concat()
}

fn rows_of(decoded: Decoded) -> Vec<Span> {
    let batch = SpanBatch::try_from(decoded.batch).unwrap();
    batch.spans().map(Result::unwrap).collect()
}

#[test]
fn spans_become_rows() {
    let batch = decode(&batch(&TEXTS, 2, &two()), &Limits::default()).unwrap();
    assert_eq!((batch.dropped_ring_full, batch.dropped_too_deep), (3, 1));
    assert_eq!(batch.service, "shop");
    let rows = rows_of(batch.decoded);
    let [statement, server] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(statement.operation, "SELECT owners");
    assert_eq!((statement.kind, statement.status), (Kind::Client, Status::Error));
    assert_eq!(statement.error.as_deref(), Some("java.io.IOException"));
    assert_eq!(statement.protocol.as_deref(), Some("postgresql"));
    assert_eq!(statement.flow.server_address.as_deref(), Some("db"));
    assert_eq!(statement.flow.server_port, Some(5432));
    assert_eq!((statement.start_unix_nano, statement.duration_nano), (1_000_005, 300));
    assert_eq!(statement.parent_span_id, Some(server.span_id));
    assert_eq!(server.operation, "GET /owners");
    assert_eq!((server.kind, server.status), (Kind::Server, Status::Unset));
    assert_eq!(server.status_code, Some(200));
    assert_eq!((server.start_unix_nano, server.duration_nano), (1_000_003, 1));
    assert_eq!(server.process_id, Some(77));
    assert_eq!((server.capture, server.flow.client_port), (Capture::Jvm, Some(40_000)));
    assert_eq!(server.trace_id, statement.trace_id);
}

#[test]
fn a_parent_may_be_an_earlier_span() {
    let mut first = vec![9, 0, 1, 0, 0, 0];
    first.extend_from_slice(&[1; 8]);
    first.extend_from_slice(&[0, 0]);
    let mut second = vec![2, flags::PARENT_BEFORE, 1, 2, 7, 0];
    second.extend_from_slice(&[2; 8]);
    second.extend_from_slice(&[1, 0, 0]);
    let spans = [first, second].concat();
    let rows = decode(&batch(&TEXTS, 2, &spans), &Limits::default()).unwrap();
    let rows = rows_of(rows.decoded);
    assert_eq!(rows[1].parent_span_id, Some(rows[0].span_id));
    assert_eq!(rows[1].flow.server_port, Some(8080));
}

#[test]
fn messages_say_what_is_known_of_them() {
    let texts = [
        "send",
        "orders",
        "kafka://[::1]:9092?partition=3&offset=17&key=a&b=c?",
        "process",
        "rocketmq://10.0.0.1:10911?partition=0&group=g&later=x&id=7F&key=k1 k2",
        "receive",
        "rabbitmq:",
    ];
    let span = |component: u8, name: u8, peer: u8| {
        let mut span = vec![component, 0, name, 2, peer, 0];
        span.extend_from_slice(&[component + peer; 8]);
        span.extend_from_slice(&[0, 1]);
        span
    };
    let spans = [span(4, 1, 3), span(5, 4, 5), span(5, 6, 7)].concat();
    let rows = rows_of(decode(&batch(&texts, 3, &spans), &Limits::default()).unwrap().decoded);
    let value = |row: &Span, key: &str| {
        let found = row.attributes.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.clone())
    };
    let text = |text: &str| Some(AttributeValue::from(text));
    let [kafka, rocket, rabbit] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((kafka.kind, kafka.operation.as_str()), (Kind::Producer, "send orders"));
    assert_eq!(value(kafka, "messaging.operation.type"), text("send"));
    assert_eq!(value(kafka, "messaging.destination.partition.id"), text("3"));
    assert_eq!(value(kafka, "messaging.kafka.offset"), Some(AttributeValue::Int(17)));
    assert_eq!(value(kafka, "messaging.kafka.message.key"), text("a&b=c?"));
    assert_eq!(value(kafka, "server.port"), Some(AttributeValue::Int(9092)));
    assert_eq!((rocket.kind, rocket.operation.as_str()), (Kind::Consumer, "process orders"));
    assert_eq!(value(rocket, "messaging.system"), text("rocketmq"));
    assert_eq!(value(rocket, "messaging.operation.type"), text("process"));
    assert_eq!(value(rocket, "messaging.consumer.group.name"), text("g"));
    assert_eq!(value(rocket, "messaging.message.id"), text("7F"));
    let keys = AttributeValue::Json(r#"["k1","k2"]"#.to_owned());
    assert_eq!(value(rocket, "messaging.rocketmq.message.keys"), Some(keys));
    assert_eq!(value(rabbit, "messaging.operation.type"), text("receive"));
    assert_eq!(value(rabbit, "messaging.system"), text("rabbitmq"));
    assert_eq!(value(rabbit, "server.address"), None);
}

#[test]
fn routes_and_services_are_told() {
    let texts = ["GET", "/owners/7", "/owners/{id}", "grpc", "shop.Cart/Add", "cart:50051"];
    let mut server = vec![1, flags::STATUS, 1, 2, 3, 200, 1, 0];
    server.extend_from_slice(&[1; 8]);
    server.extend_from_slice(&[0, 0]);
    let mut call = vec![6, flags::FAILED | flags::STATUS, 4, 5, 6, 0, 14, 0];
    call.extend_from_slice(&[2; 8]);
    call.extend_from_slice(&[0, 0]);
    let rows = decode(&batch(&texts, 2, &[server, call].concat()), &Limits::default()).unwrap();
    let rows = rows_of(rows.decoded);
    let attribute = |row: &Span, key: &str| {
        row.attributes.iter().find(|(it, _)| it == key).map(|(_, value)| value.clone())
    };
    assert_eq!(rows[0].operation, "GET /owners/{id}");
    assert_eq!(attribute(&rows[0], "http.route"), Some("/owners/{id}".into()));
    assert_eq!(attribute(&rows[0], "url.path"), Some("/owners/7".into()));
    assert_eq!(rows[1].operation, "shop.Cart/Add");
    assert_eq!(attribute(&rows[1], "rpc.system.name"), Some("grpc".into()));
    assert_eq!(attribute(&rows[1], "rpc.method"), Some("shop.Cart/Add".into()));
    assert_eq!(attribute(&rows[1], "rpc.response.status_code"), Some("UNAVAILABLE".into()));
    assert_eq!((rows[1].protocol.as_deref(), rows[1].status_code), (Some("grpc"), Some(14)));
    assert_eq!(rows[1].flow.server_address.as_deref(), Some("cart"));
}

#[test]
fn what_is_wrong_is_said() {
    let said = |bytes: &[u8]| decode(bytes, &Limits::default()).unwrap_err().to_string();
    assert!(said(b"").contains("ends too early"));
    assert!(said(b"SWJ\x02").contains("version 1"));
    let with = |spans: &[u8]| said(&batch(&TEXTS, 1, spans));
    let filled = |start: &[u8]| [start, &[1; 16]].concat();
    assert!(with(&filled(&[1, 32])).contains("unknown flags"));
    let port = [&[1, flags::CLIENT_PORT, 0, 0, 0, 0x80, 0x80, 4][..], &[1; 16]].concat();
    assert!(with(&port).contains("a port"));
    assert!(with(&filled(&[1, 0, 9])).contains("a text"));
    assert!(with(&filled(&[1, 0, 0, 0, 0, 5])).contains("a trace"));
    assert!(with(&filled(&[1, 6, 0, 0, 0, 0])).contains("two parents"));
    let back = [&[1, flags::PARENT_BEFORE, 0, 0, 0, 0][..], &[1; 16]].concat();
    assert!(with(&back).contains("before the first span"));
    // A count that claims more than there is.
    assert!(said(&batch(&TEXTS, u64::MAX, &[])).contains("ends too early"));
    assert!(said(&batch(&TEXTS, 2, &[&two()[..], b"x"].concat())).contains("follow"));
}

proptest! {
    #[test]
    fn nothing_panics(
        cut in 0_usize..250,
        changes in prop::collection::vec((0_usize..250, any::<u8>()), 0..6),
    ) {
        let mut bytes = batch(&TEXTS, 2, &two());
        for (at, to) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
        }
        bytes.truncate(cut.max(4));
        // A batch that ends early is never taken.
        let whole = batch(&TEXTS, 2, &two()).len();
        let result = decode(&bytes, &Limits::default());
        if bytes.len() < whole && bytes == batch(&TEXTS, 2, &two())[..bytes.len()] {
            prop_assert!(result.is_err());
        }
    }

    #[test]
    fn numbers_are_read_as_written(value: u64) {
        let mut bytes = Vec::new();
        number(&mut bytes, value);
        prop_assert_eq!(Reader::new(&bytes).number(), Ok(value));
    }
}
