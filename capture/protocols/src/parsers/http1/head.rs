//! HTTP/1 heads (RFC 9112, sections 2 to 6): what a span needs of them.
//! Lenient, for it only watches: what is malformed but was sent is shown.

use std::borrow::Cow;

use spanwise_keys::Carrier;

use crate::formats::http::{self, Asked, Target};
use crate::keys::{self, PathAndQuery};
use crate::redaction;
use crate::sessions::{Alike, Answer, Request, Shared, Tag};
use crate::trace_headers::TraceHeaders;

/// Further registered methods that are met in practice.
pub(super) const OTHER_METHODS: [&str; 11] = [
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
    "SEARCH",
    "PURGE",
    "QUERY",
];

/// How a message's body ends (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// After this many bytes.
    Length(u64),
    /// With the chunk of size 0.
    Chunked,
    /// No header says.
    Unsaid,
}

impl Body {
    const fn length(self) -> Option<u64> {
        match self {
            Self::Length(length) => Some(length),
            Self::Chunked | Self::Unsaid => None,
        }
    }
}

/// What a request's head says beside its path: other requests on the way to the same server
/// say the same.
#[derive(Clone)]
pub(super) struct Beside {
    alike: Shared<Alike>,
    headers: TraceHeaders,
    body: Body,
}

/// The line that begins a request's head.
pub(super) struct RequestLine<'a> {
    pub(super) method: &'a str,
    target: Target<'a>,
    pub(super) version: Option<&'a str>,
    /// What follows it.
    pub(super) headers: &'a [u8],
}

/// A request's head.
#[derive(Clone)]
pub(crate) struct RequestHead {
    pub(crate) request: Shared<Request>,
    pub(super) body: Body,
}

/// What a connection goes on with (RFC 9110, section 7.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upgrade {
    /// RFC 6455.
    WebSocket,
    /// RFC 7540, section 3.2.
    Http2,
}

/// A response's head.
#[derive(Clone)]
pub(crate) struct ResponseHead {
    pub(super) status: u16,
    pub(super) upgrade: Option<Upgrade>,
    pub(super) body: Body,
    pub(crate) answer: Shared<Answer>,
}

/// Position past the empty line that ends a head, searched from `from` on.
pub(crate) fn end_of(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = memchr::memchr(b'\n', bytes.get(at..)?) {
        let line_end = at + found;
        match bytes.get(line_end + 1..)? {
            [b'\n', ..] => return Some(line_end + 2),
            [b'\r', b'\n', ..] => return Some(line_end + 3),
            _ => at = line_end + 1,
        }
    }
    None
}

/// The lines of a head; of one that was cut, the last may be part of a line.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(head);
    std::iter::from_fn(move || {
        let from = rest?;
        let (line, after) = match memchr::memchr(b'\n', from) {
            Some(end) => (&from[..end], Some(&from[end + 1..])),
            None => (from, None),
        };
        rest = after;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

fn headers<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
    })
}

fn body_header(name: &[u8], value: &[u8], body: &mut Body) {
    if name.eq_ignore_ascii_case(b"content-length") {
        let length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
        // A transfer coding overrides a length.
        if let (Some(length), Body::Unsaid) = (length, *body) {
            *body = Body::Length(length);
        }
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        if last.eq_ignore_ascii_case(b"chunked") {
            *body = Body::Chunked;
        }
    }
}

/// Version number of `HTTP/1.1`.
fn version(text: &[u8]) -> Option<&str> {
    let version = text.strip_prefix(b"HTTP/")?;
    matches!(version, [b'1', b'.', b'0' | b'1']).then(|| std::str::from_utf8(version).ok())?
}

/// The four forms of RFC 9112, section 3.2.
fn target<'a>(target: &'a [u8], method: &str) -> Target<'a> {
    if method == "CONNECT" {
        return Target { authority: Some(target), ..Target::default() };
    }
    match memchr::memmem::find(target, b"://") {
        Some(scheme) if !target.starts_with(b"/") && scheme < 16 => {
            let rest = &target[scheme + 3..];
            let slash = redaction::authority_end(rest);
            Target::of(Some(&rest[..slash]), &rest[slash..])
        }
        _ => Target::of(None, target),
    }
}

