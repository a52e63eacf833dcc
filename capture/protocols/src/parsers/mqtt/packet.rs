//! Control packets of MQTT 3.1, 3.1.1 and 5 (OASIS MQTT 5.0, section 2): a type with flags, the
//! remaining length, and the content.

use crate::bytes::{Side, text};
use crate::framing::{Framing, Measure};
use crate::parser::Likeness;
use crate::redaction;
use crate::trace_headers::TraceHeaders;

pub(super) const CONNECT: u8 = 1;
pub(super) const CONNACK: u8 = 2;
pub(super) const PUBLISH: u8 = 3;
pub(super) const PUBACK: u8 = 4;
pub(super) const PUBREC: u8 = 5;
pub(super) const PUBREL: u8 = 6;
pub(super) const PUBCOMP: u8 = 7;
pub(super) const SUBSCRIBE: u8 = 8;
pub(super) const SUBACK: u8 = 9;
pub(super) const UNSUBSCRIBE: u8 = 10;
pub(super) const UNSUBACK: u8 = 11;
const PINGREQ: u8 = 12;
const PINGRESP: u8 = 13;
pub(super) const DISCONNECT: u8 = 14;
const AUTH: u8 = 15;

/// The protocol version in which packets have properties.
pub(super) const VERSION_5: u8 = 5;
/// Maximum bytes of a packet that are read.
const MAX_KEPT_BYTES: usize = 2048;
/// Maximum length of a fixed header.
const MAX_HEADER_BYTES: usize = 5;
/// Maximum length of an acknowledgement at which reading resumes.
const MAX_ACK_BYTES: usize = 1024;
/// Maximum properties of a packet that are read.
const MAX_PROPERTIES: usize = 128;
/// Maximum length of a client id that is shown.
const MAX_CLIENT_ID_BYTES: usize = 128;

/// Result of reading a fixed header.
enum Fixed {
    /// A packet of this type with this remaining length.
    Packet(u8, usize),
    /// More bytes are needed.
    Short,
    /// No valid header.
    No,
}

/// Whether a side may send this first byte: the type, and the flags that the type requires.
fn may_send(side: Side, first: u8) -> bool {
    let client = side == Side::Request;
    match (first >> 4, first & 0x0f) {
        (CONNECT | PINGREQ, 0) | (SUBSCRIBE | UNSUBSCRIBE, 2) => client,
        (CONNACK | SUBACK | UNSUBACK | PINGRESP, 0) => !client,
        // Quality of service 3 does not exist, and messages at 0 are never resent.
        (PUBLISH, flags) => flags & 0b0110 != 0b0110 && flags & 0b1110 != 0b1000,
        (PUBREL, 2) | (PUBACK | PUBREC | PUBCOMP | DISCONNECT | AUTH, 0) => true,
        _ => false,
    }
}

fn fixed(side: Side, header: &[u8]) -> Fixed {
    let Some((first, length)) = header.split_first() else { return Fixed::Short };
    if !may_send(side, *first) {
        return Fixed::No;
    }
    let mut value = 0;
    for (index, byte) in length.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let kind = first >> 4;
            let possible = match kind {
                PINGREQ | PINGRESP => value == 0,
                PUBACK | PUBREC | PUBREL | PUBCOMP | CONNACK => value >= 2,
                PUBLISH => value >= 2,
                CONNECT => value >= 10,
                SUBSCRIBE | UNSUBSCRIBE => value >= 5,
                SUBACK => value >= 3,
                UNSUBACK => value >= 2,
                _ => true,
            };
            return if possible { Fixed::Packet(kind, value) } else { Fixed::No };
        }
    }
    if length.len() >= 4 { Fixed::No } else { Fixed::Short }
}

/// Framing of one side's packets.
#[derive(Debug)]
pub(super) struct Packets(pub(super) Side);

impl Framing for Packets {
    fn measure(&self, header: &[u8]) -> Measure {
        match fixed(self.0, header) {
            Fixed::Packet(_, bytes) => {
                Measure::Content { bytes: bytes as u64, keep: MAX_KEPT_BYTES }
            }
            Fixed::Short if header.len() < MAX_HEADER_BYTES => {
                Measure::Header((header.len() + 1).max(2))
            }
            _ => Measure::Malformed,
        }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        // The first packet must have valid content; for the others, a valid header is enough.
        for index in 0.. {
            let Fixed::Packet(kind, length) = fixed(self.0, rest) else {
                return index > 0 && rest.is_empty();
            };
            let header = 1 + rest[1..].iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
            let content = &rest[header..];
            let right = match kind {
                PUBLISH => is_publish(rest[0], content, length),
                SUBSCRIBE | UNSUBSCRIBE => content.len() >= length,
                _ => length <= MAX_ACK_BYTES && content.len() >= length,
            };
            if index == 0 && !right {
                return false;
            }
            match content.get(length..) {
                Some(after) => rest = after,
                None => return true,
            }
        }
        false
    }
}

