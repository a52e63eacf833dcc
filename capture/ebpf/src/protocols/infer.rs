//! Tells a connection's protocol from first bytes of a message.

use super::{Side, http1, postgresql, redis};

/// A protocol that bytes were recognised as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guess {
    /// HTTP/1.0 or 1.1.
    Http1,
    /// PostgreSQL, version 3.
    Postgresql,
    /// Redis, RESP2 or RESP3.
    Redis,
}

/// How bytes look to a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// They are its.
    Yes,
    /// They are as far as they go.
    Maybe,
    /// They are not.
    No,
}

/// A protocol's opinion of the first bytes that one side sent. `whole` where
/// they are all that the system calls moved so far.
type Recognise = fn(Side, &[u8], bool) -> Likeness;

const PROTOCOLS: [(Guess, Recognise); 3] = [
    (Guess::Http1, http1::recognise),
    (Guess::Postgresql, postgresql::recognise),
    (Guess::Redis, redis::recognise),
];

/// What the first bytes of a direction are taken for, if its speaker may be
/// any of `sides`: `Ok(None)` where more bytes are needed, an error where they
/// are no known protocol's.
pub(crate) fn infer(
    bytes: &[u8],
    sides: &[Side],
    whole: bool,
) -> Result<Option<(Guess, Side)>, Unrecognised> {
    let mut maybe = false;
    for side in sides {
        for (guess, recognise) in PROTOCOLS {
            match recognise(*side, bytes, whole) {
                Likeness::Yes => return Ok(Some((guess, *side))),
                Likeness::Maybe => maybe = true,
                Likeness::No => {}
            }
        }
    }
    if maybe && whole { Ok(None) } else { Err(Unrecognised) }
}

/// The bytes are no known protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unrecognised;

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Side; 2] = [Side::Request, Side::Response];

    fn guess(bytes: &[u8]) -> Result<Option<(Guess, Side)>, Unrecognised> {
        infer(bytes, &BOTH, true)
    }

    #[test]
    fn known_beginnings_are_told_apart() {
        let cases: [(&[u8], Guess, Side); 9] = [
            (b"GET / HTTP/1.1\r\n", Guess::Http1, Side::Request),
            (b"HTTP/1.1 200 OK\r\n", Guess::Http1, Side::Response),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Guess::Postgresql, Side::Request),
            (b"\0\0\0\x22\0\x03\0\0user\0x\0", Guess::Postgresql, Side::Request),
            (b"Q\0\0\0\x0dSELECT 1\0", Guess::Postgresql, Side::Request),
            (b"T\0\0\0\x21\0\x01?column?\0", Guess::Postgresql, Side::Response),
            (b"*1\r\n$4\r\nPING\r\n", Guess::Redis, Side::Request),
            (b"PING\r\n", Guess::Redis, Side::Request),
            (b"GET key\r\n", Guess::Redis, Side::Request),
        ];
        for (bytes, protocol, side) in cases {
            assert_eq!(guess(bytes), Ok(Some((protocol, side))), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn every_beginning_of_a_known_one_waits_for_more_or_is_told_already() {
        let request = b"OPTIONS * HTTP/1.1\r\n";
        for end in 1..request.len() {
            let found = guess(&request[..end]);
            let right = Ok(Some((Guess::Http1, Side::Request)));
            assert!(found == Ok(None) || found == right, "{end}: {found:?}");
        }
    }

    #[test]
    fn others_are_not_recognised() {
        let foreign: [&[u8]; 5] = [
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\0\0\0\0\0\0\0\0\0\0",
            b"\xff\xfe\xfd\xfc\xfb",
        ];
        for bytes in foreign {
            assert_eq!(guess(bytes), Err(Unrecognised), "{}", bytes.escape_ascii());
        }
    }
}
