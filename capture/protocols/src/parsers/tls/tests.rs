//! Tests with handcrafted handshakes.

use super::*;

fn mark(offset: u64, time_nano: u64) -> Mark {
    Mark {
        offset,
        seq: Some(offset as u32),
        time_nano,
        process: 1,
        thread: 1,
        retransmits: 0,
        srtt_micros: 0,
        missed: false,
        ..Mark::NOWHERE
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[kind, 3, 3], &length[..], content].concat()
}

/// A ClientHello, or a ServerHello if `cipher` is given.
fn hello(cipher: Option<u16>, session: &[u8], extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut content = vec![3, 3];
    content.extend([7; 32]);
    content.push(session.len() as u8);
    content.extend(session);
    match cipher {
        Some(cipher) => content.extend([&cipher.to_be_bytes()[..], &[0]].concat()),
        None => content.extend([0, 2, 0x13, 1, 1, 0]),
    }
    let mut list = Vec::new();
    for (kind, bytes) in extensions {
        list.extend(kind.to_be_bytes());
        list.extend((bytes.len() as u16).to_be_bytes());
        list.extend(*bytes);
    }
    content.extend((list.len() as u16).to_be_bytes());
    content.extend(list);
    let kind = if cipher.is_some() { hello::SERVER } else { hello::CLIENT };
    let length = (content.len() as u32).to_be_bytes();
    record(Kind::HANDSHAKE, &[&[kind], &length[1..], &content[..]].concat())
}

const NAME: (u16, &[u8]) = (0, b"\0\x07\0\0\x04shop");
const OFFERS: (u16, &[u8]) = (16, b"\0\x0c\x02h2\x08http/1.1");
const NEW: (u16, &[u8]) = (43, &[3, 4]);

/// Reads turns in pieces of `size`. Each turn also has a number of bytes that were not captured.
fn read(turns: &[(Side, Vec<u8>, u64)], size: usize) -> Handshake {
    let mut handshake = Handshake::default();
    let mut offsets = [0, 0];
    for (number, (side, bytes, unseen)) in turns.iter().enumerate() {
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let unseen = if index + 1 == pieces.len() { *unseen } else { 0 };
            let offset = &mut offsets[*side as usize];
            let mark = mark(*offset, number as u64 * 100);
            *offset += piece.len() as u64 + unseen;
            handshake.read(*side, Input { bytes: piece, unseen, missed: false, mark });
        }
    }
    handshake
}

use Side::{Request, Response};

#[test]
fn a_handshake_of_today_is_read_however_it_is_cut() {
    let turns = [
        (Request, hello(None, b"", &[NAME, OFFERS]), 0),
        (Response, [hello(Some(0x1301), b"", &[NEW]), record(20, &[1])].concat(), 0),
        (Response, record(23, &[9; 600]), 0),
        (Request, [record(20, &[1]), record(23, &[9; 53])].concat(), 0),
    ];
    for size in [1, 2, 7, 5000] {
        let facts = read(&turns, size).into_facts();
        assert_eq!(facts.server_name.as_deref(), Some("shop"), "{size}");
        assert_eq!(facts.offered_protocols, ["h2", "http/1.1"]);
        assert_eq!((facts.version, facts.cipher), (Some(0x0304), Some(0x1301)));
        assert_eq!((facts.resumed, facts.established()), (Some(false), Some(true)));
        assert_eq!(facts.handshake_nano, Some(300));
    }
}

#[test]
fn a_greeting_is_read_as_far_as_it_was_captured() {
    let whole = hello(None, b"", &[NAME, OFFERS, (51, &[1; 1500])]);
    let handshake = read(&[(Request, whole[..1024].to_vec(), whole.len() as u64 - 1024)], 5000);
    let facts = handshake.facts();
    assert_eq!(facts.server_name.as_deref(), Some("shop"));
    assert_eq!(facts.offered_protocols, ["h2", "http/1.1"]);
    assert!(!handshake.is_lost());
}

#[test]
fn early_data_does_not_end_a_handshake() {
    let mut turns = vec![
        (Request, [hello(None, b"", &[NAME]), record(23, &[9; 100])].concat(), 0),
        (
            Response,
            [hello(Some(0x1301), b"", &[NEW, (41, &[0, 0])]), record(23, &[9; 90])].concat(),
            0,
        ),
    ];
    assert_eq!(read(&turns, 5000).facts().established(), None);
    turns.push((Request, record(23, &[9; 60]), 0));
    let handshake = read(&turns, 5000);
    assert_eq!(handshake.facts().established(), Some(true));
    assert_eq!(handshake.facts().resumed, Some(true));
}

