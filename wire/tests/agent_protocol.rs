//! The recorded stream that docs/agent-protocol.md explains: what an agent sends, and what the
//! server replies. `UPDATE_RECORDING=1` records it again.

use std::sync::Arc;
use std::time::Duration;

use arrow_flight::FlightData;
use bytes::Bytes;
use serde_json::{Value, json};
use spanwise_model::{
    Capture, Evidence, Kind, Span, SpanBatch, SpanBatchBuilder, SpanId, SpanRows, Status, protocol,
};
use spanwise_wire::flight::{
    Encoder, FlightLimits, Origin, Put, PutDecoder, PutMetadata, PutReply, Secret, first_message,
};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/agent-stream.jsonl");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/agent-protocol.md");

const SOURCE: [u8; 16] = *b"an agent's run 1";
const SECRET: [u8; 32] = *b"32 random bytes that none knows.";
const FACTS: &str = r#"{"version":"0.1.0","host":"node-7","hook":"example","filter":"everything","detail":"everything","counters":{"spans":2}}"#;
/// After this many spans of one kind, their common part is sent as a template.
const LEARNT_FROM: u64 = 5000;

/// A request that a service served.
fn span(number: u64) -> Span {
    let id = SpanId::from_u64(0x5_0000 + number).unwrap();
    let start = 1_764_201_600_000_000_000 + number.cast_signed() * 1_000_000;
    let mut span =
        Span::new(id, Capture::ServerProcess, Kind::Server, "cart", "GET /cart", start, 2_500_000);
    span.protocol = Some(protocol::HTTP.to_owned());
    span.status = Status::Ok;
    span.status_code = Some(200);
    span.evidence = Some(Evidence::Task);
    span.fragment_id = Some(number);
    span.attributes = vec![
        ("http.request.method".into(), "GET".into()),
        ("url.path".into(), format!("/cart/{number}").into()),
    ];
    span
}

fn origin(sequence: u64) -> Origin {
    Origin { source: SOURCE, sequence }
}

/// In the first batch, all attributes are in the rows. The rows of the second batch share a
/// template.
fn batches() -> [SpanRows; 2] {
    let mut builder = SpanBatchBuilder::new();
    (1..=2).for_each(|number| builder.push(&span(number)));
    let plain = builder.finish_rows().unwrap();
    let mut builder = SpanBatchBuilder::sharing();
    (0..LEARNT_FROM).for_each(|number| builder.push(&span(number)));
    builder.finish_rows().unwrap();
    (3..=4).for_each(|number| builder.push(&span(number)));
    [plain, builder.finish_rows().unwrap()]
}

fn replies() -> [PutReply; 2] {
    let reason = "the disk is full".to_owned();
    let retry_after = Duration::from_secs(5);
    [PutReply::Durable { sequence: 1 }, PutReply::Refused { sequence: 2, retry_after, reason }]
}

fn unhex(text: &Value) -> Bytes {
    hex::decode(text.as_str().unwrap_or_default()).unwrap().into()
}

fn of_agent(what: &str, message: &FlightData) -> Value {
    json!({
        "from": "agent",
        "what": what,
        "data_header": hex::encode(&message.data_header),
        "data_body": hex::encode(&message.data_body),
        "app_metadata": hex::encode(&message.app_metadata),
    })
}

fn facts() -> FlightData {
    let metadata =
        PutMetadata { origin: origin(0), facts: Some(Bytes::from_static(FACTS.as_bytes())) };
    FlightData::new().with_app_metadata(metadata.encode())
}

/// What an agent of this version sends, and the server's replies.
fn stream() -> Vec<Value> {
    let mut lines = vec![
        of_agent("schema and secret", &first_message(Secret::of(SECRET))),
        of_agent("facts", &facts()),
    ];
    let mut encoder = Encoder::new().unwrap();
    for (sequence, (rows, reply)) in (1..).zip(batches().iter().zip(replies())) {
        let encoded = encoder.encode(rows, origin(sequence)).unwrap();
        let last = encoded.messages.len() - 1;
        for (place, message) in encoded.messages.iter().enumerate() {
            let what = match place == last {
                true => format!("rows of batch {sequence}"),
                false => format!("dictionary {place} of batch {sequence}"),
            };
            lines.push(of_agent(&what, message));
        }
        let what = format!("answer to batch {sequence}");
        let metadata = hex::encode(reply.encode());
        lines.push(json!({ "from": "server", "what": what, "app_metadata": metadata }));
    }
    lines
}

fn recorded() -> Vec<Value> {
    if std::env::var_os("UPDATE_RECORDING").is_some() {
        let text: String = stream().iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(RECORDING, text).unwrap();
    }
    let text = std::fs::read_to_string(RECORDING).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_recorded_stream_is_what_the_document_says() {
    let lines = recorded();
    let mut decoder = PutDecoder::new(FlightLimits::default(), Arc::default());
    let (mut batches, mut told, mut replied) = (Vec::new(), Vec::new(), Vec::new());
    for line in &lines {
        let metadata = unhex(&line["app_metadata"]);
        if line["from"] == "server" {
            replied.push(PutReply::decode(&metadata).unwrap());
            continue;
        }
        let message = FlightData::new()
            .with_data_header(unhex(&line["data_header"]))
            .with_data_body(unhex(&line["data_body"]))
            .with_app_metadata(metadata);
        match decoder.push(message).unwrap() {
            Some(Put::Batch { origin, rows, .. }) => batches.push((origin, rows)),
            Some(Put::Facts { source, facts }) => told.push((source, facts)),
            None => {}
        }
    }
    assert_eq!(decoder.secret(), Some(Secret::of(SECRET)));
    assert_eq!(told, [(SOURCE, Bytes::from_static(FACTS.as_bytes()))]);
    assert_eq!(replied, replies());
    let [(first, plain), (second, shared)] = batches.try_into().expect("two batches");
    assert_eq!([first, second], [origin(1), origin(2)]);
    assert!(plain.templated().is_none() && shared.templated().is_some());
    for (rows, numbers) in [(plain, 1..=2), (shared, 3..=4)] {
        let rows = SpanBatch::try_from(rows.whole().unwrap()).unwrap();
        let spans: Vec<Span> = rows.spans().map(Result::unwrap).collect();
        assert_eq!(spans, numbers.map(span).collect::<Vec<_>>());
    }
}

#[test]
fn agents_of_this_version_send_the_recorded_schema_and_metadata() {
    let (recorded, now) = (recorded(), stream());
    assert_eq!(recorded.len(), now.len());
    assert_eq!(recorded[0], now[0], "agents in other languages send this schema");
    for (old, new) in recorded.iter().zip(&now) {
        assert_eq!(old["what"], new["what"]);
        assert_eq!(old["app_metadata"], new["app_metadata"], "{}", old["what"]);
    }
}

#[test]
fn the_document_has_the_columns_and_the_bytes() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    for field in spanwise_model::schema::span_schema().fields() {
        assert!(document.contains(&format!("`{}`", field.name())), "`{}`", field.name());
    }
    for reply in replies() {
        let text = hex::encode(reply.encode());
        assert!(document.contains(&text), "{text}");
    }
    let metadata = PutMetadata { origin: origin(1), facts: None };
    let text = hex::encode(metadata.encode());
    assert!(document.contains(&text), "{text}");
}
