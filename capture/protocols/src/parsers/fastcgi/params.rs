//! FastCGI's parameters (FastCGI Specification, section 3.4), which are those of
//! CGI (RFC 3875, section 4.1), and CGI's response heads (section 6). Both are
//! put as HTTP/1 has them, so that the same request has the same name in the web
//! server, in the application and on the way between them.

use crate::bytes::text;
use crate::parsers::http1::head;
use crate::redaction::without_quoted;
use crate::sessions::{Answer, Failure, Request, Shared, Tag};

/// Longest head of a response that is looked at.
pub(super) const MAX_HEAD_BYTES: usize = 2 * 1024;
/// Longest part of what was written to standard error that is shown.
const MAX_ERROR_BYTES: usize = 200;

/// A length in one byte or four, and the bytes after it.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [short @ 0..=0x7f, rest @ ..] => Some((usize::from(*short), rest)),
        [a, b, c, d, rest @ ..] => {
            let length = u32::from_be_bytes([a & 0x7f, *b, *c, *d]);
            Some((usize::try_from(length).ok()?, rest))
        }
        _ => None,
    }
}

/// The pairs of name and value; a last one that was cut is left out.
fn pairs(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (name_length, rest) = length(bytes)?;
        let (value_length, rest) = length(rest)?;
        let (name, rest) = rest.split_at_checked(name_length)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        bytes = rest;
        Some((name, value))
    })
}

/// The request that parameters stand for.
pub(super) fn request(params: &[u8]) -> Request {
    let (mut method, mut uri, mut query) = (None, None, None);
    let (mut document, mut script, mut extra) = (None, None, None);
    let (mut host, mut name, mut port) = (None, None, None);
    let mut encrypted = false;
    let mut headers: Vec<u8> = Vec::with_capacity(params.len());
    for (key, value) in pairs(params) {
        // No head can have such a value.
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) || value.is_empty() {
            continue;
        }
        match key {
            b"REQUEST_METHOD" => method = Some(value),
            b"REQUEST_URI" => uri = Some(value),
            b"QUERY_STRING" => query = Some(value),
            b"DOCUMENT_URI" => document = Some(value),
            b"SCRIPT_NAME" => script = Some(value),
            b"PATH_INFO" => extra = Some(value),
            b"HTTP_HOST" => host = Some(value),
            b"SERVER_NAME" => name = Some(value),
            b"SERVER_PORT" => port = Some(value),
            b"HTTPS" => encrypted = !value.eq_ignore_ascii_case(b"off"),
            b"CONTENT_LENGTH" => header(&mut headers, b"Content-Length", value),
            // Each is written as it was, but for its case: `HTTP_X_REQUEST_ID`.
            _ => {
                if let Some(key) = key.strip_prefix(b"HTTP_") {
                    header(&mut headers, key, value);
                }
            }
        }
    }
    let path = match (uri, script) {
        (Some(uri), _) => uri.to_vec(),
        (None, Some(script)) => [script, extra.unwrap_or_default()].concat(),
        (None, None) => document.unwrap_or_default().to_vec(),
    };
    let mut line = method.unwrap_or(b"HTTP").to_vec();
    line.push(b' ');
    line.extend(path.iter().filter(|byte| **byte > b' '));
    if let (None, Some(query)) = (uri, query) {
        line.push(b'?');
        line.extend(query.iter().filter(|byte| **byte > b' '));
    }
    line.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(host) = host {
        header(&mut line, b"Host", host);
    } else if let (Some(name), Some(port)) = (name, port) {
        header(&mut line, b"Host", &[name, b":", port].concat());
    }
    line.extend_from_slice(&headers);
    line.extend_from_slice(b"\r\n");
    let Some(found) = head::request(&line, true) else { return Request::new("HTTP") };
    let mut request = Request { tag: Tag::Plain, ..(*found.request).clone() };
    if let Some(alike) = request.alike.take() {
        request.attributes.extend(alike.0.iter().cloned());
    }
    // The version is the client's with the web server, and not known here.
    request.attributes.retain(|(key, _)| *key != "network.protocol.version");
    if method.is_none() {
        request.attributes.retain(|(key, _)| !key.starts_with("http.request.method"));
    }
    for (key, value) in &mut request.attributes {
        if encrypted && *key == "url.scheme" {
            *value = "https".into();
        }
    }
    request
}

fn header(headers: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    headers.extend(name.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }));
    headers.extend_from_slice(b": ");
    headers.extend_from_slice(value);
    headers.extend_from_slice(b"\r\n");
}

/// Whether a response's head is complete.
pub(super) fn head_is_complete(output: &[u8]) -> bool {
    head::end_of(output, 0).is_some()
}