/// Whether the bytes after a fixed header can be a PUBLISH packet.
fn is_publish(first: u8, content: &[u8], length: usize) -> bool {
    let mut reader = Reader(content);
    let Some(topic) = reader.string() else { return false };
    let room = 2 + topic.len() + if first & 0b0110 != 0 { 2 } else { 0 } <= length;
    let named = std::str::from_utf8(topic)
        .is_ok_and(|topic| !topic.chars().any(|c| c.is_control() || c == '+' || c == '#'));
    room && named && !topic.is_empty()
}

/// Whether bytes look like the start of a connection. No later packet has enough distinctive bytes
/// that only one side can send.
pub(super) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    if side == Side::Response || bytes.first().is_some_and(|first| *first != CONNECT << 4) {
        return Likeness::No;
    }
    match fixed(side, bytes) {
        Fixed::No => Likeness::No,
        Fixed::Short => partly,
        Fixed::Packet(..) => {
            let header = 1 + bytes[1..].iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
            let content = &bytes[header..];
            let names: [&[u8]; 3] = [b"\0\x04MQTT\x04", b"\0\x04MQTT\x05", b"\0\x06MQIsdp\x03"];
            if names.iter().any(|name| content.starts_with(name)) {
                Likeness::Yes
            } else if names.iter().any(|name| name.starts_with(content)) {
                partly
            } else {
                Likeness::No
            }
        }
    }
}

/// The unread rest of a packet. Bytes that were not captured read as absent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Reads a string or binary data.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.short()?;
        self.take(usize::from(length))
    }

    fn variable(&mut self) -> Option<usize> {
        let mut value = 0;
        for index in 0..4 {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads the properties (section 2.2.2). The reader then stands after them, unless they are
    /// cut.
    pub(super) fn properties(&mut self) -> Option<Properties> {
        let length = self.variable()?;
        let mut list = Reader(&self.0[..length.min(self.0.len())]);
        self.0 = self.0.get(length..).unwrap_or_default();
        let mut properties = Properties { bytes: length, ..Properties::default() };
        for _ in 0..MAX_PROPERTIES {
            if list.0.is_empty() || list.property(&mut properties).is_none() {
                break;
            }
        }
        Some(properties)
    }

    fn property(&mut self, properties: &mut Properties) -> Option<()> {
        match self.variable()? {
            0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2a => {
                self.take(1)?;
            }
            0x23 => properties.topic_alias = Some(self.short()?),
            0x13 | 0x21 | 0x22 => {
                self.take(2)?;
            }
            0x02 | 0x11 | 0x18 | 0x27 => {
                self.take(4)?;
            }
            0x0b => {
                self.variable()?;
            }
            0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => {
                self.string()?;
            }
            0x26 => {
                let (name, value) = (self.string()?, self.string()?);
                properties.headers.header(name, value);
            }
            _ => return None,
        }
        Some(())
    }
}

/// The properties that are needed.
#[derive(Debug, Default)]
pub(super) struct Properties {
    /// Length of the properties in bytes.
    bytes: usize,
    /// Trace headers from the user properties.
    pub(super) headers: TraceHeaders,
    pub(super) topic_alias: Option<u16>,
}

/// Reads the version and the client id of a CONNECT packet.
pub(super) fn connect(content: &[u8]) -> Option<(u8, Option<String>)> {
    let mut reader = Reader(content);
    let (_name, version) = (reader.string()?, reader.byte()?);
    let client = (|| {
        let (_flags, _keep_alive) = (reader.byte()?, reader.short()?);
        if version == VERSION_5 {
            reader.properties()?;
        }
        let client = text(reader.string()?, MAX_CLIENT_ID_BYTES);
        Some(redaction::owned(client, redaction::keyed_name))
    })();
    Some((version, client.filter(|client| !client.is_empty())))
}

/// The content of a PUBLISH packet.
#[derive(Debug, Default)]
pub(super) struct Publish<'a> {
    /// Topic; empty if an alias replaces it.
    pub(super) topic: &'a [u8],
    /// Packet identifier for the acknowledgement, if any.
    pub(super) packet: Option<u16>,
    pub(super) properties: Properties,
    /// Length of the message body, if known.
    pub(super) body_bytes: Option<u64>,
}

