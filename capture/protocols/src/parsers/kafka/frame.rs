//! Borders of Kafka's messages: a size, and a header that says what a request is
//! or which one is answered ("Protocol Request/Response Headers").

use std::collections::VecDeque;

use super::api::{self, Api};
use super::primitives::Reader;
use crate::bytes::Side;
use crate::framing::{Framing, Measure};
use crate::parser::Likeness;

/// Size, key, version and correlation id of a request.
pub(super) const REQUEST_HEADER_BYTES: usize = 12;
/// Size and correlation id of a response.
const RESPONSE_HEADER_BYTES: usize = 8;
/// Bytes of a message that are looked at: as many as are captured of a call, and
/// some more for messages that come in pieces.
const MAX_KEPT_BYTES: usize = 4096;
/// Longer messages are taken for none. Kafka's own bound on requests is 100 MiB,
/// and 50 MiB may be fetched at once unless somebody wants more.
const MAX_MESSAGE_BYTES: i32 = 1 << 29;
/// Only requests that bring messages along are longer than this.
const MAX_PLAIN_BYTES: i32 = 1 << 20;
/// Longest client id by which a connection is recognised.
const MAX_CLIENT_ID_BYTES: usize = 255;
/// Longest time that a request may want to wait.
const MAX_WAIT_MILLIS: i32 = 3_600_000;
/// Requests of which it is remembered that an answer to them is due.
const MAX_EXPECTED: usize = 1024;

/// What the header of a request says.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestHeader {
    pub(super) api: &'static Api,
    pub(super) version: i16,
    pub(super) correlation: i32,
    size: i32,
}

pub(super) fn request_header(bytes: &[u8]) -> Option<RequestHeader> {
    let mut reader = Reader::new(bytes, false);
    let (size, key) = (reader.int32()?, reader.int16()?);
    let (version, correlation) = (reader.int16()?, reader.int32()?);
    let api = api::api(key)?;
    let possible =
        (8..MAX_MESSAGE_BYTES).contains(&size) && (0..=api::MAX_VERSION).contains(&version);
    possible.then_some(RequestHeader { api, version, correlation, size })
}

/// A client's messages.
#[derive(Debug)]
pub(super) struct Requests;

impl Framing for Requests {
    fn measure(&self, header: &[u8]) -> Measure {
        if header.len() < REQUEST_HEADER_BYTES {
            return Measure::Header(REQUEST_HEADER_BYTES);
        }
        match request_header(header) {
            Some(found) => Measure::Content {
                bytes: u64::from(found.size.unsigned_abs()) - 8,
                keep: MAX_KEPT_BYTES,
            },
            None => Measure::Malformed,
        }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        matches!(look(bytes), Look::Request(_))
    }
}

/// A broker's messages.
#[derive(Debug, Default)]
pub(super) struct Responses {
    /// Correlation ids that the next answers may have.
    expected: VecDeque<i32>,
}

impl Responses {
    /// A request has passed that is to be answered.
    pub(super) fn expect(&mut self, correlation: i32) {
        if self.expected.len() >= MAX_EXPECTED {
            self.expected.pop_front();
        }
        self.expected.push_back(correlation);
    }

