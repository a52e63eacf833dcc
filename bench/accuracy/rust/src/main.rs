//! The Rust program of the accuracy benchmark: hyper on tokio's threads, on both sides.
//!
//! It serves `/r/TOKEN`, calls `/leaf/TOKEN`, and writes to a file which of its calls were made for
//! which request. Its parameters come from the environment, as in the other programs
//! (`../python/program.py`).

use std::convert::Infallible;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use futures::future;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rand::RngExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// Rounds of a hash, to use a little processor time like a handler.
const WORK_ROUNDS: u64 = 4096;
const LONGEST_PAUSE_MICROS: u64 = 2000;
const BACKGROUND_PAUSE: Duration = Duration::from_millis(5);

type Body = Empty<Bytes>;

/// How to call the leaf.
enum Calls {
    /// HTTP/1 from a pool.
    Pooled(Box<Client<HttpConnector, Body>>),
    /// HTTP/1 with a new connection for each call.
    Fresh,
    /// HTTP/2 with all calls on one connection.
    Shared(conn::http2::SendRequest<Body>),
}

struct Program {
    leaf: String,
    parallel: bool,
    timers: bool,
    calls: Calls,
    truth: Mutex<File>,
}

fn setting(name: &str) -> anyhow::Result<String> {
    env::var(name).with_context(|| format!("{name} is not set; accuracy.py sets it"))
}

fn work(seed: u64) -> u64 {
    (0..WORK_ROUNDS).fold(seed, |hash, round| (hash ^ round).wrapping_mul(0x0100_0000_01b3))
}

async fn wait_for_timer() {
    let micros = rand::rng().random_range(0..LONGEST_PAUSE_MICROS);
    sleep(Duration::from_micros(micros)).await;
}

fn token() -> String {
    format!("{:016x}", rand::rng().random::<u64>())
}

impl Program {
    /// Waits for a timer, in the variant that has timers.
    async fn pause(&self) {
        if self.timers {
            wait_for_timer().await;
        }
    }

    /// Records which calls were made for which request.
    fn note(&self, request: &str, made: &[String]) -> anyhow::Result<()> {
        let line = format!("{request} {}\n", made.join(" "));
        let mut truth = self.truth.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(truth.write_all(line.as_bytes())?)
    }

    async fn call(&self, token: &str) -> anyhow::Result<Bytes> {
        let url = format!("http://{}/leaf/{token}", self.leaf);
        let request = Request::get(url).header("host", &self.leaf).body(Body::new())?;
        let response = match &self.calls {
            Calls::Pooled(client) => client.request(request).await?,
            Calls::Shared(connection) => connection.clone().send_request(request).await?,
            Calls::Fresh => {
                let stream = TcpStream::connect(&self.leaf).await?;
                let (mut sender, connection) = conn::http1::handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                sender.send_request(request).await?
            }
        };
        if response.status() != StatusCode::OK {
            bail!("the leaf said {}", response.status());
        }
        Ok(response.into_body().collect().await?.to_bytes())
    }

    async fn handle(&self, path: &str) -> anyhow::Result<String> {
        let count = if self.parallel { 3 } else { 2 };
        let made: Vec<String> = (0..count).map(|_| token()).collect();
        let mut hash = work(path.len() as u64);
        self.pause().await;
        if self.parallel {
            let replies = future::try_join_all(made.iter().map(|token| self.call(token))).await?;
            hash ^= replies.iter().map(Bytes::len).sum::<usize>() as u64;
        } else {
            for token in &made {
                hash ^= self.call(token).await?.len() as u64;
                self.pause().await;
            }
        }
        self.note(path.rsplit('/').next().unwrap_or_default(), &made)?;
        Ok(format!("{:016x}\n", work(hash)))
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let (status, body) = match self.handle(request.uri().path()).await {
            Ok(body) => (StatusCode::OK, body),
            Err(error) => {
                eprintln!("{error:#}");
                (StatusCode::INTERNAL_SERVER_ERROR, String::new())
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        Ok(response)
    }
}

/// Background calls, like a cache refresh.
async fn in_background(program: Arc<Program>) {
    loop {
        let token = token();
        let made = program.note("-", std::slice::from_ref(&token));
        if let Err(error) = made.and(program.call(&token).await) {
            eprintln!("{error:#}");
        }
        sleep(BACKGROUND_PAUSE).await;
    }
}

async fn calls(leaf: &str, http2: bool, fresh: bool) -> anyhow::Result<Calls> {
    if http2 {
        let stream = TcpStream::connect(leaf).await?;
        let (sender, connection) =
            conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        return Ok(Calls::Shared(sender));
    }
    if fresh {
        return Ok(Calls::Fresh);
    }
    Ok(Calls::Pooled(Box::new(Client::builder(TokioExecutor::new()).build_http())))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let http2 = setting("HTTP")? == "2";
    let leaf = format!("127.0.0.1:{}", setting("LEAF_PORT")?);
    let truth = OpenOptions::new().append(true).create(true).open(setting("TRUTH")?)?;
    let program = Arc::new(Program {
        calls: calls(&leaf, http2, setting("CONNECTIONS")? == "fresh").await?,
        leaf,
        parallel: setting("FAN_OUT")? == "parallel",
        timers: setting("STYLE")? == "timers",
        truth: Mutex::new(truth),
    });
    if env::var_os("BACKGROUND").is_some() {
        tokio::spawn(in_background(Arc::clone(&program)));
    }
    let listener = TcpListener::bind(format!("127.0.0.1:{}", setting("PORT")?)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let program = Arc::clone(&program);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let program = Arc::clone(&program);
                async move { program.answer(request).await }
            });
            let io = TokioIo::new(stream);
            let served = if http2 {
                http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
            } else {
                http1::Builder::new().serve_connection(io, service).await
            };
            if let Err(error) = served {
                eprintln!("{error}");
            }
        });
    }
}