#[test]
fn a_refusal_that_is_encrypted_is_told_by_its_length() {
    let turns = [
        (Request, hello(None, b"", &[NAME]), 0),
        (Response, [hello(Some(0x1301), b"", &[NEW]), record(23, &[9; 600])].concat(), 0),
        (Request, record(23, &[9; 19]), 0),
    ];
    let facts = read(&turns, 5000).into_facts();
    assert_eq!(facts.established(), Some(false));
    assert_eq!(facts.failure.map(|failure| failure.kind).as_deref(), Some("tls_encrypted_alert"));
}

#[test]
fn a_refusal_in_clear_is_named_and_a_farewell_is_none() {
    let greeting = (Request, hello(None, b"", &[NAME]), 0);
    let refusal = |code| [greeting.clone(), (Response, record(21, &[2, code]), 0)];
    let kind = |code| {
        let facts = read(&refusal(code), 5000).into_facts();
        facts.failure.map(|failure| failure.kind)
    };
    assert_eq!(kind(70).as_deref(), Some("tls_protocol_version"));
    assert_eq!(kind(250).as_deref(), Some("tls_unknown_alert"));
    assert_eq!(kind(0), None);
}

#[test]
fn a_handshake_seen_in_part_is_not_said_to_have_failed() {
    let answer = hello(Some(0xc02f), b"", &[]);
    let turns = [
        (Request, hello(None, b"", &[NAME]), 0),
        // Neither the certificates nor their end were captured.
        (Response, [answer, record(22, &[9; 100])[..50].to_vec()].concat(), 3000),
        (Request, [record(20, &[1]), record(22, &[9; 40])].concat(), 0),
        (Request, record(21, &[9; 26]), 0),
    ];
    let mut handshake = read(&turns, 5000);
    handshake.closed();
    assert_eq!(handshake.facts().established(), None);

    let mut hung_up = read(&turns[..2], 5000);
    hung_up.closed();
    assert_eq!(hung_up.facts().established(), Some(false), "the client did not go on");
}

#[test]
fn a_session_of_before_is_told_by_its_id() {
    for (answered, resumed) in [(&b"abcd"[..], true), (b"wxyz", false), (b"", false)] {
        let turns = [
            (Request, hello(None, b"abcd", &[NAME]), 0),
            (Response, hello(Some(0xc02f), answered, &[]), 0),
        ];
        assert_eq!(read(&turns, 5000).facts().resumed, Some(resumed));
    }
}

#[test]
fn garbage_in_the_lists_is_left_out() {
    for (name, bytes) in [
        ("a name with a control character", (0, &b"\0\x07\0\0\x04sh\np"[..])),
        ("a name longer than its list", (0, &b"\0\x07\0\0\x44shop"[..])),
        ("an empty list", (0, &b""[..])),
    ] {
        let turns = [(Request, hello(None, b"", &[bytes]), 0)];
        assert_eq!(read(&turns, 5000).facts().server_name, None, "{name}");
    }
    let greased = hello(None, b"", &[(16, b"\0\x06\x02\x0a\x0a\x02h2")]);
    assert_eq!(read(&[(Request, greased, 0)], 5000).facts().offered_protocols, ["h2"]);
}

#[test]
fn recognition_is_strict() {
    let greeting = hello(None, b"", &[NAME]);
    for end in 1..HELLO_BYTES {
        assert_eq!(recognise(Request, &greeting[..end], true), Likeness::Maybe, "{end}");
        assert_eq!(recognise(Request, &greeting[..end], false), Likeness::No, "{end}");
    }
    assert_eq!(recognise(Request, &greeting, true), Likeness::Yes);
    assert_eq!(recognise(Response, &greeting, true), Likeness::No);
    let foreign: [&[u8]; 5] = [
        b"\x16\x03\x01\xff\xff\x01",
        b"\x17\x03\x01\0\x20a",
        b"\x15\x03\x03\0\x02\x02\x28",
        b"\x16\x04",
        b"GET",
    ];
    for bytes in foreign {
        assert_eq!(recognise(Request, bytes, true), Likeness::No, "{}", bytes.escape_ascii());
    }
    let packet = [b"\x20\0\0\x01SSL request\x16".as_slice(), &greeting].concat();
    assert_eq!(beginning(&packet), Some(16));
    assert_eq!(beginning(&packet[..20]), None);
}
