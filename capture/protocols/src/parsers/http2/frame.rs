//! HTTP/2's frames (RFC 9113, sections 4 and 6).

use super::Malformed;
use super::hpack::Decoder;
use super::message::Fields;
use crate::bytes::{MAX_HEAD_BYTES, Side};
use crate::framing::{Framing, Measure};
use crate::parser::Likeness;

/// What a client says first (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame's header.
pub(super) const HEADER_BYTES: usize = 9;
/// Content of DATA that is looked at: where gRPC says how long its messages are.
const KEPT_DATA_BYTES: usize = 1024;
/// Longest frame unless its receiver takes longer ones.
const USUAL_FRAME_BYTES: u32 = 16_384;
/// Longest DATA that is taken for one where that is not known.
const LIKELY_DATA_BYTES: u32 = 1 << 20;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    Priority,
    Reset,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// An extension: to be passed over.
    Other,
}

impl Kind {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::Reset,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            _ => Self::Other,
        }
    }

    /// Whether it is part of a header block.
    pub(super) const fn is_block(self) -> bool {
        matches!(self, Self::Headers | Self::PushPromise | Self::Continuation)
    }

    /// The flags that it may have.
    const fn flags(self) -> u8 {
        match self {
            Self::Data => END_STREAM | PADDED,
            Self::Headers => END_STREAM | END_HEADERS | PADDED | PRIORITY,
            Self::Settings | Self::Ping => ACK,
            Self::PushPromise => END_HEADERS | PADDED,
            Self::Continuation => END_HEADERS,
            _ => 0,
        }
    }
}

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) stream: u32,
    length: u32,
    flags: u8,
}

impl Frame {
    pub(super) fn read(header: &[u8]) -> Option<Self> {
        let [high, middle, low, kind, flags, stream @ ..] = header.first_chunk::<HEADER_BYTES>()?;
        Some(Self {
            kind: Kind::of(*kind),
            // The first bit is reserved, and ignored.
            stream: u32::from_be_bytes(*stream) & 0x7fff_ffff,
            length: u32::from_be_bytes([0, *high, *middle, *low]),
            flags: *flags,
        })
    }

    /// Its bytes with its header.
    pub(super) fn bytes(self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.length)
    }

    /// Whether its sender says no more on the stream.
    pub(super) const fn ends_stream(self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Headers) && self.flags & END_STREAM != 0
    }

    /// Whether its header block is complete.
    pub(super) const fn ends_headers(self) -> bool {
        self.flags & END_HEADERS != 0
    }

    /// Whether it takes note of the other side's frame of its kind.
    pub(super) const fn acknowledges(self) -> bool {
        matches!(self.kind, Kind::Settings | Kind::Ping) && self.flags & ACK != 0
    }

    /// Whether length and stream are what its kind demands.
    const fn is_valid(self) -> bool {
        let on_stream = self.stream != 0;
        match self.kind {
            Kind::Data | Kind::Headers | Kind::PushPromise | Kind::Continuation => on_stream,
            Kind::Priority => on_stream && self.length == 5,
            Kind::Reset => on_stream && self.length == 4,
            Kind::Settings => {
                !on_stream
                    && self.length.is_multiple_of(6)
                    && (self.length == 0 || !self.acknowledges())
            }
            Kind::Ping => !on_stream && self.length == 8,
            Kind::GoAway => !on_stream && self.length >= 8,
            Kind::WindowUpdate => self.length == 4,
            Kind::Other => self.length <= USUAL_FRAME_BYTES,
        }
    }

    /// Whether it is what nearly all frames of this side are: for telling frames
    /// from other bytes.
    const fn is_likely(self, side: Side) -> bool {
        let longest = match self.kind {
            Kind::Data => LIKELY_DATA_BYTES,
            Kind::Settings => 600,
            _ => USUAL_FRAME_BYTES,
        };
        let pushes = matches!((side, self.kind), (Side::Request, Kind::PushPromise));
        self.is_valid()
            && !matches!(self.kind, Kind::Other)
            && self.length <= longest
            && self.flags & !self.kind.flags() == 0
            && (self.stream == 0 || self.stream % 2 == 1)
            && !pushes
    }

    /// The content without padding and priority: what is here of it, and how long
    /// it is. `None` where the frame is malformed.
    pub(super) fn fragment(self, content: &[u8]) -> Option<(&[u8], u64)> {
        let (mut content, mut length) = (content, self.length as usize);
        if self.flags & self.kind.flags() & PADDED != 0 {
            let Some((padding, rest)) = content.split_first() else { return Some((&[], 0)) };
            content = rest;
            length = length.checked_sub(1 + usize::from(*padding))?;
        }
        let before = match self.kind {
            Kind::Headers if self.flags & PRIORITY != 0 => 5,
            Kind::PushPromise => 4,
            _ => 0,
        };
        length = length.checked_sub(before)?;
        let content = content.get(before..).unwrap_or_default();
        Some((&content[..content.len().min(length)], length as u64))
    }

    /// Whether this is all of its content.
    const fn is_whole(self, content: &[u8]) -> bool {
        content.len() == self.length as usize
    }
}

