//! Messages put together by hand.

use super::*;

fn message(flags: u8, status: u8, id: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([flags, status]);
    bytes.extend(id.to_be_bytes());
    bytes.extend((content.len() as u32).to_be_bytes());
    bytes.extend(content);
    bytes
}

const CALL: &[u8] = b"\x052.0.2\x09shop.Cart\x050.0.0\x05total\x12Ljava/lang/String;\x06geheim\
    H\x0btraceparent\x30\x3700-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01Z";

fn call(id: u64) -> Vec<u8> {
    message(REQUEST | TWO_WAY | HESSIAN, 0, id, CALL)
}

fn read_request(bytes: &[u8]) -> Request {
    request(facts(bytes).unwrap(), &bytes[HEADER_BYTES..])
}

fn read_answer(bytes: &[u8], serving: bool) -> Answer {
    answer(facts(bytes).unwrap(), &bytes[HEADER_BYTES..], serving)
}

#[test]
fn calls_tell_who_asks() {
    let request = call(7);
    let response = message(HESSIAN, 20, 7, b"\x91\x92");
    assert_eq!(recognise(Side::Request, &request, true), Likeness::Yes);
    assert_eq!(recognise(Side::Response, &request, true), Likeness::No);
    assert_eq!(recognise(Side::Response, &response, true), Likeness::Yes);
    assert_eq!(recognise(Side::Request, &response, true), Likeness::No);
    for end in 0..HEADER_BYTES {
        assert_eq!(recognise(Side::Request, &request[..end], true), Likeness::Maybe, "{end}");
        assert_eq!(recognise(Side::Request, &request[..end], false), Likeness::No, "{end}");
    }
    // Heartbeats come from either: what follows them tells.
    let heartbeat = message(REQUEST | TWO_WAY | EVENT | HESSIAN, 0, 1, b"N");
    for side in [Side::Request, Side::Response] {
        assert_eq!(recognise(side, &heartbeat, true), Likeness::Maybe);
    }
    let both = [heartbeat, request].concat();
    assert_eq!(recognise(Side::Request, &both, true), Likeness::Yes);
}

#[test]
fn others_are_not_recognised() {
    let cases: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n",
        b"\xda\xbc\xc2\0\0\0\0\0\0\0\0\x01\0\0\0\x05",
        // No such serialization; a request with a status; no content; no status.
        b"\xda\xbb\xc0\0\0\0\0\0\0\0\0\x01\0\0\0\x05",
        b"\xda\xbb\xc2\x14\0\0\0\0\0\0\0\x01\0\0\0\x05",
        b"\xda\xbb\xc2\0\0\0\0\0\0\0\0\x01\0\0\0\0",
        b"\xda\xbb\x02\x15\0\0\0\0\0\0\0\x01\0\0\0\x05",
    ];
    for bytes in cases {
        for side in [Side::Request, Side::Response] {
            assert_eq!(recognise(side, bytes, true), Likeness::No, "{}", bytes.escape_ascii());
        }
    }
}

#[test]
fn a_call_is_named_and_its_arguments_are_not_kept() {
    let request = read_request(&call(7));
    assert_eq!(request.operation, "shop.Cart/total");
    assert_eq!(request.stream, 7);
    assert!(request.headers.parent().is_some());
    assert!(!format!("{request:?}").contains("geheim"));
}

#[test]
fn a_call_without_interface_names_its_method_by_an_argument() {
    let content = b"\x052.0.2\x09shop.Cart\x050.0.0\x07$invoke\x12Ljava/lang/String;\x05totalN";
    let request = read_request(&message(REQUEST | TWO_WAY | HESSIAN, 0, 1, content));
    assert_eq!(request.operation, "shop.Cart/total");
}

#[test]
fn what_cannot_be_read_has_a_plain_name() {
    let cases: [(u8, &[u8], &str); 5] = [
        (HESSIAN, b"\x052.0.2\x09shop.Ca", "Dubbo"),
        (HESSIAN, b"\x052.0.2\x09shop.Cart\x050.0.0\x05tot", "shop.Cart"),
        (HESSIAN, b"\x052.0.2\x09shop\nCart\x050.0.0\x05total", "Dubbo"),
        (3, b"\xac\xed\0\x05anything", "Dubbo"),
        (FASTJSON, b"\"2.0.2\"\n\"shop.Cart\"\n\"0.0.0\"\n\"total\"\n", "shop.Cart/total"),
    ];
    for (serialization, content, expected) in cases {
        let request = read_request(&message(REQUEST | TWO_WAY | serialization, 0, 1, content));
        assert_eq!(request.operation, expected);
    }
}

#[test]
fn exceptions_and_bad_states_are_failures() {
    let kind = |bytes: &[u8], serving| read_answer(bytes, serving).failure.map(|f| f.kind);
    let threw = b"\x93C\x1fjava.lang.IllegalStateException\x94\x0ddetailMessage";
    let cut = &threw[..12];
    for (status, content, client, server) in [
        (20, &b"\x91\x92"[..], None, None),
        (20, b"\x92", None, None),
        (20, &threw[..], Some("java.lang.IllegalStateException"), None),
        (20, cut, Some("exception"), None),
        (60, b"\x05gone!", Some("SERVICE_NOT_FOUND"), Some(None)),
        (70, b"\x05oops!", Some("SERVICE_ERROR"), None),
        (100, b"\x05busy!", Some("SERVER_THREADPOOL_EXHAUSTED_ERROR"), None),
    ] {
        let bytes = message(HESSIAN, status, 1, content);
        let client = client.map(str::to_owned);
        assert_eq!(kind(&bytes, false), client, "{status}");
        let server = server.unwrap_or(client);
        assert_eq!(kind(&bytes, true), server, "{status}");
    }
}
