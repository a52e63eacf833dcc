//! Frames of AMQP 0-9-1 (specification, section 4.2.3): type, channel, size,
//! payload, and an octet that ends them.

use super::fields::Fields;
use super::method::{Method, Sender};
use crate::bytes::Side;
use crate::framing::{Framing, Measure};
use crate::parser::Likeness;
use crate::sessions::SEARCHED_BYTES;

pub(super) const METHOD: u8 = 1;
pub(super) const CONTENT_HEADER: u8 = 2;
pub(super) const BODY: u8 = 3;
pub(super) const HEARTBEAT: u8 = 8;
/// Ends each frame.
pub(super) const FRAME_END: u8 = 0xce;
/// What a client says first: the protocol and its version.
pub(super) const PRELUDE: &[u8; 8] = b"AMQP\0\0\x09\x01";
/// Bytes of a frame's header.
const HEADER_BYTES: usize = 7;
/// Bytes of a method or of a content header that are looked at.
const MAX_KEPT_BYTES: usize = 4096;
/// Longer frames than brokers agree to (RabbitMQ: 128 KiB unless told otherwise).
const MAX_FRAME_BYTES: u32 = 1 << 27;
/// The only class whose methods carry content.
pub(super) const BASIC: u16 = 60;

/// How one side's frames are told apart.
#[derive(Debug)]
pub(super) struct Frame(pub(super) Side);

fn size_in(header: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(header.get(3..HEADER_BYTES)?.try_into().ok()?))
}

fn is_header(kind: u8, channel: u16, size: u32) -> bool {
    match kind {
        METHOD => (4..=MAX_FRAME_BYTES).contains(&size),
        CONTENT_HEADER => channel != 0 && (14..=MAX_FRAME_BYTES).contains(&size),
        BODY => channel != 0 && size <= MAX_FRAME_BYTES,
        HEARTBEAT => channel == 0 && size == 0,
        _ => false,
    }
}

impl Framing for Frame {
    fn measure(&self, header: &[u8]) -> Measure {
        if header.first() == Some(&b'A') {
            return match header.len() {
                ..8 => Measure::Header(8),
                _ if header.starts_with(b"AMQP") => Measure::Content { bytes: 0, keep: 0 },
                _ => Measure::Malformed,
            };
        }
        let (Some([kind, high, low]), Some(size)) = (header.first_chunk(), size_in(header)) else {
            return Measure::Header(HEADER_BYTES);
        };
        if !is_header(*kind, u16::from_be_bytes([*high, *low]), size) {
            return Measure::Malformed;
        }
        let keep = match *kind {
            METHOD | CONTENT_HEADER => MAX_KEPT_BYTES,
            BODY => SEARCHED_BYTES,
            _ => 0,
        };
        Measure::Content { bytes: u64::from(size) + 1, keep }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        matches!(look(self.0, bytes), Look::Telling | Look::Frame(_))
    }
}

/// What bytes are, taken for a frame.
enum Look {
    /// A frame that only this side sends.
    Telling,
    /// A frame of this many bytes that either side may send.
    Frame(usize),
    /// They may become one.
    Short,
    /// None.
    No,
}

fn look(side: Side, bytes: &[u8]) -> Look {
    let Some(kind) = bytes.first() else { return Look::Short };
    let (Some(channel), Some(size)) = (bytes.get(1..3), size_in(bytes)) else {
        let known = matches!(*kind, METHOD | CONTENT_HEADER | BODY | HEARTBEAT);
        return if known { Look::Short } else { Look::No };
    };
    if !is_header(*kind, u16::from_be_bytes([channel[0], channel[1]]), size) {
        return Look::No;
    }
    let mut payload = Fields(&bytes[HEADER_BYTES..]);
    let mut telling = false;
    match (*kind, payload.short(), payload.short()) {
        (METHOD, Some(class), Some(method)) => match (Method { class, method }.sender(), side) {
            (Some(Sender::Either), _) => {}
            (Some(Sender::Client), Side::Request) | (Some(Sender::Server), Side::Response) => {
                telling = true;
            }
            _ => return Look::No,
        },
        (CONTENT_HEADER, Some(class), Some(weight)) if class != BASIC || weight != 0 => {
            return Look::No;
        }
        _ => {}
    }
    let whole = HEADER_BYTES + size as usize + 1;
    match bytes.get(whole - 1) {
        Some(&FRAME_END) if telling => Look::Telling,
        Some(&FRAME_END) => Look::Frame(whole),
        Some(_) => Look::No,
        None => Look::Short,
    }
}

/// Whether bytes look like the beginning of a message. Frames that either side
/// may send tell nothing by themselves.
pub(super) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    if bytes.first() == Some(&b'A') {
        let known = bytes.len().min(PRELUDE.len());
        return match side {
            Side::Response => Likeness::No,
            Side::Request if bytes[..known] != PRELUDE[..known] => Likeness::No,
            Side::Request if known < PRELUDE.len() => partly,
            Side::Request => Likeness::Yes,
        };
    }
    let mut rest = bytes;
    loop {
        match look(side, rest) {
            Look::Telling => return Likeness::Yes,
            Look::Frame(length) => rest = &rest[length..],
            Look::Short => return partly,
            Look::No => return Likeness::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARE: &[u8] = b"\x01\0\x01\0\0\0\x0e\0\x32\0\x0a\0\0\x02q1\0\0\0\0\0\xce";
    const ACK: &[u8] = b"\x01\0\x01\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\0\x01\0\xce";
    const BEAT: &[u8] = b"\x08\0\0\0\0\0\0\xce";

    #[test]
    fn the_first_bytes_of_a_connection_are_told() {
        assert_eq!(recognise(Side::Request, PRELUDE, true), Likeness::Yes);
        for end in 1..PRELUDE.len() {
            assert_eq!(recognise(Side::Request, &PRELUDE[..end], true), Likeness::Maybe);
            assert_eq!(recognise(Side::Request, &PRELUDE[..end], false), Likeness::No);
        }
        // AMQP 1.0 is another protocol.
        for other in [b"AMQP\0\x01\0\0", b"AMQP\x03\x01\0\0"] {
            assert_eq!(recognise(Side::Request, other, true), Likeness::No);
        }
    }

    #[test]
    fn a_frame_of_a_connection_under_way_is_told_if_only_its_side_sends_it() {
        assert_eq!(recognise(Side::Request, DECLARE, true), Likeness::Yes);
        assert_eq!(recognise(Side::Response, DECLARE, true), Likeness::No);
        for either in [ACK, BEAT] {
            assert_eq!(recognise(Side::Request, either, true), Likeness::Maybe);
            let more = [either, DECLARE].concat();
            assert_eq!(recognise(Side::Request, &more, true), Likeness::Yes);
            assert_eq!(recognise(Side::Response, &more, true), Likeness::No);
        }
        for end in 1..DECLARE.len() {
            assert_eq!(recognise(Side::Request, &DECLARE[..end], true), Likeness::Maybe, "{end}");
        }
    }

    #[test]
    fn frames_without_their_end_are_none() {
        let mut wrong = DECLARE.to_vec();
        *wrong.last_mut().unwrap() = 0;
        assert_eq!(recognise(Side::Request, &wrong, true), Likeness::No);
        for foreign in [
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".as_slice(),
            b"\x01\0\0\0\x0e\0\0\0\0\0\0\0",
            b"\x03\0\0\0\x04ping",
            b"\x08\0\0\0\0\0\0\0",
        ] {
            for side in [Side::Request, Side::Response] {
                assert_eq!(recognise(side, foreign, true), Likeness::No);
            }
        }
    }
}
