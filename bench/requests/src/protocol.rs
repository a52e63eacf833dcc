//! Requests and the end of responses of some protocols, as far as benchmarks need them.

use std::io::Write as _;

use anyhow::Context as _;
use clap::ValueEnum;

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1, `GET`.
    Http,
    /// Redis: `GET`, and every tenth time `SET`.
    Redis,
    /// Memcached's text protocol: `get`, and every tenth time `set`.
    Memcached,
}

/// The result of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The request failed.
    pub(crate) error: bool,
    /// The server closes the connection.
    pub(crate) closes: bool,
}

const VALUE: &str = "a value that is neither long nor short";
/// One request in this many writes.
const WRITE_EACH: u64 = 10;
const MOST_HEADERS: usize = 64;

impl Protocol {
    /// Appends the request with this number to `into`.
    pub(crate) fn request(self, paths: &[String], items: u64, number: u64, into: &mut Vec<u8>) {
        into.clear();
        let item = number % items.max(1) + 1;
        let writes = number.is_multiple_of(WRITE_EACH);
        // Writing to a Vec cannot fail.
        let _ = match self {
            Self::Http => {
                let path = &paths[number as usize % paths.len()];
                let path = path.replace("{}", &item.to_string());
                write!(into, "GET {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\n\r\n")
            }
            Self::Redis => {
                let key = format!("item:{item}");
                let length = key.len();
                if writes {
                    let value = VALUE.len();
                    write!(into, "*3\r\n$3\r\nSET\r\n${length}\r\n{key}\r\n${value}\r\n{VALUE}\r\n")
                } else {
                    write!(into, "*2\r\n$3\r\nGET\r\n${length}\r\n{key}\r\n")
                }
            }
            Self::Memcached if writes => {
                write!(into, "set item:{item} 0 0 {}\r\n{VALUE}\r\n", VALUE.len())
            }
            Self::Memcached => write!(into, "get item:{item}\r\n"),
        };
    }

    /// The result of a response, once `bytes` contains all of it. `closed` says that no more bytes
    /// will come.
    ///
    /// # Errors
    /// If the bytes are not a response.
    pub(crate) fn response(self, bytes: &[u8], closed: bool) -> anyhow::Result<Option<Outcome>> {
        match self {
            Self::Http => http(bytes, closed),
            Self::Redis => redis(bytes),
            Self::Memcached => Ok(memcached(bytes)),
        }
    }
}

/// A response of HTTP/1.1, or of HTTP/1.0, which closes connections by default (RFC 9112, sections
/// 6.3 and 9.3).
fn http(bytes: &[u8], closed: bool) -> anyhow::Result<Option<Outcome>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) =
        response.parse(bytes).context("a response is no HTTP/1")?
    else {
        return Ok(None);
    };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let closes = match header("connection") {
        Some(value) if value.eq_ignore_ascii_case("close") => true,
        Some(value) if value.eq_ignore_ascii_case("keep-alive") => false,
        _ => response.version == Some(0),
    };
    let body = &bytes[head..];
    let complete = if let Some(length) = header("content-length") {
        body.len() >= length.trim().parse().context("a Content-Length is no number")?
    } else if header("transfer-encoding").is_some() {
        chunks_end(body)?
    } else {
        closed
    };
    let error = response.code.unwrap_or(0) >= 400;
    Ok(complete.then_some(Outcome { error, closes: closes || closed }))
}

/// Whether a chunked body is complete (RFC 9112, section 7.1), without trailers.
fn chunks_end(mut body: &[u8]) -> anyhow::Result<bool> {
    while let httparse::Status::Complete((head, length)) =
        httparse::parse_chunk_size(body).map_err(|_| anyhow::anyhow!("a chunk has no size"))?
    {
        // Each chunk, including the last, is followed by a line ending.
        let Some(rest) =
            usize::try_from(length).ok().and_then(|length| body.get(head + length + 2..))
        else {
            return Ok(false);
        };
        if length == 0 {
            return Ok(true);
        }
        body = rest;
    }
    Ok(false)
}

/// A reply of one line, or a bulk string (RESP 2).
fn redis(bytes: &[u8]) -> anyhow::Result<Option<Outcome>> {
    let Some(line) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let outcome = Outcome { error: bytes[0] == b'-', closes: false };
    if bytes[0] != b'$' {
        return Ok(Some(outcome));
    }
    let length: i64 = std::str::from_utf8(&bytes[1..line])
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .context("a Redis reply has no length")?;
    // A negative length means null, without a second line.
    let end = usize::try_from(length).map_or(line + 1, |length| line + 1 + length + 2);
    Ok((bytes.len() >= end).then_some(outcome))
}

fn memcached(bytes: &[u8]) -> Option<Outcome> {
    let error = [&b"ERROR"[..], b"CLIENT_ERROR", b"SERVER_ERROR"]
        .iter()
        .any(|text| bytes.starts_with(text));
    let ended = bytes.ends_with(b"\r\n")
        && (error || bytes.starts_with(b"STORED") || bytes.ends_with(b"END\r\n"));
    ended.then_some(Outcome { error, closes: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every response is complete exactly at its last byte.
    #[test]
    fn responses_end_where_they_end() {
        let cases: [(Protocol, &[u8], bool, bool); 11] = [
            (Protocol::Http, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, false),
            (Protocol::Http, b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", true, false),
            (
                Protocol::Http,
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                  3\r\nabc\r\n0\r\n\r\n",
                false,
                true,
            ),
            (Protocol::Http, b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, true),
            (
                Protocol::Http,
                b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
                false,
                false,
            ),
            (Protocol::Redis, b"+OK\r\n", false, false),
            (Protocol::Redis, b"$3\r\nabc\r\n", false, false),
            (Protocol::Redis, b"$-1\r\n", false, false),
            (Protocol::Redis, b"-ERR no\r\n", true, false),
            (Protocol::Memcached, b"VALUE item:1 0 2\r\nab\r\nEND\r\n", false, false),
            (Protocol::Memcached, b"STORED\r\n", false, false),
        ];
        for (protocol, bytes, error, closes) in cases {
            let text = String::from_utf8_lossy(bytes);
            for end in 0..bytes.len() {
                let early = protocol.response(&bytes[..end], false).unwrap();
                assert_eq!(early, None, "{end} bytes of {text}");
            }
            assert_eq!(
                protocol.response(bytes, false).unwrap(),
                Some(Outcome { error, closes }),
                "{text}"
            );
        }
    }

    #[test]
    fn a_body_without_a_length_ends_with_its_connection() {
        let bytes = b"HTTP/1.0 200 OK\r\n\r\nabc";
        assert_eq!(Protocol::Http.response(bytes, false).unwrap(), None);
        let outcome = Outcome { error: false, closes: true };
        assert_eq!(Protocol::Http.response(bytes, true).unwrap(), Some(outcome));
        let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc";
        assert_eq!(Protocol::Http.response(cut, true).unwrap(), None);
    }

    #[test]
    fn requests_differ_and_some_write() {
        let mut requests = std::collections::BTreeSet::new();
        let mut request = Vec::new();
        for number in 0..20 {
            Protocol::Redis.request(&[], 1000, number, &mut request);
            requests.insert(request.clone());
        }
        assert_eq!(requests.len(), 20);
        assert_eq!(requests.iter().filter(|request| request.starts_with(b"*3")).count(), 2);
    }
}
