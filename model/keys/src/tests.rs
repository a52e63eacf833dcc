use spanwise_model::AttributeRef;

use crate::*;

fn value(text: &str) -> AttributeRef<'_> {
    match text.starts_with('[') {
        true => AttributeRef::Json(text),
        false => AttributeRef::String(text),
    }
}

fn found(place: &str, told: &[(&str, &str)]) -> Option<String> {
    let place: Place = place.parse().expect("is a place");
    let attributes: Vec<_> = told.iter().map(|(key, text)| (*key, value(text))).collect();
    place.find(&SpanAttributes(&attributes)).map(|found| found.text)
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
    let number = [("a", AttributeRef::Int(-5))];
    let place: Place = "attribute:a".parse().expect("a place");
    let found_number = place.find(&SpanAttributes(&number)).map(|found| found.text);
    assert_eq!(found_number.as_deref(), Some("-5"));
    // What an agent has removed is no key.
    assert_eq!(found("query:order", &[("url.query", "order=REDACTED")]), None);
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
fn places_are_written_as_they_are_read() {
    for text in [
        "header:x-order-id",
        "query:order",
        "path:/*/orders/{key}/items",
        "body:order.id",
        "baggage:order.id",
        "attribute:app.order",
        "message-key",
    ] {
        assert_eq!(text.parse::<Place>().expect("a place").to_string(), text);
    }
}

fn rule(name: &str, places: &[&str], hash: bool) -> KeyRule {
    let places = places.iter().map(|text| text.parse().expect("a place")).collect();
    KeyRule { name: name.to_owned(), places, service: None, hash }
}

#[test]
fn a_rule_takes_the_first_place_and_hides_the_key() {
    let told = [("url.query", value("order=%32")), ("http.request.header.x-order", value("2+"))];
    let both = SpanAttributes(&told);
    let query = SpanAttributes(&told[..1]);
    let rules = |hash, secret: &[u8]| {
        // A body is looked at last.
        let places = ["body:id", "header:x-order", "query:order"];
        KeyRules::new(vec![rule("order", &places, hash)], KeyHash::new(secret)).expect("are rules")
    };
    let plain = rules(false, b"");
    let shown = |key: SpanKey| (key.shown, key.hidden);
    let found = plain.find(0, &both).expect("needs no secret").map(shown);
    assert_eq!(found, Some(("2+".to_owned(), Vec::new())));
    assert_eq!(
        (plain.attribute(0), plain.headers()),
        ("spanwise.key.order", &["x-order".to_owned()][..])
    );
    let hashing = rules(true, b"a secret of sixteen");
    let (hash, hidden) = shown(hashing.find(0, &query).expect("a secret").expect("a key"));
    assert_eq!(hidden, ["2", "%32"]);
    assert_eq!(Some(&hash), hashing.shown("order", "2").as_ref());
    assert!(hash.len() == 32 && hashing.shown("order", "2+") != Some(hash));
    assert_eq!(hashing.find(0, &SpanAttributes(&[])), Ok(None));
    // Without a secret, nothing is stored rather than the key.
    let secretless = rules(true, b"");
    assert_eq!(secretless.find(0, &query), Err(Unhashed));
    assert_eq!(secretless.shown("order", "2"), None);
    let mut keys = Vec::new();
    secretless.add(&query, &mut keys);
    assert!(keys.is_empty() && secretless.lacks_secret());
}

#[test]
fn wrong_rules_say_what_to_do() {
    let error = |rules: Vec<KeyRule>| KeyRules::new(rules, None).expect_err("wrong").to_string();
    assert!(error(vec![rule("Order", &["message-key"], false)]).contains("`Order` is no name"));
    assert!(error(vec![rule("", &["message-key"], false)]).contains("no name"));
    assert!(error(vec![rule("order", &[], false)]).contains("has no place"));
    let mixed = [false, true].map(|hash| rule("order", &["message-key"], hash)).to_vec();
    assert!(error(mixed).contains("hash = true"));
    assert!(error(vec![rule("order", &["message-key"], false); 65]).contains("more than 64"));
}
