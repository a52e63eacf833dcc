//! The ports. Every connection to the server arrives here, whatever its protocol.
//!
//! All ports have the same limits: the number of connections ([`seats`]), the time for each step
//! ([`phase`]), and the allowed origins ([`guard`]).

mod body;
mod guard;
mod phase;
mod seats;
mod socket;

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderValue, Request, Response, StatusCode};
use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tower::ServiceExt as _;

use self::body::{Served, TimedBody};
use self::guard::{Guard, Kind, Refusal, Verdict};
use self::phase::{Late, Phase, Times};
use self::seats::{Seat, Seats};
use self::socket::Socket;
use crate::counters;
use crate::transport::Transport;

pub use self::guard::Allowed;
pub(crate) use self::seats::House;

/// The address of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The protocols of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// Spans over HTTP/1.1, HTTP/2 or gRPC.
    Spans,
    /// The UI and the API over HTTP/1.1.
    Pages,
    /// Questions as the API answers them, by HTTP/1.1, HTTP/2 or gRPC.
    Queries,
}

/// Time for a peer to read the last response before the connection is closed.
const FAREWELL: Duration = Duration::from_secs(1);
/// Pause after accepting failed. Without a free descriptor, the next attempt would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Maximum bytes of a header, and of one read.
const HTTP1_BUFFER_BYTES: usize = 128 << 10;

/// One port.
struct Port {
    name: &'static str,
    transport: Arc<Transport>,
    router: Router,
    http: auto::Builder<TokioExecutor>,
    speaks: Speaks,
    guard: Guard,
    times: Times,
    seats: Arc<Seats>,
    closing: watch::Receiver<bool>,
}

/// Serves a router on a listener until `shutdown` completes. Then it waits for open requests
/// ([`crate::Limits::drain_time`]).
pub(crate) async fn serve(
    name: &'static str,
    speaks: Speaks,
    transport: Arc<Transport>,
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let limits = &transport.limits;
    let kind = match speaks {
        Speaks::Spans => Kind::Receiver,
        Speaks::Pages => Kind::Api,
        Speaks::Queries => Kind::Queries,
    };
    let house = Arc::clone(&transport.house);
    let (close, closing) = watch::channel(false);
    let port = Arc::new(Port {
        name,
        guard: Guard::new(kind, &transport.allowed, listener.local_addr()?.ip()),
        router,
        http: http(speaks),
        speaks,
        times: Times {
            header: limits.header_time,
            idle: limits.idle_time,
            write: limits.write_time,
        },
        seats: Arc::new(Seats::new(house, limits.connections, limits.connections_per_address)),
        closing,
        transport: Arc::clone(&transport),
    });
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, peer)) => port.take(stream, Peer(peer), &mut connections),
            Err(error) => {
                port.not_accepted(&error);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // Long-lived streams end by themselves. Other requests end with their response.
    transport.closing.send_replace(true);
    close.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(transport.limits.drain_time, all).await;
    Ok(())
}

fn http(speaks: Speaks) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        // We enforce the header timeout ourselves, because we distinguish idle connections.
        .header_read_timeout(None::<Duration>)
        .max_buf_size(HTTP1_BUFFER_BYTES);
    http.http2()
        .timer(TokioTimer::new())
        // Detects a sender that vanished.
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .keep_alive_timeout(Duration::from_secs(10))
        .max_concurrent_streams(Some(128))
        .max_header_list_size(64 << 10)
        .initial_stream_window_size(Some(1 << 20))
        .initial_connection_window_size(Some(4 << 20));
    match speaks {
        Speaks::Spans | Speaks::Queries => http,
        Speaks::Pages => http.http1_only(),
    }
}

/// How a connection ended.
enum End {
    ByItself,
    Late(Late),
    Evicted,
}

impl Port {
    fn take(self: &Arc<Self>, stream: TcpStream, peer: Peer, connections: &mut JoinSet<()>) {
        let now = Instant::now();
        let phase = Arc::new(Phase::new(self.times, now));
        match self.seats.take(peer.0.ip().to_canonical(), &phase, now) {
            Ok((seat, evicted)) => {
                if evicted {
                    self.transport.counters.add(counters::CONNECTIONS_EVICTED, 1);
                    let why = "it took the place of one that was silent, as there are as many as \
                               there may be (listen.connections)";
                    self.warn(peer, counters::CONNECTIONS_EVICTED, why);
                }
                connections.spawn(Arc::clone(self).connection(stream, peer, phase, seat));
            }
            Err(full) => {
                self.transport.counters.add(full.counter(), 1);
                self.warn(peer, full.counter(), full.said());
            }
        }
    }

    fn not_accepted(&self, error: &io::Error) {
        self.transport.counters.add(counters::CONNECTIONS_NOT_ACCEPTED, 1);
        let Some(more) = self.transport.warnings.due(self.name, counters::CONNECTIONS_NOT_ACCEPTED)
        else {
            return;
        };
        let is_out_of_descriptors = matches!(
            error.raw_os_error(),
            Some(code) if code == rustix::io::Errno::MFILE.raw_os_error()
                || code == rustix::io::Errno::NFILE.raw_os_error()
        );
        let advice = match is_out_of_descriptors {
            true => {
                "; raise the limit of open files (LimitNOFILE= in a unit, `ulimit -n`), or lower \
                 listen.connections"
            }
            false => "",
        };
        tracing::warn!("{}: a connection could not be accepted: {error}{advice}{more}", self.name);
    }

    fn warn(&self, peer: Peer, counter: &'static str, why: &str) {
        if let Some(more) = self.transport.warnings.due(self.name, counter) {
            tracing::warn!("{}: a connection from {}: {why}{more}", self.name, peer.0);
        }
    }

