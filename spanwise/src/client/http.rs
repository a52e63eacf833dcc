//! HTTP client for the server's API.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use spanwise_api::Problem;
use tokio::net::TcpStream;

use crate::failure::Failure;
use crate::terminal::harmless;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the server's own query timeout.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Larger answers are refused. They are too large for a terminal.
const ANSWER_MAX_BYTES: usize = 256 << 20;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    method: Method,
    path_and_query: String,
    body: Option<String>,
}

impl Request {
    /// A GET request.
    pub(super) fn get(path: &str) -> Self {
        Self { method: Method::GET, path_and_query: path.to_owned(), body: None }
    }

    /// A POST request with a JSON body.
    pub(super) fn post(path: &str, json: String) -> Self {
        Self { method: Method::POST, path_and_query: path.to_owned(), body: Some(json) }
    }

    /// Adds a query parameter.
    pub(super) fn parameter(mut self, key: &str, value: &str) -> Self {
        self.path_and_query.push(if self.path_and_query.contains('?') { '&' } else { '?' });
        self.path_and_query.push_str(key);
        self.path_and_query.push('=');
        self.path_and_query.push_str(&encoded(value));
        self
    }
}

/// Percent-encodes everything except RFC 3986's unreserved characters.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Sends the request and returns the response body.
///
/// # Errors
/// If the URL is invalid, the server cannot be reached, or it returned an error, with its message.
pub(super) fn ask(url: &str, request: &Request) -> Result<Bytes, Failure> {
    answer(url, request).map(|answer| answer.body)
}

/// A response.
pub(super) struct Answer {
    status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Like [`ask`], with the response's headers.
pub(super) fn answer(url: &str, request: &Request) -> Result<Answer, Failure> {
    let server = Server::parse(url).map_err(Failure::Usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the input/output runtime")?;
    let answer = runtime.block_on(async {
        let stream = connect(url, &server.authority).await?;
        tokio::time::timeout(ANSWER_TIMEOUT, exchange(stream, &server, request))
            .await
            .map_err(|_| anyhow::anyhow!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))
            .and_then(|answer| answer)
            .with_context(|| format!("{url} did not answer"))
    })?;
    let status = answer.status;
    if status.is_success() {
        return Ok(answer);
    }
    let problem: Option<Problem> = serde_json::from_slice(&answer.body).ok();
    Err(Failure::cannot(match problem {
        Some(Problem { title, detail, .. }) if !detail.is_empty() => {
            let title = if title.is_empty() { status.to_string() } else { title };
            format!("{}: {}", harmless(&title), harmless(&detail))
        }
        _ => format!(
            "{url} answered {status} where the API was expected; is that a Spanwise server?"
        ),
    }))
}

struct Server {
    authority: String,
    /// A path prefix of the API behind a proxy.
    prefix: String,
}

impl Server {
    fn parse(url: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("--url {url}: {why}; write it as http://HOST:PORT");
        let uri: Uri = url.parse().map_err(|_| wrong("is no URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(wrong("https is not spoken here")),
            _ => return Err(wrong("has no scheme")),
        }
        let host = uri.host().ok_or_else(|| wrong("names no host"))?;
        let port = uri.port_u16().unwrap_or(80);
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { authority: format!("{host}:{port}"), prefix })
    }
}

async fn connect(url: &str, authority: &str) -> anyhow::Result<TcpStream> {
    let reason = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(authority)).await {
        Ok(Ok(stream)) => return Ok(stream),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
    };
    anyhow::bail!(
        "cannot reach Spanwise at {url}: {reason}; start it with `spanwise up` (or `spanwise \
         server`), or name another with --url"
    )
}

async fn exchange(stream: TcpStream, server: &Server, request: &Request) -> anyhow::Result<Answer> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut builder = hyper::Request::builder()
        .method(request.method.clone())
        .uri(format!("{}{}", server.prefix, request.path_and_query))
        .header(HOST, &server.authority)
        .header(ACCEPT, "application/json, application/problem+json")
        // Web pages cannot send this header without permission.
        .header("spanwise-request", "cli");
    if request.body.is_some() {
        builder = builder.header(CONTENT_TYPE, "application/json");
    }
    let body = Full::new(Bytes::from(request.body.clone().unwrap_or_default()));
    let response = sender.send_request(builder.body(body)?).await?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_MAX_BYTES)
        .collect()
        .await
        .map_err(|error| anyhow::anyhow!("reading the answer: {error}"))?
        .to_bytes();
    connection.abort();
    Ok(Answer { status: head.status, headers: head.headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_encoded() {
        let request = Request::get("/a").parameter("operation", "GET /é&x").parameter("n", "-1h");
        assert_eq!(request.path_and_query, "/a?operation=GET%20%2F%C3%A9%26x&n=-1h");
    }

    #[test]
    fn urls_that_cannot_work_are_refused_with_the_right_form() {
        for url in ["", "127.0.0.1:7070", "https://a", "ftp://a", "http://"] {
            let error = Server::parse(url).err().unwrap_or_default();
            assert!(error.contains("http://HOST:PORT"), "{url}: {error}");
        }
        let server = Server::parse("http://[::1]:7/x/").expect("right");
        assert_eq!((server.authority.as_str(), server.prefix.as_str()), ("[::1]:7", "/x"));
    }
}
