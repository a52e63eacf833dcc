//! Business keys in recorded streams: the right value comes out, and with `hash` it is nowhere.

mod support;

use std::sync::Arc;

use spanwise_capture_tracer::event::Direction;
use spanwise_capture_tracer::recording::RecordedEvent;
use spanwise_keys::{KeyHash, KeyRule, KeyRules};
use spanwise_model::Span;
use support::{Talk, recordings, render, spans, tracer};

const SECRET: &[u8] = b"a secret of sixteen";
const ATTRIBUTE: &str = "spanwise.key.order";

fn rules(places: &[&str], hash: bool) -> Arc<KeyRules> {
    let places = places.iter().map(|text| text.parse().expect("a place")).collect();
    let rule = KeyRule { name: "order".to_owned(), places, service: None, hash };
    Arc::new(KeyRules::new(vec![rule], KeyHash::new(SECRET)).expect("a rule"))
}

fn found(events: &[RecordedEvent], places: &[&str], hash: bool) -> Vec<Span> {
    let mut tracer = tracer();
    tracer.find_keys(rules(places, hash));
    spans(&mut tracer, events)
}

fn keys(spans: &[Span]) -> Vec<String> {
    let own = |span: &Span| {
        let of = span.attributes.iter().find(|(key, _)| key == ATTRIBUTE);
        of.map(|(_, value)| value.to_string())
    };
    let mut keys: Vec<String> = spans.iter().filter_map(own).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// These keys come out, and hashed they are nowhere.
fn check(events: &[RecordedEvent], places: &[&str], expected: &[&str]) {
    assert_eq!(keys(&found(events, places, false)), expected, "{places:?}");
    let hashed = found(events, places, true);
    let hash = KeyHash::new(SECRET).expect("long enough");
    let mut hashes: Vec<String> = expected.iter().map(|key| hash.hash("order", key)).collect();
    hashes.sort();
    assert_eq!(keys(&hashed), hashes, "{places:?}");
    for span in hashed.iter().filter(|span| span.attributes.iter().any(|(key, _)| key == ATTRIBUTE))
    {
        let shown = format!("{}{span:?}", render(std::slice::from_ref(span)));
        // Shorter ones are in any text.
        for key in expected.iter().filter(|key| key.len() > 4) {
            assert!(!shown.contains(key), "{key} of {places:?} is shown:\n{shown}");
        }
    }
}

fn recorded(protocol: &str, name: &str) -> &'static [RecordedEvent] {
    let of = recordings().iter().find(|(folder, file, _)| folder == protocol && file == name);
    &of.expect("is recorded").2
}

#[test]
fn keys_of_recorded_streams() {
    let bodies = recorded("http1", "bodies");
    check(bodies, &["header:x-none", "path:/orders/{key}/items"], &["42"]);
    let upgraded = recorded("http2", "upgrade");
    check(upgraded, &["path:/orders/{key}"], &["42", "7", "8"]);
    let amqp = recorded("amqp", "blocking");
    check(amqp, &["header:tenant"], &["geheim"]);
    check(amqp, &["message-key"], &["c-1"]);
    check(recorded("kafka", "drivers"), &["message-key"], &["geheim"]);
}

#[test]
fn what_is_secret_in_a_recording_is_found_where_a_rule_says_so() {
    // A password of this name is removed, but who names it as a key wants it.
    let events = recorded("http2", "upgrade");
    check(events, &["query:password"], &["hunter2"]);
}

#[test]
fn without_rules_spans_are_what_they_were() {
    for (_, name, events) in recordings().iter().filter(|(folder, ..)| folder.starts_with("http")) {
        let plain = render(&spans(&mut tracer(), events));
        let none = found(events, &["header:x-none", "body:none", "baggage:none"], false);
        assert_eq!(render(&none), plain, "{name}");
    }
}

fn http1(head: &str, body: &str) -> Talk {
    let length = body.len();
    let request = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    Talk::new().ask(request.as_bytes()).answer(b"HTTP/1.1 404 no 4711\r\nContent-Length: 0\r\n\r\n")
}

