use spanwise_model::{AttributeValue, Kind, TraceId};

use super::*;

const MINUTE: i64 = 60_000_000_000;

fn attributes(told: &[(&str, &str)]) -> Vec<(String, AttributeValue)> {
    let value = |text: &str| match text.starts_with('[') {
        true => AttributeValue::Json(text.into()),
        false => AttributeValue::String(text.into()),
    };
    told.iter().map(|(key, text)| ((*key).to_owned(), value(text))).collect()
}

fn found(place: &str, told: &[(&str, &str)]) -> Option<String> {
    let place: Place = place.parse().expect("is a place");
    place.find(&attributes(told)).map(std::borrow::Cow::into_owned)
}

#[test]
fn keys_are_found_in_their_places() {
    let cases: &[(&str, &str, &str, Option<&str>)] = &[
        ("header:X-Order-Id", "http.request.header.x-order-id", "[\"4711\"]", Some("4711")),
        ("header:x-order-id", "http.request.header.x_order_id", "4711", Some("4711")),
        ("header:x-order-id", "rpc.grpc.request.metadata.x-order-id", "[\"4711\"]", Some("4711")),
        ("header:x-order-id", "http.request.header.x-order", "4711", None),
        ("query:order", "url.query", "a=1&order=A%2F7+b", Some("A/7 b")),
        ("query:order", "http.target", "/buy?order=7", Some("7")),
        ("query:order", "url.full", "http://shop/buy?order=7#top", Some("7")),
        ("query:order", "url.full", "http://shop?order=7", Some("7")),
        ("query:order", "url.query", "reorder=7&order=", None),
        ("path:/orders/{key}", "url.path", "/orders/4711/items", Some("4711")),
        ("path:/*/orders/{key}/items", "url.path", "/v2/orders/47%2011/items", Some("47 11")),
        ("path:/orders/{key}/items", "url.path", "/orders/4711", None),
        ("path:/orders/{key}", "http.url", "https://shop:8443/orders/4711?x=1", Some("4711")),
        ("path:/orders/{key}", "url.path", "/users/4711", None),
        (
            "body:order.id",
            "http.request.body",
            "{\"id\":1,\"order\":{\"x\":[\"a\",{}],\"id\":47}}",
            Some("47"),
        ),
        (
            "body:id",
            "http.request.body",
            "{\"a\":{\"id\":\"no\"},\"id\":\"\\u00e9\\ud83d\\ude00\"}",
            Some("é😀"),
        ),
        // Cut off after the key, in it, and before it.
        ("body:id", "messaging.message.body", "{\"id\":\"4711\",\"na", Some("4711")),
        ("body:id", "http.request.body", "{\"id\":\"47", None),
        ("body:id", "http.request.body", "{\"id\":47", None),
        ("body:id", "http.request.body", "{\"name\":\"x", None),
        (
            "body:items.sku",
            "http.request.body",
            "{\"items\":[{\"n\":1},{\"sku\":\"s-1\"}]}",
            Some("s-1"),
        ),
        ("body:id", "http.request.body", "{\"id\":4.5}", None),
        (
            "baggage:order.id",
            "http.request.header.baggage",
            "a=b, order.id=47%2C11;p=1",
            Some("47,11"),
        ),
        ("baggage:order.id", "baggage.order.id", "4711", Some("4711")),
        ("attribute:app.order", "app.order", " 4711 ", Some("4711")),
        ("attribute:app.order", "app.order", "  ", None),
        ("message-key", "messaging.kafka.message.key", "4711", Some("4711")),
    ];
    for (place, key, text, wanted) in cases {
        assert_eq!(found(place, &[(key, text)]).as_deref(), *wanted, "{place} in {key}={text}");
    }
    let long = "x".repeat(LONGEST_KEY + 1);
    assert_eq!(found("attribute:a", &[("a", &long)]), None);
    let number = [("a".to_owned(), AttributeValue::Int(-5))];
    assert_eq!("attribute:a".parse::<Place>().unwrap().find(&number).as_deref(), Some("-5"));
    // Deep nesting ends the search, not the program.
    let deep = format!("{}1", "[".repeat(100_000));
    assert_eq!(found("body:id", &[("http.request.body", &format!("{{\"a\":{deep}"))]), None);
}