/// How one side's frames are told.
#[derive(Debug)]
pub(super) struct Http2Framing {
    pub(super) side: Side,
}

impl Framing for Http2Framing {
    #[inline]
    fn measure(&self, header: &[u8]) -> Measure {
        // No frame begins like this: it would be longer than any is.
        if self.side == Side::Request && header.first() == Some(&PREFACE[0]) {
            return match header.len() {
                _ if !PREFACE.starts_with(header) => Measure::Malformed,
                24.. => Measure::Content { bytes: 0, keep: 0 },
                _ => Measure::Header(PREFACE.len()),
            };
        }
        // The first byte tells a preface from a frame.
        let Some(frame) = Frame::read(header) else {
            return Measure::Header(if header.is_empty() { 1 } else { HEADER_BYTES });
        };
        if !frame.is_valid() {
            return Measure::Malformed;
        }
        let most = match frame.kind {
            Kind::Data => KEPT_DATA_BYTES,
            Kind::Reset | Kind::GoAway => 8,
            kind if kind.is_block() => MAX_HEAD_BYTES,
            _ => 0,
        };
        let length = frame.length as usize;
        Measure::Content { bytes: u64::from(frame.length), keep: length.min(most) }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && look(self.side, bytes).is_some()
    }
}

/// Looks at bytes where a frame may begin: whose they are, as far as their first
/// header block tells. `None` where they are no frames.
fn look(side: Side, bytes: &[u8]) -> Option<Option<Side>> {
    let (mut rest, mut found) = (bytes, None);
    while let Some(frame) = Frame::read(rest) {
        if !frame.is_likely(side) {
            return None;
        }
        let content = &rest[HEADER_BYTES..];
        let content = &content[..content.len().min(frame.length as usize)];
        if frame.kind == Kind::Headers && found.is_none() {
            found = speaker(frame, content).ok()?;
        }
        rest = &rest[HEADER_BYTES + content.len()..];
    }
    // Part of a header is judged by what is there.
    let longest = rest.first().is_none_or(|high| u32::from(*high) << 16 <= LIKELY_DATA_BYTES);
    let kind = rest.get(3).map_or(Kind::Data, |kind| Kind::of(*kind));
    let flags = rest.get(4).is_none_or(|flags| flags & !kind.flags() == 0);
    (longest && kind != Kind::Other && flags).then_some(found)
}

/// Whose header block this is, by its pseudo-header fields (RFC 9113, section
/// 8.3), most of which are in the static table. Trailers have none.
fn speaker(frame: Frame, content: &[u8]) -> Result<Option<Side>, Malformed> {
    let (block, _) = frame.fragment(content).ok_or(Malformed)?;
    let cut = !frame.is_whole(content) || !frame.ends_headers();
    let mut fields = Fields::default();
    Decoder::new().decode(block, cut, &[], |name, value| fields.add(name, value))?;
    let asks = fields.method.is_some() || fields.scheme.is_some() || fields.path.is_some();
    match (fields.status.is_some(), asks) {
        (true, true) => Err(Malformed),
        (true, false) => Ok(Some(Side::Response)),
        (false, true) => Ok(Some(Side::Request)),
        (false, false) => Ok(None),
    }
}

