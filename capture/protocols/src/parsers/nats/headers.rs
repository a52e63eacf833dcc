//! Headers of NATS messages (ADR-4), and JetStream's responses.

use crate::bytes::text;
use crate::redaction::{identifier, without_quoted};
use crate::sessions::Failure;
use crate::trace_headers::TraceHeaders;

/// First line of the headers. In messages of the broker itself, a status follows on this line.
const VERSION: &[u8] = b"NATS/1.0";
/// Maximum headers that are read.
const MAX_HEADERS: usize = 64;
/// Maximum length of a text that is shown.
const MAX_TEXT_BYTES: usize = 128;

/// The content of headers.
#[derive(Debug, Default)]
pub(super) struct Headers {
    pub(super) trace: TraceHeaders,
    /// Status that the broker sends instead of a message.
    pub(super) status: Option<(i32, String)>,
    /// Error of a service (ADR-32).
    pub(super) error: Option<Failure>,
    pub(super) message_id: Option<String>,
}

/// Reads headers as far as they were captured.
pub(super) fn headers(bytes: &[u8]) -> Headers {
    let mut headers = Headers::default();
    let Some(rest) = bytes.strip_prefix(VERSION) else { return headers };
    let mut lines = rest.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let status = text(lines.next().unwrap_or_default(), MAX_TEXT_BYTES);
    let (code, description) = status.split_once(' ').unwrap_or((&status, ""));
    headers.status = code.parse().ok().map(|code| (code, description.to_owned()));
    let (mut code, mut reason) = (None, None);
    for line in lines.take(MAX_HEADERS) {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match name {
            b"Nats-Service-Error" => reason = Some(text(value, MAX_TEXT_BYTES)),
            b"Nats-Service-Error-Code" => code = Some(text(value, MAX_TEXT_BYTES)),
            b"Nats-Msg-Id" => headers.message_id = Some(identifier(text(value, MAX_TEXT_BYTES))),
            _ => headers.trace.header(name, value),
        }
    }
    headers.error = code.or_else(|| reason.as_ref().map(|_| "error".to_owned())).map(|kind| {
        let reason = reason.unwrap_or_default();
        Failure { message: format!("{kind}: {reason}"), kind }
    });
    headers
}

/// Whether this payload is JetStream's acknowledgement that it stored a message.
pub(super) fn is_stored(payload: &[u8]) -> bool {
    payload.starts_with(b"{\"stream\":\"") && find(payload, b"\"seq\":").is_some()
}

/// The stream and the number that JetStream gave a message: of its acknowledgement.
pub(super) fn place(payload: &[u8]) -> Option<(&[u8], u64)> {
    let stream = payload.strip_prefix(b"{\"stream\":\"")?;
    let stream = &stream[..memchr::memchr(b'"', stream)?];
    let number = &payload[find(payload, b"\"seq\":")?..];
    let number = number.trim_ascii_start();
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some((stream, std::str::from_utf8(&number[..digits]).ok()?.parse().ok()?))
}

/// The failure in a JetStream response.
pub(super) fn refusal(payload: &[u8]) -> Option<(i32, Failure)> {
    find(payload, b"\"err_code\":")?;
    let code = &payload[find(payload, b"\"code\":")?..];
    let digits = code.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let code: i32 = std::str::from_utf8(&code[..digits]).ok()?.parse().ok()?;
    let description = find(payload, b"\"description\":\"").map_or(b"".as_slice(), |at| {
        payload[at..].split(|byte| *byte == b'"').next().unwrap_or_default()
    });
    let message = format!("{code}: {}", without_quoted(&text(description, MAX_TEXT_BYTES)));
    Some((code, Failure { kind: code.to_string(), message }))
}

/// Position after the first occurrence of `wanted`.
fn find(payload: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(payload, wanted).map(|at| at + wanted.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let found = headers(
            b"NATS/1.0\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\
              Nats-Msg-Id:m-1\r\nNats-Service-Error: no such thing\r\nNats-Service-Error-Code: 404\r\n\r\n",
        );
        assert!(found.trace.parent().is_some() && found.status.is_none());
        assert_eq!(found.message_id.as_deref(), Some("m-1"));
        assert_eq!(found.error.unwrap().message, "404: no such thing");
        let found = headers(b"NATS/1.0 503 No Responders\r\n\r\n");
        assert_eq!(found.status, Some((503, "No Responders".to_owned())));
        assert!(headers(b"garbage").status.is_none());
    }

    #[test]
    fn what_jetstream_answers_is_understood() {
        assert!(is_stored(b"{\"stream\":\"ORDERS\", \"seq\":7}"));
        assert!(!is_stored(b"{\"stream\":\"ORDERS\"}"));
        let stored = b"{\"stream\":\"ORDERS\", \"seq\":7,\"duplicate\":true}";
        assert_eq!(place(stored), Some((b"ORDERS".as_slice(), 7)));
        assert_eq!(place(b"{\"stream\":\"ORDERS\"}"), None);
        let refused =
            b"{\"error\":{\"code\":503,\"err_code\":10076,\"description\":\"not enabled\"}}";
        assert_eq!(refusal(refused).unwrap().1.message, "503: not enabled");
        assert!(refusal(b"{\"error\":{\"code\":503}}").is_none());
    }
}
