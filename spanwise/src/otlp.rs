//! OTLP over HTTP to any endpoint, with retries.

use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::failure::Failure;

const ANSWER: Duration = Duration::from_secs(30);

/// What a message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Logs,
    Metrics,
}

/// Where an endpoint is: `http://HOST:PORT`, with or without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointUrl {
    authority: String,
    prefix: String,
}

impl FromStr for EndpointUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{url}: {why}; write it as http://HOST:PORT");
        let uri: Uri = url.parse().map_err(|_| wrong("is no URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong("only http is spoken here"));
        }
        let host = uri.host().ok_or_else(|| wrong("names no host"))?;
        Ok(Self {
            authority: format!("{host}:{}", uri.port_u16().unwrap_or(4318)),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// Why a message was not taken.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The endpoint is away or full.
    Away(String),
    /// It refused the message for good.
    Refused(String),
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Away(reason) => Self::cannot(format_args!(
                "{reason}; run the same command again with --checkpoint to go on later"
            )),
            SendError::Refused(reason) => Self::cannot(reason),
        }
    }
}

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

/// An endpoint and the connection to it. For threads without a runtime of their own.
pub(crate) struct Endpoint {
    runtime: tokio::runtime::Runtime,
    url: EndpointUrl,
    sender: Option<Sender>,
}

impl Endpoint {
    /// # Errors
    /// If the system gives no file for waiting.
    pub(crate) fn new(url: EndpointUrl) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the input/output runtime")?;
        Ok(Self { runtime, url, sender: None })
    }

    /// Sends until it is taken, for at most about `patience`.
    ///
    /// # Errors
    /// What the endpoint refuses, and what it did not take in that time.
    pub(crate) fn send(
        &mut self,
        signal: Signal,
        message: &[u8],
        patience: Duration,
    ) -> Result<(), SendError> {
        let body = Bytes::copy_from_slice(message);
        let path = match signal {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
        };
        let until = Instant::now() + patience;
        let mut pause = Duration::from_millis(100);
        let EndpointUrl { authority, prefix } = self.url.clone();
        let uri = format!("{prefix}/v1/{path}");
        loop {
            let sender = self.sender.take();
            let result = self.runtime.block_on(async {
                tokio::time::timeout(ANSWER, exchange(sender, &authority, &uri, body.clone()))
                    .await
                    .map_err(|_| anyhow::anyhow!("no answer within {} s", ANSWER.as_secs()))?
            });
            let reason = match result {
                Ok((status, sender)) if status.is_success() => {
                    self.sender = sender;
                    return Ok(());
                }
                Ok((status, _)) if !matches!(status.as_u16(), 429 | 502 | 503 | 504) => {
                    return Err(refused(&authority, path, status));
                }
                Ok((status, _)) => status.to_string(),
                Err(error) => format!("{error:#}"),
            };
            if Instant::now() + pause > until {
                return Err(SendError::Away(format!(
                    "http://{authority} did not take it within {} s: {reason}",
                    patience.as_secs()
                )));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }
}

fn refused(authority: &str, path: &str, status: StatusCode) -> SendError {
    let advice = if status == StatusCode::NOT_FOUND && path != "traces" {
        "; it takes no such signal: name an endpoint that does"
    } else {
        ""
    };
    SendError::Refused(format!("http://{authority} refused /v1/{path}: {status}{advice}"))
}

async fn exchange(
    sender: Option<Sender>,
    authority: &str,
    uri: &str,
    body: Bytes,
) -> anyhow::Result<(StatusCode, Option<Sender>)> {
    let mut sender = match sender.filter(|sender| !sender.is_closed()) {
        Some(sender) => sender,
        None => {
            let stream = TcpStream::connect(authority).await?;
            let (sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            sender
        }
    };
    sender.ready().await?;
    let request = Request::post(uri)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/x-protobuf")
        .body(Full::new(body))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    // The rest of the answer is read, so that the connection can be used again.
    let read = http_body_util::BodyExt::collect(http_body_util::Limited::new(
        response.into_body(),
        1 << 20,
    ))
    .await;
    Ok((status, read.is_ok().then_some(sender)))
}