/// Reads a PUBLISH packet after its fixed header. `length` is the length of its content on the
/// wire.
pub(super) fn publish(first: u8, content: &[u8], length: u64, version: u8) -> Publish<'_> {
    let mut publish = Publish::default();
    let mut reader = Reader(content);
    let _ = (|| {
        publish.topic = match reader.string() {
            Some(topic) => topic,
            None => {
                // The topic is longer than the captured part.
                publish.topic = content.get(2..).unwrap_or_default();
                return None;
            }
        };
        if first & 0b0110 != 0 {
            publish.packet = Some(reader.short()?);
        }
        let mut before = content.len() - reader.0.len();
        if version == VERSION_5 {
            let left = reader.0.len();
            publish.properties = reader.properties()?;
            let cut = reader.0.is_empty();
            let width = 1 + [128, 16_384, 2_097_152]
                .iter()
                .filter(|bound| publish.properties.bytes >= **bound)
                .count();
            before += if cut { width + publish.properties.bytes } else { left - reader.0.len() };
        }
        publish.body_bytes = length.checked_sub(before as u64);
        Some(())
    })();
    publish
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECT_5: &[u8] = b"\x10\x10\0\x04MQTT\x05\x02\0\x3c\0\0\x03abc";

    #[test]
    fn connections_are_recognised_by_their_first_packet() {
        assert_eq!(recognise(Side::Request, CONNECT_5, true), Likeness::Yes);
        for end in 1..9 {
            let found = recognise(Side::Request, &CONNECT_5[..end], true);
            assert_eq!(found, Likeness::Maybe, "{end}");
            assert_eq!(recognise(Side::Request, &CONNECT_5[..end], false), Likeness::No);
        }
        let old = b"\x10\x80\x01\0\x06MQIsdp\x03\x02\0\x3c";
        assert_eq!(recognise(Side::Request, old, true), Likeness::Yes);
        for foreign in [
            b"\x10\0\0\0\x0eSELECT 1".as_slice(),
            b"\x10\x10\0\x04MQTT\x07",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            b"\xc0\0",
            b"0\x05\0\x01tab",
        ] {
            assert_eq!(recognise(Side::Request, foreign, true), Likeness::No);
            assert_eq!(recognise(Side::Response, foreign, true), Likeness::No);
        }
    }

    #[test]
    fn what_a_packet_says_is_read() {
        assert_eq!(connect(&CONNECT_5[2..]), Some((5, Some("abc".to_owned()))));
        let content = b"\0\x03a/b\0\x07\x0b\x26\0\x02b3\0\x01x\x23\0\x02body";
        let found = publish(0x32, content, content.len() as u64, VERSION_5);
        assert_eq!((found.topic, found.packet), (b"a/b".as_slice(), Some(7)));
        assert_eq!(found.properties.topic_alias, Some(2));
        assert_eq!(found.body_bytes, Some(4));
        let found = publish(0x30, b"\0\x03a/bbody", 1009, 4);
        assert_eq!((found.packet, found.body_bytes), (None, Some(1004)));
        // Cut within the properties.
        let found = publish(0x32, &content[..12], 1000, VERSION_5);
        assert_eq!(found.body_bytes, Some(1000 - 19));
    }

    #[test]
    fn reading_sets_in_again_only_at_packets() {
        let begins = |bytes: &[u8]| Packets(Side::Response).begins(bytes);
        assert!(begins(b"\x30\x07\0\x03a/bxx"));
        assert!(begins(b"\x40\x02\0\x01\xd0\0"));
        assert!(begins(b"\x30\x81\x10\0\x03a/bxx"));
        for wrong in [
            b"\x30\x07\0\x30a/bxx".as_slice(),
            b"\x30\x07\0\x03a\x01bxx",
            b"\x40\x02\0\x01\xff",
            b"\xc0\0",
            b"\x82\x05\0\x01\0\0\0",
            b"",
        ] {
            assert!(!begins(wrong), "{}", wrong.escape_ascii());
        }
    }
}