/// Reads the line that begins a request's head; `None` where it is no request.
pub(super) fn request_line(head: &[u8], complete: bool) -> Option<RequestLine<'_>> {
    let end = memchr::memchr(b'\n', head).unwrap_or(head.len());
    let line = &head[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let headers = head.get(end + 1..).unwrap_or_default();
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let method = std::str::from_utf8(words.next()?).ok()?;
    let raw_target = words.next()?;
    let version = words.next().map(|word| version(word.trim_ascii()));
    let line_cut = !complete && line.len() == head.len();
    let version = match version {
        Some(Some(version)) => Some(version),
        _ if line_cut => None,
        _ => return None,
    };
    let target = target(raw_target, method);
    Some(RequestLine { method, target, version, headers })
}

impl RequestLine<'_> {
    /// Whether what a head says beside its path depends on its target, too.
    pub(super) const fn names_server(&self) -> bool {
        self.target.authority.is_some()
    }

    /// The request of a head with this line.
    pub(super) fn request(&self, beside: Beside) -> RequestHead {
        let mut request = http::request_to(Some(self.method), &self.target);
        request.alike = Some(beside.alike);
        request.headers = beside.headers;
        RequestHead { request: request.into(), body: beside.body }
    }
}

/// Reads a request's head. `complete` where all of it is there; of one that
/// was cut, what is there counts. `None` where it is no request.
pub(crate) fn request(head: &[u8], complete: bool) -> Option<RequestHead> {
    let line = request_line(head, complete)?;
    Some(line.request(beside(&line)))
}

/// What may hold a key of a request's head. Of one that was cut, the last line does not count: a part
/// of a key is another key.
pub(super) struct KeyHead<'a>(RequestLine<'a>);

impl<'a> KeyHead<'a> {
    pub(super) fn of(head: &'a [u8], complete: bool) -> Option<Self> {
        let end = if complete { head.len() } else { memchr::memrchr(b'\n', head)? + 1 };
        request_line(&head[..end], true).map(Self)
    }

    const fn target(&self) -> PathAndQuery<'a> {
        PathAndQuery { path: self.0.target.path, query: self.0.target.query }
    }
}

impl Carrier for KeyHead<'_> {
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        keys::header(headers(lines(self.0.headers)), name)
    }

    fn path(&self) -> Option<&str> {
        self.target().path()
    }

    fn query(&self) -> Option<&str> {
        self.target().query()
    }
}

/// Reads what follows a request's line.
pub(super) fn beside(line: &RequestLine<'_>) -> Beside {
    let RequestLine { method, mut target, version, .. } = *line;
    let mut found = TraceHeaders::default();
    let mut body = Body::Unsaid;
    let mut agent = None;
    for (name, value) in headers(lines(line.headers)) {
        match name.len() {
            // Nothing that is asked for below has a shorter or longer name.
            0..2 | 18.. => {}
            4 if name.eq_ignore_ascii_case(b"host") => {
                target.authority = target.authority.or(Some(value));
            }
            10 if name.eq_ignore_ascii_case(b"user-agent") => agent = Some(value),
            _ => {
                body_header(name, value, &mut body);
                found.header(name, value);
            }
        }
    }

    let length = body.length();
    let asked = Asked { method: Some(method), target, scheme: "http", agent, length, version };
    Beside { alike: Alike(http::alike(&asked)).into(), headers: found, body }
}

/// Reads a response's head, as [`request`] does: that of a request that was
/// `asked`. `serving` where the traced process sent it: then only 5xx is a
/// failure, else 4xx is one too.
pub(crate) fn response(head: &[u8], asked: Tag, serving: bool) -> Option<ResponseHead> {
    let mut lines = lines(head);
    let line = lines.next()?;
    let mut words = line.splitn(3, |byte| *byte == b' ');
    version(words.next()?)?;
    let status: u16 = std::str::from_utf8(words.next()?.trim_ascii()).ok()?.parse().ok()?;
    if !(100..=999).contains(&status) {
        return None;
    }
    let mut body = Body::Unsaid;
    let mut found = TraceHeaders::default();
    let mut upgrade = None;
    for (name, value) in headers(lines) {
        body_header(name, value, &mut body);
        if name.eq_ignore_ascii_case(b"x-request-id") {
            found.header(name, value);
        } else if name.eq_ignore_ascii_case(b"upgrade") && status == 101 {
            upgrade = match value.to_ascii_lowercase().as_slice() {
                b"websocket" => Some(Upgrade::WebSocket),
                b"h2c" => Some(Upgrade::Http2),
                _ => None,
            };
        }
    }
    let mut answer = http::answer(asked, status, body.length(), serving);
    answer.request_id = found.request_id;
    Some(ResponseHead { status, upgrade, body, answer: answer.into() })
}