    /// An answer has come, and none will to the requests before: answers keep
    /// the order of their requests.
    pub(super) fn answered(&mut self, correlation: i32) {
        if let Some(at) = self.expected.iter().position(|expected| *expected == correlation) {
            self.expected.drain(..=at);
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.expected.capacity() * size_of::<i32>()
    }
}

fn response_header(bytes: &[u8]) -> Option<(i32, i32)> {
    let mut reader = Reader::new(bytes, false);
    Some((reader.int32()?, reader.int32()?))
}

impl Framing for Responses {
    fn measure(&self, header: &[u8]) -> Measure {
        match response_header(header) {
            None => Measure::Header(RESPONSE_HEADER_BYTES),
            Some((size, _)) if (4..MAX_MESSAGE_BYTES).contains(&size) => {
                Measure::Content { bytes: u64::from(size.unsigned_abs()) - 4, keep: MAX_KEPT_BYTES }
            }
            Some(_) => Measure::Malformed,
        }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        response_header(bytes).is_some_and(|(size, correlation)| {
            (4..MAX_MESSAGE_BYTES).contains(&size) && self.expected.contains(&correlation)
        })
    }
}

/// What bytes are, taken for a request.
enum Look {
    /// A request of this many bytes.
    Request(usize),
    /// They may become one.
    Short,
    /// None.
    No,
}

fn look(bytes: &[u8]) -> Look {
    // Requests of 16 MiB and more are hardly the first to be seen.
    if bytes.first().is_some_and(|high| *high != 0) {
        return Look::No;
    }
    if bytes.len() < REQUEST_HEADER_BYTES {
        // What is there must be right already; zeros are right for the rest.
        let mut padded = [0; REQUEST_HEADER_BYTES];
        padded[..bytes.len()].copy_from_slice(bytes);
        let sized = bytes.len() >= 4;
        let possible = !sized || request_header(&padded).is_some();
        return if possible { Look::Short } else { Look::No };
    }
    let Some(header) = request_header(bytes) else { return Look::No };
    let whole = 4 + header.size.unsigned_abs() as usize;
    let brings = matches!(header.api.key, api::PRODUCE);
    if header.correlation < 0 || (header.size > MAX_PLAIN_BYTES && !brings) {
        return Look::No;
    }
    let flexible = header.api.is_flexible(header.version);
    let mut reader = Reader::new(&bytes[REQUEST_HEADER_BYTES..bytes.len().min(whole)], false);
    let complete = bytes.len() >= whole;
    // What is too short though all of it is there is no request.
    let short = if complete { Look::No } else { Look::Short };
    match reader.int16() {
        // Who does not name himself is believed if nothing is missing or over.
        Some(-1) if bytes.len() == whole => {}
        Some(length)
            if (1..=MAX_CLIENT_ID_BYTES).contains(&usize::try_from(length).unwrap_or(0)) =>
        {
            let length = length.unsigned_abs() as usize;
            let name = reader.take(length.min(reader.remaining())).unwrap_or_default();
            if !name.iter().all(|byte| (b' '..=b'~').contains(byte)) {
                return Look::No;
            }
            if name.len() < length {
                return short;
            }
        }
        Some(_) => return Look::No,
        None => return short,
    }
    if flexible {
        match reader.int8() {
            Some(0) => {}
            Some(_) => return Look::No,
            None => return short,
        }
    }
    let mut reader = reader.with_flexible(flexible);
    match plausible(header, &mut reader) {
        Some(true) => Look::Request(whole),
        Some(false) => Look::No,
        None => short,
    }
}

/// Whether what a request begins with can be; `None` where too little of it is
/// there.
fn plausible(header: RequestHeader, reader: &mut Reader<'_>) -> Option<bool> {
    let wait = |millis: i32| (0..=MAX_WAIT_MILLIS).contains(&millis);
    match header.api.key {
        api::PRODUCE => {
            if header.version >= 3 {
                reader.string()?;
            }
            let (acks, timeout) = (reader.int16()?, reader.int32()?);
            Some(matches!(acks, -1..=1) && wait(timeout))
        }
        api::FETCH => {
            let replica = if header.version < 15 { reader.int32()? } else { -1 };
            let (millis, least) = (reader.int32()?, reader.int32()?);
            Some(replica >= -1 && wait(millis) && least >= 0)
        }
        _ => Some(true),
    }
}

/// Whether bytes look like the beginning of a message. A response has nothing to
/// be recognised by.
pub(super) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    if side == Side::Response {
        return Likeness::No;
    }
    match look(bytes) {
        Look::Short => partly,
        Look::No => Likeness::No,
        Look::Request(length) => match bytes.get(length..).map(look) {
            Some(Look::No) => Likeness::No,
            _ => Likeness::Yes,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const API_VERSIONS: &[u8] = b"\0\0\0\x12\0\x12\0\0\0\0\0\x01\0\x08consumer";
    const PRODUCE: &[u8] = b"\0\0\x10\0\0\0\0\x07\0\0\0\x05\0\x07rdkafka\xff\xff\0\x01\0\0\x75\x30";

    #[test]
    fn requests_are_recognised_by_their_header_and_what_they_begin_with() {
        assert_eq!(recognise(Side::Request, API_VERSIONS, true), Likeness::Yes);
        for end in 1..API_VERSIONS.len() {
            let found = recognise(Side::Request, &API_VERSIONS[..end], true);
            assert_eq!(found, Likeness::Maybe, "{end}");
        }
        assert_eq!(recognise(Side::Response, API_VERSIONS, true), Likeness::No);
        let two = [API_VERSIONS, API_VERSIONS].concat();
        assert_eq!(recognise(Side::Request, &two, true), Likeness::Yes);
        let wrong = [API_VERSIONS, b"\x16\x03\x01"].concat();
        assert_eq!(recognise(Side::Request, &wrong, true), Likeness::No);
        // Larger than what is captured.
        assert_eq!(recognise(Side::Request, PRODUCE, false), Likeness::Yes);
        let mut wrong = PRODUCE.to_vec();
        wrong[23] = 9;
        assert_eq!(recognise(Side::Request, &wrong, false), Likeness::No);
    }

    #[test]
    fn other_protocols_with_a_length_first_are_not() {
        for foreign in [
            // PostgreSQL's startup and its request for encryption.
            b"\0\0\0\x22\0\x03\0\0user\0shop\0database\0shop\0\0".as_slice(),
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            // A DNS query over TCP, a MongoDB message, a MySQL command.
            b"\0\x1d\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01",
            b"\x3a\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0",
            b"\x09\0\0\0\x03SELECT 1",
            b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            let found = recognise(Side::Request, foreign, true);
            assert_eq!(found, Likeness::No, "{}", foreign.escape_ascii());
        }
    }

    #[test]
    fn responses_set_in_where_an_expected_one_begins() {
        let mut responses = Responses::default();
        responses.expect(7);
        responses.expect(8);
        assert!(responses.begins(b"\0\0\0\x20\0\0\0\x08"));
        assert!(!responses.begins(b"\0\0\0\x20\0\0\0\x09"));
        responses.answered(8);
        assert!(!responses.begins(b"\0\0\0\x20\0\0\0\x07"));
        for correlation in 0..10_000 {
            responses.expect(correlation);
        }
        assert!(responses.held_bytes() < 16 << 10);
    }
}