#[test]
fn what_is_no_place_says_what_is_one() {
    for text in
        ["", "order", "cookie:a", "header:", "path:/orders", "path:/{key}/{key}", "body:a..b"]
    {
        let error = text.parse::<Place>().expect_err(text);
        assert!(error.to_string().contains("attribute:NAME"), "{error}");
    }
}

#[test]
fn a_rule_takes_the_first_place_and_hides_the_key() {
    let places = ["header:x-order", "query:order"].map(|text| text.parse().expect("a place"));
    let mut rule = KeyRule { name: "order".into(), places: places.to_vec(), hash: None };
    let told = attributes(&[("url.query", "order=1"), ("http.request.header.x-order", "2")]);
    assert_eq!(rule.find(&told).as_deref(), Some("2"));
    rule.hash = KeyHash::new(b"a secret of sixteen");
    let hidden = rule.find(&told).expect("a key");
    assert_eq!(hidden, rule.shown("2"));
    assert!(hidden.len() == 32 && rule.find(&told[..1]).expect("a key") != hidden);
    assert_eq!(rule.find(&[]), None);
}

fn visit(trace: u8, service: &'static str, from: i64, to: i64, failed: bool) -> Visit<'static> {
    Visit {
        trace_id: TraceId([trace; 16]),
        service,
        operation: "do",
        kind: Kind::Server,
        start_unix_nano: from * MINUTE,
        end_unix_nano: to * MINUTE,
        failed,
    }
}

#[test]
fn a_timeline_has_steps_gaps_retries_and_hand_offs() {
    let mut packed = visit(1, "packing", 5, 7, false);
    packed.kind = Kind::Consumer;
    let visits = [
        // In another order than that of time.
        visit(3, "shipping", 120, 121, false),
        visit(1, "checkout", 0, 4, false),
        visit(1, "checkout", 1, 2, false),
        visit(1, "stock", 1, 3, false),
        packed,
        visit(2, "shipping", 60, 61, true),
    ];
    let timeline = Timeline::of(&visits, 30 * MINUTE);
    let steps: Vec<_> = (timeline.steps.iter())
        .map(|step| (step.service, step.spans, step.attempt, step.is_message))
        .collect();
    let expected = [
        ("checkout", 2, 1, false),
        ("stock", 1, 1, false),
        ("packing", 1, 1, true),
        ("shipping", 1, 1, false),
        ("shipping", 1, 2, false),
    ];
    assert_eq!(steps, expected);
    let gap = |after, before, minutes| Gap { after, before, nano: minutes * MINUTE };
    assert_eq!(timeline.gaps, [gap(2, 3, 53), gap(3, 4, 59)]);
    let hand =
        |from, to, minutes, is_message| HandOff { from, to, nano: minutes * MINUTE, is_message };
    assert_eq!(timeline.hand_offs, [hand(1, 2, 4, true), hand(2, 3, 55, false)]);
    assert_eq!((timeline.traces, timeline.busy_nano, timeline.left_out), (3, 8 * MINUTE, 0));
    assert_eq!(Timeline::of(&[], MINUTE), Timeline::default());
}

#[test]
fn a_success_ends_the_attempts_and_what_runs_beside_is_none() {
    let visits = [
        visit(1, "pay", 0, 2, true),
        visit(2, "pay", 1, 3, true),
        visit(3, "pay", 4, 5, false),
        visit(4, "pay", 6, 7, true),
    ];
    let attempts: Vec<_> =
        Timeline::of(&visits, MINUTE).steps.iter().map(|step| step.attempt).collect();
    assert_eq!(attempts, [1, 1, 2, 1]);
}

#[test]
fn a_timeline_is_bounded_and_says_what_is_left_out() {
    let many: Vec<Visit<'_>> =
        (0..MAX_STEPS as i64 + 5).map(|at| visit(1, "a", at * 2, at * 2 + 1, false)).collect();
    let timeline = Timeline::of(&many, 2 * MINUTE);
    assert_eq!((timeline.steps.len(), timeline.left_out), (MAX_STEPS, 5));
}
