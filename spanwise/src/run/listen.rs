//! All ports of the server, taken before anything else is done: a second
//! server must not touch the first one's data.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::{TcpListener, UdpSocket};

use super::port_owner;
use crate::config::Listen;
use crate::failure::Failure;

/// The server's listeners.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) http: TcpListener,
    pub(crate) receivers: Receivers,
}

/// Those that take spans; `None` where the server was told to do without.
#[derive(Debug)]
pub(crate) struct Receivers {
    pub(crate) otlp_grpc: TcpListener,
    pub(crate) otlp_http: TcpListener,
    pub(crate) zipkin: Option<TcpListener>,
    pub(crate) jaeger_grpc: Option<TcpListener>,
    pub(crate) jaeger_http: Option<TcpListener>,
    pub(crate) jaeger_udp_compact: Option<UdpSocket>,
    pub(crate) jaeger_udp_binary: Option<UdpSocket>,
}

impl Listeners {
    /// Takes every port.
    ///
    /// # Errors
    /// Where one cannot be had: which, why, who has it, and what to do.
    pub(crate) async fn bind(listen: &Listen) -> Result<Self, Failure> {
        let (compact, binary) = (listen.jaeger_udp_compact, listen.jaeger_udp_binary);
        let http = tcp(listen.http, HTTP).await?;
        let receivers = Receivers {
            otlp_grpc: tcp(listen.otlp_grpc, OTLP_GRPC).await?,
            otlp_http: tcp(listen.otlp_http, OTLP_HTTP).await?,
            zipkin: optional(listen.zipkin, |at| tcp(at, ZIPKIN)).await?,
            jaeger_grpc: optional(listen.jaeger_grpc, |at| tcp(at, JAEGER_GRPC)).await?,
            jaeger_http: optional(listen.jaeger_http, |at| tcp(at, JAEGER_HTTP)).await?,
            jaeger_udp_compact: optional(compact, |at| udp(at, JAEGER_UDP_COMPACT)).await?,
            jaeger_udp_binary: optional(binary, |at| udp(at, JAEGER_UDP_BINARY)).await?,
        };
        Ok(Self { http, receivers })
    }

    /// Where they listen: ports that were asked for as 0 have a number now.
    pub(crate) fn addresses(&self) -> Result<Listen, Failure> {
        let tcp = |listener: &TcpListener| told(listener.local_addr());
        let udp = |socket: &UdpSocket| told(socket.local_addr());
        let receivers = &self.receivers;
        Ok(Listen {
            http: tcp(&self.http)?,
            otlp_grpc: tcp(&receivers.otlp_grpc)?,
            otlp_http: tcp(&receivers.otlp_http)?,
            zipkin: receivers.zipkin.as_ref().map(tcp).transpose()?,
            jaeger_grpc: receivers.jaeger_grpc.as_ref().map(tcp).transpose()?,
            jaeger_http: receivers.jaeger_http.as_ref().map(tcp).transpose()?,
            jaeger_udp_compact: receivers.jaeger_udp_compact.as_ref().map(udp).transpose()?,
            jaeger_udp_binary: receivers.jaeger_udp_binary.as_ref().map(udp).transpose()?,
        })
    }
}

/// What a listener is for, and how to choose another address for it.
#[derive(Debug, Clone, Copy)]
struct Purpose {
    name: &'static str,
    flag: &'static str,
    /// Whether the server runs without it.
    optional: bool,
}

const fn needed(name: &'static str, flag: &'static str) -> Purpose {
    Purpose { name, flag, optional: false }
}

const fn spared(name: &'static str, flag: &'static str) -> Purpose {
    Purpose { name, flag, optional: true }
}

const HTTP: Purpose = needed("UI and API", "--http");
const OTLP_GRPC: Purpose = needed("agents and OTLP over gRPC", "--otlp-grpc");
const OTLP_HTTP: Purpose = needed("OTLP over HTTP", "--otlp-http");
const ZIPKIN: Purpose = spared("Zipkin", "--zipkin");
const JAEGER_GRPC: Purpose = spared("Jaeger over gRPC", "--jaeger-grpc");
const JAEGER_HTTP: Purpose = spared("Jaeger thrift over HTTP", "--jaeger-http");
const JAEGER_UDP_COMPACT: Purpose = spared("Jaeger compact over UDP", "--jaeger-udp-compact");
const JAEGER_UDP_BINARY: Purpose = spared("Jaeger binary over UDP", "--jaeger-udp-binary");

fn told(address: Result<SocketAddr, Error>) -> Result<SocketAddr, Failure> {
    Ok(address.context("cannot tell the address of a listener")?)
}

/// Binds where there is something to bind.
async fn optional<T, F: Future<Output = Result<T, Failure>>>(
    address: Option<SocketAddr>,
    bind: impl FnOnce(SocketAddr) -> F,
) -> Result<Option<T>, Failure> {
    match address {
        Some(address) => bind(address).await.map(Some),
        None => Ok(None),
    }
}

async fn tcp(address: SocketAddr, purpose: Purpose) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| cannot_listen(&error, address, purpose, || port_owner::owner(address)))
}

async fn udp(address: SocketAddr, purpose: Purpose) -> Result<UdpSocket, Failure> {
    let bound = UdpSocket::bind(address).await;
    bound
        .map_err(|error| cannot_listen(&error, address, purpose, || port_owner::udp_owner(address)))
}

fn cannot_listen(
    error: &Error,
    address: SocketAddr,
    purpose: Purpose,
    owner: impl FnOnce() -> Option<port_owner::Owner>,
) -> Failure {
    let Purpose { name, flag, optional } = purpose;
    let without = if optional { format!(", or do without: {flag} off") } else { String::new() };
    let reason = match error.kind() {
        ErrorKind::AddrInUse => {
            let owner = match owner() {
                Some(owner) => format!(" by pid {} ({})", owner.process, owner.command),
                None => String::new(),
            };
            format!("address already in use{owner}; stop it or choose another with {flag}{without}")
        }
        ErrorKind::AddrNotAvailable => {
            format!("this machine has no such address; choose another with {flag} or --listen")
        }
        ErrorKind::PermissionDenied => {
            format!("permission denied; choose a port above 1023 with {flag}, or run as root")
        }
        _ => format!("{error}; choose another with {flag}{without}"),
    };
    Failure::cannot(format_args!("cannot listen on {address} ({name}): {reason}"))
}
