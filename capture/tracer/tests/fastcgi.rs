//! Corner cases of FastCGI: several requests at once, losses, and refusals.

mod support;

use spanwise_capture_tracer::event::Direction::{Received, Sent};
use support::{Talk, spans, tracer};

fn record(kind: u8, number: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, number, length[0], length[1], 0, 0], content].concat()
}

fn begin(number: u8) -> Vec<u8> {
    record(1, number, b"\0\x01\x01\0\0\0\0\0")
}

fn params(number: u8, path: &str) -> Vec<u8> {
    let mut content = Vec::new();
    for (name, value) in [("REQUEST_METHOD", "GET"), ("REQUEST_URI", path)] {
        content.extend_from_slice(&[name.len() as u8, value.len() as u8]);
        content.extend_from_slice(name.as_bytes());
        content.extend_from_slice(value.as_bytes());
    }
    [record(4, number, &content), record(4, number, b"")].concat()
}

fn ask(number: u8, path: &str) -> Vec<u8> {
    [begin(number), params(number, path), record(5, number, b"")].concat()
}

fn output(number: u8, text: &str) -> Vec<u8> {
    record(6, number, text.as_bytes())
}

fn end(number: u8, status: u8) -> Vec<u8> {
    record(3, number, &[0, 0, 0, 0, status, 0, 0, 0])
}

fn answer(number: u8) -> Vec<u8> {
    [output(number, "Content-type: text/plain\r\n\r\ngeheim"), end(number, 0)].concat()
}

#[test]
fn requests_that_pass_at_once_are_told_apart() {
    let asked = [begin(1), begin(2), params(2, "/b"), params(1, "/a")].concat();
    let mixed = [
        output(2, "Status: 404 No"),
        output(1, "Status: 500 No\r\n\r\n"),
        output(2, "t Found\r\n\r\n"),
        end(2, 0),
        end(1, 0),
    ];
    let talk = Talk::new().ask(&asked).answer(&mixed.concat());
    assert_eq!(talk.spans(), ["GET /b", "GET /a: HTTP 500"]);
    let found = spans(&mut tracer(), &talk.events);
    assert_eq!(found[0].status_code, Some(404));
}

#[test]
fn an_end_that_was_not_captured_is_one() {
    let body = output(1, &format!("Content-type: text/plain\r\n\r\n{}", "x".repeat(5000)));
    let whole = [body.clone(), end(1, 0)].concat();
    let talk = Talk::new().ask(&ask(1, "/a"));
    let talk = talk.cut(Sent, &whole[..1024], whole.len() as u32 - 1024);
    let talk = talk.ask(&ask(1, "/b")).answer(&answer(1));
    assert_eq!(talk.spans(), ["GET /a", "GET /b"]);
    assert!(!talk.counters().contains_key("framing_lost"));
    // Of records in between nobody knows: the response ends by silence.
    let whole = [body.clone(), body, end(1, 0)].concat();
    let talk = Talk::new().ask(&ask(1, "/a"));
    let talk = talk.cut(Sent, &whole[..1024], whole.len() as u32 - 1024);
    let talk = talk.ask(&ask(1, "/b")).answer(&answer(1));
    assert_eq!(talk.spans(), ["GET /a", "GET /b"]);
    let found = spans(&mut tracer(), &talk.events);
    assert_eq!(found[0].network.response_bytes, Some(whole.len() as u64));
}

#[test]
fn parameters_of_which_the_end_was_not_captured_are_read_as_far_as_they_are() {
    let whole = [ask(1, "/a"), record(5, 1, &[b'x'; 900])].concat();
    let talk = Talk::new().cut(Received, &whole[..58], whole.len() as u32 - 58);
    let talk = talk.answer(&answer(1)).ask(&ask(1, "/b")).answer(&answer(1));
    assert_eq!(talk.spans(), ["GET /a", "GET /b"]);
    assert_eq!(talk.counters()["heads_cut"], 1);
}

#[test]
fn a_response_is_not_given_to_an_older_request_of_the_same_number() {
    let talk = Talk::new().ask(&ask(1, "/a")).answer(&answer(1)).ask(&ask(1, "/lost"));
    let talk = talk.lost(Sent, answer(1).len() as u32).ask(&ask(1, "/b")).answer(&answer(1));
    let talk = talk.ask(&ask(1, "/c")).answer(&answer(1));
    let found = talk.spans();
    assert!(!found.contains(&"GET /lost".to_owned()), "{found:?}");
    assert_eq!(found.last().map(String::as_str), Some("GET /c"));
    // Nor to a newer one.
    let talk = Talk::new().ask(&ask(1, "/a")).answer(&answer(1));
    let talk = talk.lost(Received, 90).answer(&answer(1)).ask(&ask(1, "/b")).answer(&answer(1));
    assert_eq!(talk.spans(), ["GET /a", "GET /b"]);
    assert_eq!(talk.counters()["orphan_responses"], 1);
}

#[test]
fn refusals_and_aborted_requests_have_failed() {
    let talk = Talk::new().ask(&ask(1, "/a")).answer(&end(1, 2));
    assert_eq!(talk.spans(), ["GET /a: overloaded"]);
    let talk = Talk::new().ask(&ask(1, "/a")).ask(&record(2, 1, b"")).answer(&answer(1));
    assert_eq!(talk.spans(), ["GET /a: aborted"]);
    let exit = record(3, 1, &[0, 0, 0, 255, 0, 0, 0, 0]);
    let talk = Talk::new().ask(&ask(1, "/a")).answer(&exit);
    assert_eq!(talk.spans(), ["GET /a: exit status 255"]);
}

#[test]
fn what_is_remembered_of_requests_is_bounded() {
    let mut talk = Talk::new();
    for number in 1..=200 {
        talk = talk.ask(&begin(number)).ask(&record(4, number, &[b'x'; 8000]));
    }
    let mut tracer = tracer();
    for event in &talk.events {
        tracer.event(&event.event());
        assert!(tracer.held_bytes() < 512 << 10, "{}", tracer.held_bytes());
    }
}

#[test]
fn a_connection_that_is_no_fastcgi_after_all_is_left() {
    let mut talk = Talk::new().ask(&ask(1, "/a")).answer(&answer(1));
    for _ in 0..3 {
        talk = talk.ask(b"what is this").answer(b"what indeed");
    }
    let talk = talk.ask(b"GET /b HTTP/1.1\r\n\r\n").answer(b"HTTP/1.1 204 No\r\n\r\n");
    assert_eq!(talk.spans(), ["GET /a", "GET /b"]);
}
