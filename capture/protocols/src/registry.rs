//! The built-in protocols.

use crate::bytes::Side;
use crate::parser::{Known, Likeness};
use crate::parsers::PROTOCOLS;

/// All built-in protocols.
pub const fn known() -> &'static [Known] {
    PROTOCOLS
}

/// Whether a built-in protocol has this name.
pub fn is_built_in(name: &str) -> bool {
    PROTOCOLS.iter().any(|known| known.name == name)
}

/// Recognises the protocol of the first bytes of a direction that any of `sides` may have sent.
/// Returns `Ok(None)` if more bytes are needed. `whole` is true if these are all bytes that the
/// system calls have moved so far. `first` is false if unrecognised bytes went before.
///
/// # Errors
/// If the bytes belong to no known protocol.
pub fn infer(
    bytes: &[u8],
    sides: &[Side],
    whole: bool,
    first: bool,
) -> Result<Option<(&'static Known, Side)>, Unrecognised> {
    let mut maybe = false;
    for side in sides {
        for known in PROTOCOLS {
            match (known.recognise)(*side, bytes, whole) {
                Likeness::Yes => return Ok(Some((known, *side))),
                Likeness::AtFirst if first => return Ok(Some((known, *side))),
                Likeness::Maybe => maybe = true,
                Likeness::AtFirst | Likeness::No => {}
            }
        }
    }
    if maybe && whole { Ok(None) } else { Err(Unrecognised) }
}

/// The bytes belong to no known protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unrecognised;

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Side; 2] = [Side::Request, Side::Response];

    fn guess(bytes: &[u8]) -> Result<Option<(&'static str, Side)>, Unrecognised> {
        infer(bytes, &BOTH, true, true).map(|found| found.map(|(known, side)| (known.name, side)))
    }

    #[test]
    fn each_is_asked_once() {
        let names: std::collections::HashSet<_> =
            PROTOCOLS.iter().map(|known| known.name).collect();
        assert_eq!(names.len(), PROTOCOLS.len(), "{PROTOCOLS:?}");
    }

    #[test]
    fn known_beginnings_are_told_apart() {
        let cases: &[(&[u8], &str, Side)] = &[
            (b"GET / HTTP/1.1\r\n", "http1", Side::Request),
            (b"HTTP/1.1 200 OK\r\n", "http1", Side::Response),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http2", Side::Request),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", "postgresql", Side::Request),
            (b"\0\0\0\x22\0\x03\0\0user\0x\0", "postgresql", Side::Request),
            (b"Q\0\0\0\x0dSELECT 1\0", "postgresql", Side::Request),
            (b"T\0\0\0\x21\0\x01?column?\0", "postgresql", Side::Response),
            (b"\x09\0\0\0\x03SELECT 1", "mysql", Side::Request),
            (b"\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0abcdefgh\0\xff", "mysql", Side::Response),
            (
                b"\x26\0\0\0\x07\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x11\0\0\0\x10ping\0\x01\0\0\0\0",
                "mongodb",
                Side::Request,
            ),
            (b"\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0", "fastcgi", Side::Request),
            (b"\x01\x06\0\x01\0\x20\0\0Status: 404 Not Found", "fastcgi", Side::Response),
            (b"get key\r\n", "memcached", Side::Request),
            (b"set key 0 0 3\r\nabc\r\n", "memcached", Side::Request),
            (b"VALUE key 0 3\r\nabc\r\nEND\r\n", "memcached", Side::Response),
            (b"*1\r\n$4\r\nPING\r\n", "redis", Side::Request),
            (b"PING\r\n", "redis", Side::Request),
            (b"GET key\r\n", "redis", Side::Request),
            (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", "tls", Side::Request),
            (b"\x16\x03\x03\0\x7a\x02\0\0\x76\x03\x03", "tls", Side::Response),
            (b"\x17\x03\x03\0\x13\xa5", "tls", Side::Request),
        ];
        for (bytes, protocol, side) in cases.iter().copied() {
            assert_eq!(guess(bytes), Ok(Some((protocol, side))), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn every_beginning_of_a_known_one_waits_for_more_or_is_told_already() {
        let request = b"OPTIONS * HTTP/1.1\r\n";
        for end in 1..request.len() {
            let found = guess(&request[..end]);
            let right = Ok(Some(("http1", Side::Request)));
            assert!(found == Ok(None) || found == right, "{end}: {found:?}");
        }
    }

    #[test]
    fn words_that_others_say_too_are_believed_at_first_only() {
        for (bytes, side) in [
            (&b"QUIT\r\n"[..], Side::Request),
            (b"AUTH PLAIN\r\n", Side::Request),
            (b"+OK\r\n", Side::Response),
        ] {
            assert_eq!(guess(bytes), Ok(Some(("redis", side))));
            let later = infer(bytes, &BOTH, true, false);
            assert!(!matches!(later, Ok(Some(_))), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn others_are_not_recognised() {
        let foreign: [&[u8]; 5] = [
            b"\x16\x03\x01\x02\0\x03\0\x01\xfc\x03\x03",
            b"PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\0\0\0\0\0\0\0\0\0\0",
            b"\xff\xfe\xfd\xfc\xfb",
        ];
        for bytes in foreign {
            assert_eq!(guess(bytes), Err(Unrecognised), "{}", bytes.escape_ascii());
        }
    }
}