/// What a response's head says. `serving` where the traced process wrote it.
pub(super) fn answer(output: &[u8], serving: bool) -> Option<Shared<Answer>> {
    let head = &output[..head::end_of(output, 0).unwrap_or(output.len())];
    let mut status: Option<&[u8]> = None;
    let mut redirect = false;
    for line in head.split(|byte| *byte == b'\n') {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"status") {
            status = Some(value);
        }
        redirect |= name.eq_ignore_ascii_case(b"location") && !value.starts_with(b"/");
    }
    // RFC 3875, section 6.2: 200 and 302 need not be said.
    let status = status.unwrap_or(if redirect { b"302" } else { b"200" });
    let mut line = b"HTTP/1.1 ".to_vec();
    line.extend_from_slice(status);
    line.extend_from_slice(b"\r\n");
    line.extend_from_slice(head);
    head::response(&line, Tag::Plain, serving).map(|found| found.answer)
}

/// Makes an answer fail, or tells more of why it does, where what was written to
/// standard error says so.
pub(super) fn take_error(error: &[u8], answer: &mut Answer) {
    let error = text(error, MAX_ERROR_BYTES * 2);
    let line = error.lines().next().unwrap_or_default();
    let line = line.trim_start_matches("PHP message: ").trim();
    if line.is_empty() {
        return;
    }
    let fatal = line.contains("Fatal error") || line.contains("Traceback");
    let line: String = line.chars().take(MAX_ERROR_BYTES).collect();
    let line = without_quoted(&line).into_owned();
    match &mut answer.failure {
        Some(failure) => failure.message = format!("{}: {line}", failure.message),
        None if fatal => {
            answer.failure = Some(Failure { kind: "fatal_error".to_owned(), message: line });
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(params: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in params {
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(&(value.len() as u32 | 1 << 31).to_be_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes
    }

    #[test]
    fn parameters_are_a_request_of_http() {
        let params = encoded(&[
            ("QUERY_STRING", "token=geheim"),
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_URI", "/orders/42?token=geheim"),
            ("HTTPS", "on"),
            ("HTTP_HOST", "shop.example:8080"),
            ("HTTP_TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ("HTTP_X_REQUEST_ID", "r-1"),
            ("HTTP_COOKIE", "session=geheim"),
        ]);
        let request = request(&params);
        assert_eq!(request.operation, "GET /orders/{id}");
        assert!(request.headers.parent().is_some());
        assert_eq!(request.headers.request_id.as_deref(), Some("r-1"));
        let shown = format!("{:?}", request.attributes);
        assert!(shown.contains("https") && !shown.contains("geheim"), "{shown}");
        for end in 0..params.len() {
            let _ = super::request(&params[..end]);
        }
    }

    #[test]
    fn the_path_is_found_without_the_whole_address() {
        let named = |params: &[(&str, &str)]| request(&encoded(params)).operation;
        let script = [("REQUEST_METHOD", "POST"), ("SCRIPT_NAME", "/a.php"), ("PATH_INFO", "/b")];
        assert_eq!(named(&script), "POST /a.php/b");
        assert_eq!(named(&[("REQUEST_METHOD", "GET"), ("DOCUMENT_URI", "/c")]), "GET /c");
        assert_eq!(named(&[("REQUEST_URI", "/d")]), "HTTP /d");
        assert_eq!(named(&[]), "HTTP");
    }

    #[test]
    fn a_status_that_is_not_said_is_known() {
        let status = |output: &[u8]| answer(output, true).and_then(|answer| answer.status_code);
        assert_eq!(status(b"Content-type: text/html\r\n\r\nStatus: 500"), Some(200));
        assert_eq!(status(b"Status: 404 Not Found\r\n\r\n"), Some(404));
        assert_eq!(status(b"Location: https://else.example/\r\n\r\n"), Some(302));
        assert_eq!(status(b"Status: what\r\n\r\n"), None);
    }

    #[test]
    fn errors_are_told_without_values() {
        let mut failed = answer(b"Status: 500 No\r\n\r\n", true).unwrap();
        take_error(
            b"PHP message: PHP Fatal error:  Uncaught E: 'geheim' in /a.php:3\nb",
            &mut failed,
        );
        let message = &failed.failure.as_ref().unwrap().message;
        assert_eq!(message, "HTTP 500: PHP Fatal error:  Uncaught E: '?' in /a.php:3");
        let mut fine = Answer::default();
        take_error(b"PHP message: PHP Warning:  x", &mut fine);
        assert_eq!(fine.failure, None);
    }
}