#[test]
fn each_place_of_http_1() {
    let head = "POST /shop/v1/orders/47%2011?order=A%2F7&x=1 HTTP/1.1\r\nHost: shop\r\n\
        X-Order-Id: A-4711-x\r\nbaggage: a=b,order.id=88%2C12;p=1\r\nX-Request-ID: req-4711";
    let talk = http1(head, "{\"lines\":[{\"n\":1}],\"order\":{\"id\":\"geheim-1\"}}");
    let cases: [(&[&str], &str); 7] = [
        (&["header:x-order-id"], "A-4711-x"),
        (&["query:order"], "A/7"),
        (&["path:/shop/*/orders/{key}"], "47 11"),
        (&["baggage:order.id"], "88,12"),
        (&["body:order.id"], "geheim-1"),
        (&["header:x-request-id"], "req-4711"),
        (&["body:order.id", "header:x-none", "query:order"], "A/7"),
    ];
    for (places, key) in cases {
        check(&talk.events, places, &[key]);
    }
    check(&talk.events, &["body:order.none"], &[]);
}

#[test]
fn bodies_come_in_parts_in_chunks_and_cut_off() {
    let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let talk = Talk::new()
        .ask(head)
        .ask(b"9\r\n{\"id\":\"47\r\n")
        .ask(b"4\r\n11\"}\r\n0\r\n\r\n")
        .answer(answer);
    check(&talk.events, &["body:id"], &["4711"]);
    let head = b"POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n{\"id\":\"4711\",\"rest\":\"";
    let cut = Talk::new().cut(Direction::Received, head, 4979).answer(answer);
    check(&cut.events, &["body:id"], &["4711"]);
    // One that is cut off is none.
    let head = b"POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n{\"id\":\"4711";
    let cut = Talk::new().cut(Direction::Received, head, 4989).answer(answer);
    check(&cut.events, &["body:id"], &[]);
    // So is the last line of a head.
    let head = b"GET /a HTTP/1.1\r\nHost: a\r\nX-Order: 4711";
    let cut = Talk::new().cut(Direction::Received, head, 100).answer(answer);
    check(&cut.events, &["header:x-order"], &[]);
    check(&cut.events, &["header:host"], &["a"]);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags][..], &stream.to_be_bytes()[..], content].concat()
}

/// A header field that is added to the table.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    [vec![0x40], text(name), text(value)].concat()
}

#[test]
fn headers_and_bodies_of_http_2() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let fields = [
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", "/orders/p-4711?order=q-4711"),
        field("x-order-identifier-of-the-whole-shop", "h-4711"),
        field("baggage", "order.id=b-4711"),
    ]
    .concat();
    let body = b"{\"id\":\"j-4711\"}";
    let settings = frame(4, 0, 0, b"");
    // The second request refers to fields of the first.
    let again: Vec<u8> = (62..67).rev().map(|index| 0x80 | index).collect();
    let ask = [
        preface.to_vec(),
        settings.clone(),
        frame(1, 4, 1, &fields),
        frame(0, 0, 1, &body[..5]),
        frame(0, 1, 1, &body[5..]),
    ]
    .concat();
    let answer = |stream| frame(1, 5, stream, &[0x88]);
    let talk = Talk::new()
        .ask(&ask)
        .answer(&[settings, answer(1)].concat())
        .ask(&frame(1, 5, 3, &again))
        .answer(&answer(3));
    for (place, key) in [
        ("path:/orders/{key}", "p-4711"),
        ("query:order", "q-4711"),
        ("header:X-Order-Identifier-Of-The-Whole-Shop", "h-4711"),
        ("baggage:order.id", "b-4711"),
        ("body:id", "j-4711"),
    ] {
        check(&talk.events, &[place], &[key]);
        let with_key = found(&talk.events, &[place], false);
        let with_key = with_key.iter().filter(|span| !keys(std::slice::from_ref(span)).is_empty());
        assert_eq!(with_key.count(), if place == "body:id" { 1 } else { 2 }, "{place}");
    }
}
