//! ZMTP 3 (RFC 23 and 37 of ZeroMQ): a greeting of 64 bytes, then frames. A frame is a part of a
//! message, or a command.

use crate::bytes::Side;
use crate::framing::{Framing, Measure};
use crate::parser::Likeness;

pub(super) const MORE: u8 = 1;
const LONG: u8 = 2;
pub(super) const COMMAND: u8 = 4;

const GREETING_BYTES: usize = 64;
/// The signature and the version.
const SIGNATURE_BYTES: usize = 12;
/// Maximum bytes of a frame that are read: names of subscriptions, and properties.
pub(super) const MAX_KEPT_BYTES: usize = 256;

/// Framing of one side.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Whether the greeting has passed.
    pub(super) greeted: bool,
}

/// Whether these may be the first bytes of a greeting.
fn may_greet(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(index, byte)| match index {
        0 => *byte == 0xff,
        9 => *byte == 0x7f,
        10 => *byte == 3,
        11 => *byte <= 1,
        _ => true,
    })
}

pub(super) fn recognise(_: Side, bytes: &[u8], whole: bool) -> Likeness {
    // The length that older versions read there is that of an empty identity.
    let signature = [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3];
    let known = bytes.len().min(signature.len());
    if bytes[..known] != signature[..known] || !may_greet(&bytes[..bytes.len().min(12)]) {
        return Likeness::No;
    }
    match known {
        11 => Likeness::Yes,
        _ if whole => Likeness::Maybe,
        _ => Likeness::No,
    }
}

/// A frame's flags, its header's length and its content's; `None` if it is none.
fn header(bytes: &[u8]) -> Option<(u8, usize, u64)> {
    let flags = *bytes.first()?;
    if flags > 7 || flags & (MORE | COMMAND) == MORE | COMMAND {
        return None;
    }
    if flags & LONG == 0 {
        return Some((flags, 2, u64::from(*bytes.get(1)?)));
    }
    let length = u64::from_be_bytes(*bytes.get(1..9)?.first_chunk()?);
    (length <= i64::MAX as u64).then_some((flags, 9, length))
}

impl Framing for Parts {
    fn measure(&self, bytes: &[u8]) -> Measure {
        if !self.greeted {
            return match bytes.len() {
                _ if !may_greet(bytes) => Measure::Malformed,
                SIGNATURE_BYTES => {
                    Measure::Content { bytes: (GREETING_BYTES - SIGNATURE_BYTES) as u64, keep: 20 }
                }
                _ => Measure::Header(SIGNATURE_BYTES),
            };
        }
        let wanted = match bytes.first() {
            Some(flags) if flags & LONG != 0 => 9,
            _ => 2,
        };
        if bytes.len() < wanted {
            return if bytes.first().is_some_and(|flags| *flags > 7) {
                Measure::Malformed
            } else {
                Measure::Header(wanted)
            };
        }
        match header(bytes) {
            Some((_, _, bytes)) => Measure::Content { bytes, keep: MAX_KEPT_BYTES },
            None => Measure::Malformed,
        }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        let (mut rest, mut frames) = (bytes, 0);
        while !rest.is_empty() {
            let Some((flags, start, length)) = header(rest) else { return false };
            // A long frame could have been short, and ZeroMQ then makes it so.
            if flags & LONG != 0 && length < 256 {
                return false;
            }
            let end = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(start);
            match rest.get(end..) {
                Some(after) => rest = after,
                None => return frames > 0,
            }
            frames += 1;
        }
        frames > 0
    }
}

/// The value of the property `Socket-Type` of a READY or INITIATE command.
pub(super) fn socket_type(mut properties: &[u8]) -> Option<&[u8]> {
    while let Some((length, rest)) = properties.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let size = usize::try_from(u32::from_be_bytes(*size)).ok()?;
        let value = rest.get(..size)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return Some(value);
        }
        properties = &rest[size..];
    }
    None
}

/// A command's name, and what follows it.
pub(super) fn command(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = content.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_known_from_eleven_bytes() {
        let greeting = [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
        assert_eq!(recognise(Side::Request, &greeting, false), Likeness::Yes);
        assert_eq!(recognise(Side::Response, &greeting[..10], true), Likeness::Maybe);
        assert_eq!(recognise(Side::Response, &greeting[..10], false), Likeness::No);
        // Version 2 of the protocol.
        assert_eq!(
            recognise(Side::Request, &[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1], true),
            Likeness::No
        );
    }

    #[test]
    fn frames_have_short_and_long_headers() {
        let parts = Parts { greeted: true };
        let content = |bytes| Measure::Content { bytes, keep: MAX_KEPT_BYTES };
        assert_eq!(parts.measure(&[1, 5]), content(5));
        assert_eq!(parts.measure(&[2, 0, 0, 0, 0, 0, 0, 1, 0]), content(256));
        assert_eq!(parts.measure(&[2, 0]), Measure::Header(9));
        for wrong in [&[5, 0][..], &[8], &[2, 0xff, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(parts.measure(wrong), Measure::Malformed, "{wrong:?}");
        }
        assert!(parts.begins(b"\x01\x00\x00\x02hi"));
        assert!(!parts.begins(b"\x00\x05hi"));
        assert!(!parts.begins(b"\x02\0\0\0\0\0\0\0\x01a"));
    }

    #[test]
    fn properties_are_found_whatever_their_case() {
        let ready = b"\x08Identity\0\0\0\x01x\x0bsocket-type\0\0\0\x03REQ";
        assert_eq!(socket_type(ready), Some(&b"REQ"[..]));
        assert_eq!(socket_type(&ready[..20]), None);
    }
}
