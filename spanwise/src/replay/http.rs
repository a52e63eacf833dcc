//! OTLP over HTTP, with retries.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::source::{Payload, Signal};
use crate::failure::Failure;

/// How long to wait for an endpoint that is away or full.
const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(30);

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

pub(super) struct Endpoint {
    runtime: tokio::runtime::Runtime,
    authority: String,
    prefix: String,
    sender: Option<Sender>,
}

impl Endpoint {
    pub(super) fn new(url: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::Usage(format!("--otlp {url}: {why}; write it as http://HOST:PORT"))
        };
        let uri: Uri = url.parse().map_err(|_| wrong("is no URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong("only http is spoken here"));
        }
        let host = uri.host().ok_or_else(|| wrong("names no host"))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the input/output runtime")?;
        Ok(Self {
            runtime,
            authority: format!("{host}:{}", uri.port_u16().unwrap_or(4318)),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            sender: None,
        })
    }

    /// Sends until it is taken. What the endpoint refuses for good is an error.
    pub(super) fn send(&mut self, payload: &Payload) -> Result<(), Failure> {
        let body = Bytes::copy_from_slice(&payload.bytes);
        let path = match payload.signal {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
        };
        let until = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(100);
        loop {
            let (authority, uri) = (self.authority.clone(), format!("{}/v1/{path}", self.prefix));
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
                    return Err(refused(&self.authority, path, status));
                }
                Ok((status, _)) => status.to_string(),
                Err(error) => format!("{error:#}"),
            };
            if Instant::now() + pause > until {
                return Err(Failure::cannot(format_args!(
                    "http://{} did not take it within {} s: {reason}; run the same command again \
                     with --checkpoint to go on later",
                    self.authority,
                    PATIENCE.as_secs()
                )));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }
}

fn refused(authority: &str, path: &str, status: StatusCode) -> Failure {
    let advice = if status == StatusCode::NOT_FOUND && path != "traces" {
        "; it takes no such signal: write them with --file, or name an endpoint that does"
    } else {
        ""
    };
    Failure::cannot(format_args!("http://{authority} refused /v1/{path}: {status}{advice}"))
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
