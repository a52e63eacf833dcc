//! Opens all ports of the server before anything else. A second server then fails before it touches
//! the first one's data.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use anyhow::Context as _;
use spanwise_ingest::{Receiver, ReceiverAddresses, Socket};
use tokio::net::{TcpListener, UdpSocket};

use super::port_owner;
use crate::config::Listen;
use crate::failure::Failure;

/// The server's listeners.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) http: TcpListener,
    /// Tempo's API.
    pub(crate) tempo: Option<TcpListener>,
    /// Jaeger's query API, and the storage that a Jaeger reads.
    pub(crate) jaeger: [Option<TcpListener>; 2],
    /// Those that take spans.
    pub(crate) receivers: Vec<(&'static Receiver, Socket)>,
}

impl Listeners {
    /// Opens every port.
    ///
    /// # Errors
    /// If a port cannot be opened: which one, why, which process uses it, and what to do.
    pub(crate) async fn bind(listen: &Listen) -> Result<Self, Failure> {
        let http = tcp(listen.http, HTTP).await?;
        let tempo = match listen.tempo {
            Some(address) => Some(tcp(address, TEMPO).await?),
            None => None,
        };
        let mut jaeger = [None, None];
        for ((place, address), purpose) in jaeger.iter_mut().zip(listen.jaeger).zip(JAEGER) {
            if let Some(address) = address {
                *place = Some(tcp(address, purpose).await?);
            }
        }
        let mut receivers = Vec::new();
        for (receiver, address) in listen.receivers.iter() {
            let Some(address) = address else { continue };
            let purpose = Purpose::of(receiver);
            let socket = match receiver.is_udp() {
                true => Socket::Udp(udp(address, purpose).await?),
                false => Socket::Tcp(tcp(address, purpose).await?),
            };
            receivers.push((receiver, socket));
        }
        Ok(Self { http, tempo, jaeger, receivers })
    }

    /// The listeners' addresses. Ports that were requested as 0 now have a number.
    pub(crate) fn addresses(&self) -> Result<Listen, Failure> {
        let receivers = ReceiverAddresses::try_from_fn(|receiver| {
            let mut bound = self.receivers.iter();
            let socket = bound.find(|(one, _)| one.setting == receiver.setting);
            let address = socket.map(|(_, socket)| match socket {
                Socket::Tcp(listener) => told(listener.local_addr()),
                Socket::Udp(socket) => told(socket.local_addr()),
            });
            address.transpose()
        })?;
        let mut jaeger = [None; 2];
        for (address, listener) in jaeger.iter_mut().zip(&self.jaeger) {
            *address = listener.as_ref().map(|listener| told(listener.local_addr())).transpose()?;
        }
        let tempo = self.tempo.as_ref().map(|listener| told(listener.local_addr())).transpose()?;
        Ok(Listen { http: told(self.http.local_addr())?, tempo, jaeger, receivers })
    }
}

/// The purpose of a listener, and how to change its address.
#[derive(Debug, Clone, Copy)]
struct Purpose {
    name: &'static str,
    flag: &'static str,
    /// Whether the server can run without it.
    optional: bool,
}

const HTTP: Purpose = Purpose { name: "UI and API", flag: "http", optional: false };
const TEMPO: Purpose = Purpose { name: "Tempo's API", flag: "tempo", optional: true };
/// In the order of [`Listen::jaeger`].
const JAEGER: [Purpose; 2] = [
    Purpose { name: "Jaeger's query API", flag: "jaeger-query", optional: true },
    Purpose { name: "storage of a Jaeger", flag: "jaeger-storage", optional: true },
];

impl Purpose {
    const fn of(receiver: &Receiver) -> Self {
        Self { name: receiver.takes, flag: receiver.flag, optional: receiver.is_optional }
    }
}

fn told(address: Result<SocketAddr, Error>) -> Result<SocketAddr, Failure> {
    Ok(address.context("cannot tell the address of a listener")?)
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
    let without = if optional { format!(", or do without: --{flag} off") } else { String::new() };
    let reason = match error.kind() {
        ErrorKind::AddrInUse => {
            let owner = match owner() {
                Some(owner) => format!(" by pid {} ({})", owner.process, owner.command),
                None => String::new(),
            };
            format!(
                "address already in use{owner}; stop it or choose another with --{flag}{without}"
            )
        }
        ErrorKind::AddrNotAvailable => {
            format!("this machine has no such address; choose another with --{flag} or --listen")
        }
        ErrorKind::PermissionDenied => {
            format!("permission denied; choose a port above 1023 with --{flag}, or run as root")
        }
        _ => format!("{error}; choose another with --{flag}{without}"),
    };
    Failure::cannot(format_args!("cannot listen on {address} ({name}): {reason}"))
}