#[cfg(test)]
mod tests {
    use spanwise_model::AttributeValue;

    use super::*;

    fn attribute<'a>(request: &'a RequestHead, key: &str) -> Option<&'a AttributeValue> {
        request.request.all_attributes().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    #[test]
    fn the_end_of_a_head_is_found_in_both_line_styles() {
        assert_eq!(end_of(b"a\r\nb\r\n\r\nrest", 0), Some(8));
        assert_eq!(end_of(b"a\nb\n\nrest", 0), Some(5));
        assert_eq!(end_of(b"a\r\nb\r\n", 0), None);
        assert_eq!(end_of(b"", 3), None);
    }

    #[test]
    fn every_form_of_target_is_read() {
        let absolute = request(b"GET http://shop:8080/a?b=c HTTP/1.1\r\n\r\n", true).unwrap();
        assert_eq!(attribute(&absolute, "url.path"), Some(&"/a".into()));
        assert_eq!(attribute(&absolute, "url.query"), Some(&"b=c".into()));
        assert_eq!(attribute(&absolute, "server.address"), Some(&"shop".into()));
        assert_eq!(attribute(&absolute, "server.port"), Some(&AttributeValue::Int(8080)));
        for secret in
            ["CONNECT bob:pw@shop:443", "GET http://bob:pw@shop/a", "GET http://b:p/w@shop/a"]
        {
            let found = request(format!("{secret} HTTP/1.1\r\n\r\n").as_bytes(), true).unwrap();
            assert_eq!(attribute(&found, "server.address"), Some(&"shop".into()), "{secret}");
        }
        let connect = request(b"CONNECT [::1]:443 HTTP/1.1\r\n\r\n", true).unwrap();
        assert_eq!(connect.request.tag, Tag::Connect);
        assert_eq!(attribute(&connect, "server.address"), Some(&"::1".into()));
        assert_eq!(attribute(&connect, "server.port"), Some(&AttributeValue::Int(443)));
    }

    #[test]
    fn authorization_and_cookies_are_never_kept() {
        let head = b"GET / HTTP/1.1\r\nAuthorization: Bearer hunter2\r\nCookie: s=hunter2\r\n\r\n";
        let found = request(head, true).unwrap();
        assert!(!format!("{:?}", found.request).contains("hunter2"));
    }

    #[test]
    fn a_transfer_coding_overrides_a_length() {
        for head in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding:chunked\r\ncontent-length:5\r\n\r\n",
        ] {
            assert_eq!(request(head.as_bytes(), true).unwrap().body, Body::Chunked);
        }
    }

    #[test]
    fn a_cut_head_gives_what_is_there_and_a_wrong_one_nothing() {
        let cut = request(b"GET /aaaa", false).unwrap();
        assert_eq!(attribute(&cut, "url.path"), Some(&"/aaaa".into()));
        assert!(request(b"GET /aaaa\r\nHost: x\r\n", false).is_none());
        assert!(request(b"GET / FTP/1.1\r\n\r\n", true).is_none());
        assert!(request(b"", true).is_none());
        assert!(response(b"HTTP/1.1 abc\r\n\r\n", Tag::Plain, true).is_none());
        assert!(response(b"HTTP/2 200\r\n\r\n", Tag::Plain, true).is_none());
    }

    #[test]
    fn only_clients_fail_on_4xx() {
        let head = b"HTTP/1.1 404 Not Found\r\n\r\n";
        assert!(response(head, Tag::Plain, true).unwrap().answer.failure.is_none());
        assert_eq!(
            response(head, Tag::Plain, false).unwrap().answer.failure.as_ref().unwrap().kind,
            "404"
        );
    }
}