    async fn connection(
        self: Arc<Self>,
        mut stream: TcpStream,
        peer: Peer,
        phase: Arc<Phase>,
        seat: Seat,
    ) {
        // Otherwise responses wait for the peer's delayed acknowledgement. A socket without the
        // option still works.
        let _ = stream.set_nodelay(true);
        let mut first = [0; 8];
        let first = tokio::select! {
            peeked = timeout(self.times.header, stream.peek(&mut first)) => match peeked {
                Ok(Ok(count)) if count > 0 => &first[..count],
                Ok(_) => return,
                // Browsers open connections in advance.
                Err(_) => return self.ended(peer, &End::Late(Late::Idle)),
            },
            () = seat.stop.notified() => return self.ended(peer, &End::Evicted),
        };
        if let Some(said) = self.mistaken(first) {
            self.transport.counters.add(counters::CONNECTIONS_MISTAKEN, 1);
            self.warn(peer, counters::CONNECTIONS_MISTAKEN, &said);
            let answer = format!(
                "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n{said}\n",
                said.len() + 1
            );
            let _ = timeout(FAREWELL, stream.write_all(answer.as_bytes())).await;
            let _ = timeout(FAREWELL, stream.shutdown()).await;
            return;
        }
        let socket = Socket::new(stream, Arc::clone(&phase));
        let port = Arc::clone(&self);
        let at = Arc::clone(&phase);
        let service = hyper::service::service_fn(move |request| {
            let (port, serving) = (Arc::clone(&port), at.begin());
            async move {
                let answer = port.answer(request, peer).await;
                Ok::<_, std::convert::Infallible>(
                    answer.map(|body| Body::new(Served::new(body, serving))),
                )
            }
        });
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(socket), service));
        let mut stopped = pin!(seat.stop.notified());
        let mut closing = self.closing.clone();
        let mut closed = pin!(async move { _ = closing.wait_for(|closing| *closing).await });
        let mut is_closed = false;
        let mut alarm = pin!(sleep_until(phase.deadline().0));
        let end = poll_fn(|context| {
            if !is_closed && closed.as_mut().poll(context).is_ready() {
                is_closed = true;
                connection.as_mut().graceful_shutdown();
            }
            if connection.as_mut().poll(context).is_ready() {
                return Poll::Ready(End::ByItself);
            }
            if stopped.as_mut().poll(context).is_ready() {
                return Poll::Ready(End::Evicted);
            }
            loop {
                let (deadline, late) = phase.deadline();
                if deadline <= Instant::now() {
                    return Poll::Ready(End::Late(late));
                }
                // The alarm is rearmed if it rings too early, which is rare.
                if alarm.deadline() > deadline || alarm.is_elapsed() {
                    alarm.as_mut().reset(deadline);
                }
                if alarm.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
        self.ended(peer, &end);
        if matches!(end, End::Late(Late::Idle)) {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(FAREWELL, connection).await;
        }
    }

    fn ended(&self, peer: Peer, end: &End) {
        let End::Late(late) = end else { return };
        self.transport.counters.add(late.counter(), 1);
        match late {
            Late::Header => {
                self.warn(peer, late.counter(), "closed: no whole request came in time");
            }
            Late::Write => {
                self.warn(peer, late.counter(), "closed: its answer was not read in time");
            }
            // Clients keep connections open for later requests.
            Late::Idle => {}
        }
    }

    /// An explanation for a connection with the wrong protocol.
    fn mistaken(&self, first: &[u8]) -> Option<Cow<'static, str>> {
        match first {
            [0x16, 0x03, ..] => Some(
                "this port speaks no TLS: write http:// in the address, set `insecure` in gRPC's \
                 clients, or put a proxy that ends TLS before it"
                    .into(),
            ),
            [b'P', b'R', b'I', ..] if self.speaks == Speaks::Pages => {
                let elsewhere = &self.transport.spans_elsewhere;
                Some(format!("this port speaks HTTP/1.1; {elsewhere}").into())
            }
            _ => None,
        }
    }

    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let origin = match self.guard.check(&parts) {
            Verdict::Serve(origin) => origin,
            Verdict::Preflight(headers) => {
                return (StatusCode::NO_CONTENT, headers).into_response();
            }
            Verdict::Refuse(refusal) => {
                self.transport.counters.add(refusal.counter, 1);
                if let Some(more) = self.transport.warnings.due(self.name, refusal.counter) {
                    let detail = &refusal.detail;
                    tracing::warn!("{}: a request from {}: {detail}{more}", self.name, peer.0);
                }
                return self.refused(refusal);
            }
        };
        parts.extensions.insert(peer);
        let body = match self.speaks {
            // Receivers handle late bodies themselves, and limit streams in other ways.
            Speaks::Spans => Body::new(body),
            Speaks::Pages | Speaks::Queries => {
                Body::new(TimedBody::new(body, self.transport.limits.body_time))
            }
        };
        let answered = self.router.clone().oneshot(Request::from_parts(parts, body)).await;
        let Ok(mut answer) = answered;
        if let Some(origin) = origin {
            guard::allow(answer.headers_mut(), origin);
        }
        answer
    }

    fn refused(&self, refusal: Refusal) -> Response<Body> {
        let Refusal { status, title, detail, .. } = refusal;
        let (kind, body) = match self.speaks {
            Speaks::Spans => ("text/plain; charset=utf-8", format!("{detail}\n")),
            Speaks::Pages | Speaks::Queries => {
                let status = status.as_u16();
                let problem = serde_json::json!({
                    "type": "about:blank", "title": title, "status": status, "detail": detail,
                });
                ("application/problem+json", problem.to_string())
            }
        };
        (status, [(CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response()
    }
}
