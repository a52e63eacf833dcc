//! FastCGI's records (FastCGI Specification, section 3.3): version, type,
//! request, length, padding.

use crate::bytes::Side;
use crate::framing::{Framing, Measure};
use crate::parser::Likeness;

pub(super) const HEADER_BYTES: usize = 8;
/// Bytes of parameters in a record that are looked at.
const MAX_PARAMS_BYTES: usize = 8 * 1024;
/// Bytes of output in a record that are looked at: the response's head is there.
const MAX_OUTPUT_BYTES: usize = 2 * 1024;
const MAX_ERROR_BYTES: usize = 512;

const VERSION: u8 = 1;
pub(super) const BEGIN_REQUEST: u8 = 1;
pub(super) const ABORT_REQUEST: u8 = 2;
pub(super) const END_REQUEST: u8 = 3;
pub(super) const PARAMS: u8 = 4;
pub(super) const STDIN: u8 = 5;
pub(super) const STDOUT: u8 = 6;
pub(super) const STDERR: u8 = 7;
const DATA: u8 = 8;
const GET_VALUES: u8 = 9;
const GET_VALUES_RESULT: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: u8,
    pub(super) request: u16,
    pub(super) length: u16,
    padding: u8,
}

impl Header {
    /// Reads a header; `None` where it is none of this side.
    pub(super) fn read(side: Side, bytes: &[u8]) -> Option<Self> {
        let [version, kind, request @ .., _, _, padding, _] =
            bytes.first_chunk::<HEADER_BYTES>()?;
        let [length_high, length_low] = [bytes[4], bytes[5]];
        let header = Self {
            kind: *kind,
            request: u16::from_be_bytes([request[0], request[1]]),
            length: u16::from_be_bytes([length_high, length_low]),
            padding: *padding,
        };
        let right = match side {
            Side::Request => match header.kind {
                BEGIN_REQUEST => header.length == 8 && header.request != 0,
                ABORT_REQUEST => header.length == 0 && header.request != 0,
                PARAMS | STDIN | DATA => header.request != 0,
                GET_VALUES => header.request == 0,
                _ => false,
            },
            Side::Response => match header.kind {
                END_REQUEST => header.length == 8 && header.request != 0,
                STDOUT | STDERR => header.request != 0,
                GET_VALUES_RESULT | UNKNOWN_TYPE => header.request == 0,
                _ => false,
            },
        };
        (*version == VERSION && right).then_some(header)
    }

    /// Bytes of the content that are looked at.
    pub(super) fn looked_at(self) -> usize {
        let limit = match self.kind {
            BEGIN_REQUEST | END_REQUEST => 8,
            PARAMS => MAX_PARAMS_BYTES,
            STDOUT => MAX_OUTPUT_BYTES,
            STDERR => MAX_ERROR_BYTES,
            _ => 0,
        };
        limit.min(usize::from(self.length))
    }
}

/// Framing of one side's records.
#[derive(Debug)]
pub(super) struct Records(pub(super) Side);

impl Framing for Records {
    fn measure(&self, header: &[u8]) -> Measure {
        if header.len() < HEADER_BYTES {
            return Measure::Header(HEADER_BYTES);
        }
        match Header::read(self.0, header) {
            Some(header) => Measure::Content {
                bytes: u64::from(header.length) + u64::from(header.padding),
                keep: header.looked_at(),
            },
            None => Measure::Malformed,
        }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        recognise(self.0, bytes, true) == Likeness::Yes
    }
}

/// Whether bytes look like the beginning of a request, or of a response's head.
pub(crate) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    let (kind, may_begin) = match side {
        Side::Request => (BEGIN_REQUEST, &[VERSION, BEGIN_REQUEST][..]),
        Side::Response => (STDOUT, &[VERSION, STDOUT][..]),
    };
    let common = may_begin.len().min(bytes.len());
    if bytes[..common] != may_begin[..common] {
        return Likeness::No;
    }
    if bytes.len() < HEADER_BYTES {
        // A request's number and a length of 8, as far as they are there.
        let plausible = side == Side::Response
            || bytes
                .get(4..)
                .unwrap_or_default()
                .iter()
                .zip([0, 8])
                .all(|(is, right)| *is == right);
        return if plausible { partly } else { Likeness::No };
    }
    let (header, content) = bytes.split_at(HEADER_BYTES);
    let known = Header::read(side, header).is_some_and(|found| found.kind == kind);
    if !known || header[7] != 0 {
        return Likeness::No;
    }
    match side {
        // A role, a flag, and five bytes that are reserved.
        Side::Request => {
            let right = |at: usize, byte: u8| match at {
                0 | 3..=7 => byte == 0,
                1 => matches!(byte, 1..=3),
                _ => byte <= 1,
            };
            match content {
                _ if !content.iter().take(8).enumerate().all(|(at, byte)| right(at, *byte)) => {
                    Likeness::No
                }
                _ if content.len() < 8 => partly,
                _ => Likeness::Yes,
            }
        }
        // A header's name and a colon.
        Side::Response => {
            let name = content.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'-');
            let name = name.count();
            match content.get(name) {
                Some(b':') if (2..64).contains(&name) => Likeness::Yes,
                None if name < 64 => partly,
                _ => Likeness::No,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &[u8] = b"\x01\x01\0\x01\0\x08\0\0\0\x01\x01\0\0\0\0\0";

    #[test]
    fn beginnings_are_recognised() {
        assert_eq!(recognise(Side::Request, BEGIN, true), Likeness::Yes);
        assert_eq!(recognise(Side::Response, BEGIN, true), Likeness::No);
        for end in 0..BEGIN.len() {
            assert_eq!(recognise(Side::Request, &BEGIN[..end], true), Likeness::Maybe, "{end}");
        }
        let output = b"\x01\x06\0\x01\0\x80\0\0X-Powered-By: PHP";
        assert_eq!(recognise(Side::Response, output, true), Likeness::Yes);
        for end in 0..20 {
            assert_eq!(recognise(Side::Response, &output[..end], true), Likeness::Maybe, "{end}");
        }
    }

    #[test]
    fn others_are_not() {
        for (at, byte) in [(0, 2), (1, 2), (5, 9), (7, 1), (8, 1), (9, 4), (10, 2), (15, 1)] {
            let mut changed = BEGIN.to_vec();
            changed[at] = byte;
            assert_eq!(recognise(Side::Request, &changed, true), Likeness::No, "{at}");
        }
        let foreign: [&[u8]; 4] = [
            b"GET / HTTP/1.1\r\n",
            b"\x01\0\0\0\x0e",
            b"\x01\x06\0\x01\0\x20\0\0\0\0\0\0",
            b"\x01\x06\0\0\0\x20\0\0Status: 200",
        ];
        for bytes in foreign {
            for side in [Side::Request, Side::Response] {
                assert_eq!(recognise(side, bytes, true), Likeness::No, "{}", bytes.escape_ascii());
            }
        }
    }
}
