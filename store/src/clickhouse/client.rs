//! Client of ClickHouse's HTTP interface: sends statements, and receives or sends Arrow.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamDecoder;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::address::Address;
use super::failure::RequestError;
use super::tls::{connector, untrusted};

/// Idle connections are closed before ClickHouse closes them (after 10 s by default). A request on
/// a connection that is being closed would fail.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Error messages are read up to this length.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// The format of rows in both directions.
const FORMAT: &str = "ArrowStream";

/// On a cluster, rows are read from the replica to which they were sent: the first available one of
/// its shard, even if it answers slowly. Another replica gets the rows a moment later, and its
/// answer could miss them.
const FIRST_REPLICA: [(&str, &str); 4] = [
    ("load_balancing", "in_order"),
    ("prefer_localhost_replica", "0"),
    ("use_hedged_requests", "0"),
    ("connect_timeout_with_failover_ms", "3000"),
];

/// Settings of ClickHouse for one statement.
pub(super) type Settings<'a> = &'a [(&'static str, String)];

/// An HTTP client. It keeps connections and reuses them.
pub(super) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    address: Address,
    user: HeaderValue,
    password: HeaderValue,
}

/// Rows that ClickHouse returned.
pub(super) struct Answer {
    /// `None` if the statement has no result set.
    pub(super) schema: Option<SchemaRef>,
    pub(super) batches: Vec<RecordBatch>,
    /// Whether there are more rows than these.
    pub(super) is_cut: bool,
}

impl Client {
    /// Creates a client. It connects with the first request.
    ///
    /// # Errors
    /// If user or password are not valid in a header, or if the trusted CAs cannot be read.
    pub(super) fn new(address: Address) -> Result<Self, String> {
        let value = |text: &str, what: &str| {
            let value = HeaderValue::from_bytes(text.as_bytes());
            value
                .map_err(|_| format!("the ClickHouse {what} has characters that HTTP cannot carry"))
        };
        let mut user = value(&address.user, "user")?;
        let mut password = value(&address.password, "password")?;
        user.set_sensitive(true);
        password.set_sensitive(true);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector(&address)?);
        Ok(Self { http, address, user, password })
    }

    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    /// Runs a statement and ignores its result.
    pub(super) async fn execute(
        &self,
        statement: &str,
        settings: Settings<'_>,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        let body = Bytes::from(statement.to_owned());
        let most_bytes = MAX_ERROR_BYTES;
        with_timeout(timeout, async {
            let answer = self.send(&[], settings, body).await?;
            collect(answer, most_bytes).await.map(drop)
        })
        .await
    }

    /// Runs a statement and returns its rows, up to `most_bytes`.
    pub(super) async fn read(
        &self,
        statement: &str,
        settings: Settings<'_>,
        most_bytes: usize,
        timeout: Duration,
    ) -> Result<Answer, RequestError> {
        match self.read_first(statement, settings, most_bytes, timeout).await? {
            answer if answer.is_cut => Err(RequestError::TooLarge { most_bytes }),
            answer => Ok(answer),
        }
    }

    /// Like [`Self::read`], but returns the first rows if there are more than `most_bytes`.
    pub(super) async fn read_first(
        &self,
        statement: &str,
        settings: Settings<'_>,
        most_bytes: usize,
        timeout: Duration,
    ) -> Result<Answer, RequestError> {
        let body = Bytes::from(statement.to_owned());
        match self.read_once(body.clone(), settings, most_bytes, timeout).await {
            // The connection may have been closed just before. A new connection shows whether
            // ClickHouse is available.
            Err(RequestError::Away(_)) => self.read_once(body, settings, most_bytes, timeout).await,
            answer => answer,
        }
    }

    async fn read_once(
        &self,
        body: Bytes,
        settings: Settings<'_>,
        most_bytes: usize,
        timeout: Duration,
    ) -> Result<Answer, RequestError> {
        // Without this setting, an error after the first row would arrive as part of the rows.
        let arrow = [
            ("default_format", FORMAT),
            ("wait_end_of_query", "1"),
            ("output_format_arrow_compression_method", "lz4_frame"),
            ("cancel_http_readonly_queries_on_client_close", "1"),
        ];
        with_timeout(timeout, async {
            let answer = self.send(&arrow, settings, body).await?;
            let format = answer.headers().get("x-clickhouse-format");
            if let Some(other) = format.and_then(|name| name.to_str().ok()).filter(|n| *n != FORMAT)
            {
                return Err(RequestError::Strange(format!(
                    "rows came as {other} instead of {FORMAT}; leave FORMAT out of the statement"
                )));
            }
            decode(answer, most_bytes).await
        })
        .await
    }

    /// Inserts an Arrow stream. `statement` is `INSERT INTO … FORMAT ArrowStream`.
    pub(super) async fn insert(
        &self,
        statement: &str,
        stream: Bytes,
        settings: Settings<'_>,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        let parameters = [("query", statement), ("wait_end_of_query", "1")];
        with_timeout(timeout, async {
            let answer = self.send(&parameters, settings, stream).await?;
            collect(answer, MAX_ERROR_BYTES).await.map(drop)
        })
        .await
    }

    async fn send(
        &self,
        parameters: &[(&str, &str)],
        settings: Settings<'_>,
        body: Bytes,
    ) -> Result<Response<Incoming>, RequestError> {
        let scheme = if self.address.tls.is_some() { "https" } else { "http" };
        let mut uri = format!("{scheme}://{}/?database=", self.address.authority);
        encode(&self.address.database, &mut uri);
        let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
        let of_cluster = self.address.cluster.iter().flat_map(|_| FIRST_REPLICA);
        for (name, value) in parameters.iter().copied().chain(settings).chain(of_cluster) {
            uri.push('&');
            uri.push_str(name);
            uri.push('=');
            encode(value, &mut uri);
        }
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(header::USER_AGENT, concat!("spanwise/", env!("CARGO_PKG_VERSION")))
            .header("x-clickhouse-user", self.user.clone())
            .header("x-clickhouse-key", self.password.clone())
            .body(Full::new(body))
            .map_err(|error| {
                RequestError::Strange(format!("the request cannot be made: {error}"))
            })?;
        let answer = self.http.request(request).await.map_err(|error| self.away(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let code = answer.headers().get("x-clickhouse-exception-code");
        let code: Option<u32> = code.and_then(|code| code.to_str().ok()?.parse().ok());
        let said = Limited::new(answer.into_body(), MAX_ERROR_BYTES).collect().await;
        let said = said.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        Err(match code.or_else(|| code_in(&said)) {
            Some(code) => RequestError::refused(code, &said),
            // A proxy that cannot reach ClickHouse.
            None if status.is_server_error() => {
                RequestError::Away(format!("{} answers {status}", self.address))
            }
            None => RequestError::Strange(format!(
                "{} answers {status}, which ClickHouse would explain",
                self.address
            )),
        })
    }

    fn away(&self, error: &legacy::Error) -> RequestError {
        use std::error::Error as _;
        if let Some(why) = untrusted(error) {
            return RequestError::Untrusted(format!("ClickHouse at {}: {why}", self.address));
        }
        let mut reason = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            // The innermost error is the most specific one.
            reason = inner.to_string();
            cause = inner.source();
        }
        RequestError::Away(format!("ClickHouse cannot be reached at {}: {reason}", self.address))
    }
}

async fn with_timeout<T>(
    timeout: Duration,
    work: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    tokio::time::timeout(timeout, work).await.unwrap_or(Err(RequestError::Late(timeout)))
}

async fn collect(answer: Response<Incoming>, most_bytes: usize) -> Result<Bytes, RequestError> {
    let body = Limited::new(answer.into_body(), most_bytes).collect().await;
    let body =
        body.map_err(|error| RequestError::Away(format!("the answer broke off: {error}")))?;
    Ok(body.to_bytes())
}

/// Decodes rows as they arrive.
async fn decode(answer: Response<Incoming>, most_bytes: usize) -> Result<Answer, RequestError> {
    let broken = |error: arrow::error::ArrowError| {
        RequestError::Strange(format!("the answer is no Arrow stream: {error}"))
    };
    let mut body = answer.into_body();
    let mut decoder = StreamDecoder::new();
    let mut batches = Vec::new();
    let (mut received, mut held) = (0, 0);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| RequestError::Away(format!("the answer broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        received += data.len();
        let mut buffer = Buffer::from(data);
        while let Some(batch) = decoder.decode(&mut buffer).map_err(broken)? {
            held += bytes_of(&batch);
            batches.push(batch);
        }
        if received.max(held) > most_bytes {
            batches.pop();
            return match batches.is_empty() {
                true => Err(RequestError::TooLarge { most_bytes }),
                false => Ok(Answer { schema: decoder.schema(), batches, is_cut: true }),
            };
        }
    }
    decoder.finish().map_err(broken)?;
    Ok(Answer { schema: decoder.schema(), batches, is_cut: false })
}

/// Memory of the rows themselves. Columns may share one input buffer.
fn bytes_of(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns.map(|array| array.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

/// The error code at the start of a message, used if no header contains it.
fn code_in(said: &str) -> Option<u32> {
    said.strip_prefix("Code: ")?.split_once('.')?.0.parse().ok()
}

/// Percent-encodes everything except RFC 3986's unreserved characters.
fn encode(text: &str, out: &mut String) {
    use std::fmt::Write as _;
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_encoded() {
        let mut out = String::new();
        encode("INSERT INTO `é` & x", &mut out);
        assert_eq!(out, "INSERT%20INTO%20%60%C3%A9%60%20%26%20x");
    }

    #[test]
    fn codes_are_found_in_texts() {
        assert_eq!(code_in("Code: 241. DB::Exception: x"), Some(241));
        assert_eq!(code_in("<html>"), None);
    }
}
