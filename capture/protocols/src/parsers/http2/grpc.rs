//! gRPC over HTTP/2 (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md), named by the
//! semantic conventions for gRPC.

use crate::bytes::text;
use crate::formats::http::add;
use crate::redaction;
use crate::sessions::{Answer, Attributes, Failure, Request};

const MAX_METHOD_BYTES: usize = 256;
const MAX_MESSAGE_BYTES: usize = 512;
/// Bytes before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

pub(super) const CANCELLED: i32 = 1;
const UNKNOWN: i32 = 2;
pub(super) const DEADLINE_EXCEEDED: i32 = 4;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const UNIMPLEMENTED: i32 = 12;
const INTERNAL: i32 = 13;
pub(super) const UNAVAILABLE: i32 = 14;
const DATA_LOSS: i32 = 15;
const UNAUTHENTICATED: i32 = 16;

/// Whether a Content-Type is gRPC's: also `application/grpc+proto`, but not
/// `application/grpc-web`, which is another protocol.
pub(super) fn is_content_type(value: &[u8]) -> bool {
    let rest = value.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Whether a code makes a span one of failure. Those that tell of what the
/// client did wrong are no failure of the server.
const fn is_failure(code: i32, serving: bool) -> bool {
    match code {
        0 => false,
        UNKNOWN | DEADLINE_EXCEEDED | UNIMPLEMENTED | INTERNAL | UNAVAILABLE | DATA_LOSS => true,
        _ => !serving,
    }
}

fn name(code: i32) -> String {
    let known = usize::try_from(code).ok().and_then(|code| spanwise_model::grpc::CODES.get(code));
    known.map_or_else(|| code.to_string(), |known| (*known).to_owned())
}

/// The code that clients take an HTTP status for (doc/http-grpc-status-mapping.md).
pub(super) const fn code_of_status(status: u16) -> i32 {
    match status {
        400 => INTERNAL,
        401 => UNAUTHENTICATED,
        403 => PERMISSION_DENIED,
        404 => UNIMPLEMENTED,
        429 | 502..=504 => UNAVAILABLE,
        _ => UNKNOWN,
    }
}

/// The code that a stream's reset is taken for (doc/PROTOCOL-HTTP2.md, errors).
pub(super) const fn code_of_reset(error: u32) -> i32 {
    match error {
        0x7 => UNAVAILABLE,
        0x8 => CANCELLED,
        0xb => RESOURCE_EXHAUSTED,
        0xc => PERMISSION_DENIED,
        _ => INTERNAL,
    }
}

/// The method that a path names, `package.Service/Method`. gRPC has no query, but
/// nothing keeps a client from sending one, with whatever is in it.
pub(super) fn method(path: &[u8]) -> String {
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let method = text(path.strip_prefix(b"/").unwrap_or(path), MAX_METHOD_BYTES);
    redaction::owned(method, redaction::path)
}

pub(super) fn describe(attributes: &mut Attributes, method: Option<&str>) {
    add(attributes, "rpc.system.name", "grpc");
    if let Some(method) = method {
        add(attributes, "rpc.method", method);
    }
}

/// Only the response says that it was a call.
pub(super) fn turns_out(request: &mut Request) {
    let path = request.attributes.iter().find(|(key, _)| *key == "url.path");
    let path = path.and_then(|(_, path)| path.as_str()).map(|path| method(path.as_bytes()));
    request.attributes.retain(|(key, _)| !key.starts_with("http.") && !key.starts_with("url."));
    describe(&mut request.attributes, path.as_deref());
    request.operation = path.unwrap_or_else(|| "grpc".to_owned());
}

/// The call has ended with this code.
pub(super) fn conclude(answer: &mut Answer, code: i32, message: Option<&str>, serving: bool) {
    let name = name(code);
    answer.status_code = Some(code);
    if is_failure(code, serving) {
        let message = match message {
            Some(message) if !message.is_empty() => format!("{name}: {message}"),
            _ => name.clone(),
        };
        answer.failure = Some(Failure { kind: name.clone(), message });
    }
    add(&mut answer.attributes, "rpc.response.status_code", name);
}

/// A `grpc-message`, in which what is no plain ASCII is written as `%XX`.
pub(super) fn message(value: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().filter(|_| *first == b'%');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    text(&decoded, MAX_MESSAGE_BYTES)
}

/// A `grpc-timeout` in nanoseconds: at most eight digits and a unit.
pub(super) fn timeout_nano(value: &[u8]) -> Option<u64> {
    let (unit, digits) = value.split_last()?;
    let amount: u64 = std::str::from_utf8(digits).ok().filter(|d| d.len() <= 8)?.parse().ok()?;
    let unit_nano = match unit {
        b'H' => 3_600_000_000_000,
        b'M' => 60_000_000_000,
        b'S' => 1_000_000_000,
        b'm' => 1_000_000,
        b'u' => 1_000,
        b'n' => 1,
        _ => return None,
    };
    amount.checked_mul(unit_nano)
}

/// Counts the messages of one side of a call, as long as none of the places
/// where one begins is missed.
#[derive(Debug, Default)]
pub(super) struct Messages {
    count: u64,
    /// Bytes that are left of the last one.
    remaining: u64,
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    missed: bool,
}

impl Messages {
    /// Reads DATA of this length, of which `content` is here.
    pub(super) fn read(&mut self, mut content: &[u8], length: u64) {
        let mut left = length;
        while left > 0 && !self.missed {
            if self.remaining > 0 {
                let passed = self.remaining.min(left);
                self.remaining -= passed;
                left -= passed;
                let passed = usize::try_from(passed).unwrap_or(usize::MAX);
                content = content.get(passed..).unwrap_or_default();
                continue;
            }
            let Some((byte, rest)) = content.split_first() else {
                self.missed = true;
                return;
            };
            self.prefix[self.prefix_bytes] = *byte;
            self.prefix_bytes += 1;
            content = rest;
            left -= 1;
            if self.prefix_bytes == PREFIX_BYTES {
                let [compressed, length @ ..] = self.prefix;
                self.missed = compressed > 1;
                self.remaining = u64::from(u32::from_be_bytes(length));
                self.prefix_bytes = 0;
                self.count += 1;
            }
        }
    }

    /// Frames were missed.
    pub(super) const fn miss(&mut self) {
        self.missed = true;
    }

    /// Whether there was nothing else, if anything.
    pub(super) const fn are_complete(&self) -> bool {
        !self.missed && self.remaining == 0 && self.prefix_bytes == 0
    }

    /// How many there were, where that is known.
    pub(super) fn count(&self) -> Option<i64> {
        (!self.missed).then(|| i64::try_from(self.count).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_of_grpc_are_told() {
        for value in ["application/grpc", "application/grpc+proto", "application/grpc;x=y"] {
            assert!(is_content_type(value.as_bytes()), "{value}");
        }
        for value in ["application/grpc-web", "application/grpcx", "application/json", ""] {
            assert!(!is_content_type(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn a_method_has_no_query() {
        assert_eq!(method(b"/shop.Orders/Get"), "shop.Orders/Get");
        assert_eq!(method(b"/shop.Orders/Get?password=secret"), "shop.Orders/Get");
        assert_eq!(method(b""), "");
    }

    #[test]
    fn messages_are_decoded_and_what_is_wrong_stays() {
        assert_eq!(message(b"no %22A%22 there: 5%"), "no \"A\" there: 5%");
        assert_eq!(message("gr%C3%B6%C3%9Fe %zz %+1".as_bytes()), "größe %zz %+1");
    }

    #[test]
    fn timeouts_have_units() {
        assert_eq!(timeout_nano(b"99u"), Some(99_000));
        assert_eq!(timeout_nano(b"2S"), Some(2_000_000_000));
        for wrong in [b"".as_slice(), b"S", b"1x", b"123456789S", b"-1S"] {
            assert_eq!(timeout_nano(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn a_code_may_be_the_clients_failure_alone() {
        let kind = |code, serving| {
            let mut answer = Answer::default();
            conclude(&mut answer, code, Some("why"), serving);
            answer.failure.map(|failure| failure.message)
        };
        assert_eq!(kind(5, false).as_deref(), Some("NOT_FOUND: why"));
        assert_eq!(kind(5, true), None);
        assert_eq!(kind(13, true).as_deref(), Some("INTERNAL: why"));
        assert_eq!(kind(99, false).as_deref(), Some("99: why"));
        assert_eq!(kind(0, false), None);
    }

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let bytes = b"\0\0\0\0\x03abc\x01\0\0\0\0\0\0\0\x01\0";
        let bytes = [bytes.as_slice(), &[b'x'; 256]].concat();
        for size in 1..bytes.len() {
            let mut messages = Messages::default();
            for piece in bytes.chunks(size) {
                messages.read(piece, piece.len() as u64);
            }
            assert_eq!(messages.count(), Some(3), "in pieces of {size}");
        }
        // Of a large one the beginning is enough, unless another follows unseen.
        let mut messages = Messages::default();
        messages.read(b"\0\0\0\x10\0ab", 4096 + 5);
        assert_eq!(messages.count(), Some(1));
        messages.read(b"", 10);
        assert_eq!(messages.count(), None);
    }
}