/// Whether bytes look like the beginning of frames.
pub(super) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    if side == Side::Request && bytes.first() == Some(&PREFACE[0]) {
        return match bytes.len() {
            24.. if bytes.starts_with(PREFACE) => Likeness::Yes,
            _ if PREFACE.starts_with(bytes) => partly,
            _ => Likeness::No,
        };
    }
    match look(side, bytes) {
        Some(Some(speaker)) if speaker == side => Likeness::Yes,
        Some(None) => partly,
        _ => Likeness::No,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64";
    const WINDOW: &[u8] = b"\0\0\x04\x08\0\0\0\0\0\0\0\xff\xff";
    /// POST by http, what else refers to before.
    const REQUEST: &[u8] = b"\0\0\x04\x01\x04\0\0\0\x65\x83\x86\xc1\xc0";
    /// 200, what else refers to before.
    const RESPONSE: &[u8] = b"\0\0\x02\x01\x04\0\0\0\x65\x88\xc0";
    const TRAILERS: &[u8] = b"\0\0\x02\x01\x05\0\0\0\x65\xbf\xbe";

    fn both(bytes: &[u8]) -> (Likeness, Likeness) {
        (recognise(Side::Request, bytes, true), recognise(Side::Response, bytes, true))
    }

    #[test]
    fn a_preface_and_header_blocks_tell_who_speaks() {
        assert_eq!(recognise(Side::Request, PREFACE, true), Likeness::Yes);
        assert_eq!(recognise(Side::Response, PREFACE, true), Likeness::No);
        for request in [REQUEST.to_vec(), [WINDOW, SETTINGS, REQUEST].concat()] {
            assert_eq!(both(&request), (Likeness::Yes, Likeness::No));
        }
        for response in [RESPONSE.to_vec(), [TRAILERS, WINDOW, RESPONSE, SETTINGS].concat()] {
            assert_eq!(both(&response), (Likeness::No, Likeness::Yes));
        }
    }

    #[test]
    fn what_both_sides_say_and_what_is_cut_waits_for_more() {
        for bytes in [b"".as_slice(), SETTINGS, WINDOW, TRAILERS, &REQUEST[..7], &SETTINGS[..12]] {
            assert_eq!(both(bytes), (Likeness::Maybe, Likeness::Maybe), "{}", bytes.escape_ascii());
            assert_eq!(recognise(Side::Request, bytes, false), Likeness::No);
        }
        for end in 1..PREFACE.len() {
            assert_eq!(recognise(Side::Request, &PREFACE[..end], true), Likeness::Maybe);
        }
    }

    #[test]
    fn other_protocols_are_not_taken_for_frames() {
        let foreign: [&[u8]; 16] = [
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            b"PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n",
            b"GET / HTTP/1.1\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            // PostgreSQL, MySQL, MongoDB.
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"\0\0\0\x22\0\x03\0\0user\0x\0",
            b"\x4a\0\0\0\x0a8.0.36\0",
            b"\x0e\0\0\0\x03SELECT 1 + 2",
            b"\x35\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0",
            // Kafka, AMQP, MQTT, NATS.
            b"\0\0\0\x23\0\x12\0\x04\0\0\0\x01\0\x07console",
            b"AMQP\0\0\x09\x01",
            b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0",
            b"INFO {\"server_id\":\"x\"}\r\n",
            // Memcached, FastCGI, DNS.
            b"\x80\0\0\x03\0\0\0\0\0\0\0\x03\0\0\0\0",
            b"\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0",
            b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example",
        ];
        for bytes in foreign {
            assert_eq!(both(bytes), (Likeness::No, Likeness::No), "{}", bytes.escape_ascii());
        }
        // A request of HTTP/2 with a status; a stream that is the server's.
        let strange: [&[u8]; 3] = [
            b"\0\0\x03\x01\x04\0\0\0\x65\x83\x86\x88",
            b"\0\0\x02\x01\x04\0\0\0\x02\x83\x86",
            b"\0\0\x02\x01\x02\0\0\0\x01\x83\x86",
        ];
        for bytes in strange {
            assert_eq!(both(bytes), (Likeness::No, Likeness::No), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn padding_that_is_longer_than_its_frame_is_malformed() {
        let frame = Frame::read(b"\0\0\x03\0\x08\0\0\0\x01").unwrap();
        assert_eq!(frame.fragment(b"\x01ab"), Some((b"a".as_slice(), 1)));
        assert_eq!(frame.fragment(b"\x03ab"), None);
    }

    proptest! {
        #[test]
        fn random_bytes_are_not_recognised(bytes in proptest::collection::vec(any::<u8>(), 9..200)) {
            for likeness in [both(&bytes).0, both(&bytes).1] {
                prop_assert_ne!(likeness, Likeness::Yes);
            }
        }
    }
}
