//! HTTP client for the server's API.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
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
    /// Instead of, or beside, those that every request has.
    headers: HeaderMap,
    body: Option<String>,
}

impl Request {
    /// A GET request.
    pub(super) fn get(path: &str) -> Self {
        Self::new(Method::GET, path, None)
    }

    /// A POST request with a JSON body.
    pub(super) fn post(path: &str, json: String) -> Self {
        Self::new(Method::POST, path, Some(json))
    }

    fn new(method: Method, path: &str, body: Option<String>) -> Self {
        Self { method, path_and_query: path.to_owned(), headers: HeaderMap::new(), body }
    }

    /// Sets a header.
    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
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
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Like [`ask`], with the response's headers.
pub(super) fn answer(url: &str, request: &Request) -> Result<Answer, Failure> {
    let server = Server::parse(url).map_err(Failure::Usage)?;
    let answer = runtime()?.block_on(send(url, &server, request))?;
    let status = answer.status;
    if status.is_success() {
        return Ok(answer);
    }
    let problem: Option<Problem> = serde_json::from_slice(&answer.body).ok();
    Err(Failure::cannot(match problem {
        Some(Problem { title, detail, .. }) if !detail.is_empty() => {
            let title = if title.is_empty() { status.to_string() } else { title };
            // A mistake in a query is shown on lines of its own.
            let lines: Vec<String> = detail.lines().map(harmless).collect();
            format!("{}: {}", harmless(&title), lines.join("\n"))
        }
        _ => format!(
            "{url} answered {status} where the API was expected; is that a Spanwise server?"
        ),
    }))
}

/// Checks the URL of a flag.
pub(super) fn check(flag: &str, url: &str) -> Result<(), Failure> {
    let wrong = |error: String| Failure::Usage(error.replacen("--url", flag, 1));
    Server::parse(url).map(|_| ()).map_err(wrong)
}

/// Checks the URL of a webhook.
pub(crate) fn check_webhook(url: &str) -> Result<(), String> {
    Server::parse(url).map(|_| ()).map_err(|error| error.replacen("--url ", "", 1))
}

/// Posts JSON to a URL that is not Spanwise's.
pub(crate) async fn post_elsewhere(url: &str, json: String) -> anyhow::Result<()> {
    let server = Server::parse(url).map_err(anyhow::Error::msg)?;
    let query = url.parse::<Uri>()?.query().map_or(String::new(), |query| format!("?{query}"));
    let path = if server.prefix.is_empty() { "/" } else { "" };
    let request = Request::post(&format!("{path}{query}"), json);
    let posted = async {
        let stream = connect(&server.authority).await.map_err(anyhow::Error::msg)?;
        exchange(stream, &server, &request).await
    };
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, posted).await;
    let status = answer.context("it does not answer")??.status;
    anyhow::ensure!(status.is_success(), "it answered {status}");
    Ok(())
}

/// A runtime of this thread.
pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the input/output runtime")
}

/// Sends a request on a connection of its own. The answer may be an error.
pub(super) async fn send(url: &str, server: &Server, request: &Request) -> anyhow::Result<Answer> {
    let stream = connect(&server.authority).await.map_err(|reason| {
        anyhow::anyhow!(
            "cannot reach Spanwise at {url}: {reason}; start it with `spanwise up` (or `spanwise \
             server`), or name another with --url"
        )
    })?;
    tokio::time::timeout(ANSWER_TIMEOUT, exchange(stream, server, request))
        .await
        .map_err(|_| anyhow::anyhow!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))
        .and_then(|answer| answer)
        .with_context(|| format!("{url} did not answer"))
}

/// Where a server is.
pub(super) struct Server {
    authority: String,
    /// A path prefix of the API behind a proxy.
    prefix: String,
}

impl Server {
    pub(super) fn parse(url: &str) -> Result<Self, String> {
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

async fn connect(authority: &str) -> Result<TcpStream, String> {
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(authority)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())),
    }
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
    let mut sent = builder.body(body)?;
    sent.headers_mut().extend(request.headers.clone());
    let response = sender.send_request(sent).await?;
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
    fn a_webhook_is_posted_to_with_its_path_and_query() {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = std::thread::spawn(move || {
            [204, 500].map(|status| {
                let (mut stream, _) = listener.accept().expect("a caller");
                let mut head = [0; 4096];
                let read = stream.read(&mut head).expect("a request");
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).expect("an answer");
                String::from_utf8_lossy(&head[..read]).into_owned()
            })
        });
        let url = format!("http://{address}/hook?a=1");
        let post = |url: &str| {
            runtime().expect("a runtime").block_on(post_elsewhere(url, "{}".to_owned()))
        };
        post(&url).expect("it was taken");
        let error = post(&format!("http://{address}"));
        assert!(error.expect_err("refused").to_string().contains("500"));
        let [with_path, without] = serving.join().expect("served");
        assert!(with_path.starts_with("POST /hook?a=1 HTTP/1.1"), "{with_path}");
        assert!(without.starts_with("POST / HTTP/1.1"), "{without}");
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
