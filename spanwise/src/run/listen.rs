//! All ports of the server, taken before anything else is done: a second
//! server must not touch the first one's data.

use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::TcpListener;

use super::port_owner;
use crate::config::Listen;
use crate::failure::Failure;

/// The server's listeners.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) http: TcpListener,
    pub(crate) otlp_grpc: TcpListener,
    pub(crate) otlp_http: TcpListener,
}

impl Listeners {
    /// Takes every port.
    ///
    /// # Errors
    /// Where one cannot be had: which, why, who has it, and what to do.
    pub(crate) async fn bind(listen: &Listen) -> Result<Self, Failure> {
        Ok(Self {
            http: bind(listen.http, "UI and API", "--http").await?,
            otlp_grpc: bind(listen.otlp_grpc, "agents and OTLP over gRPC", "--otlp-grpc").await?,
            otlp_http: bind(listen.otlp_http, "OTLP over HTTP", "--otlp-http").await?,
        })
    }

    /// Where they listen: ports that were asked for as 0 have a number now.
    pub(crate) fn addresses(&self) -> Result<Listen, Failure> {
        let address = |listener: &TcpListener| {
            listener.local_addr().context("cannot tell the address of a listener")
        };
        Ok(Listen {
            http: address(&self.http)?,
            otlp_grpc: address(&self.otlp_grpc)?,
            otlp_http: address(&self.otlp_http)?,
        })
    }
}

async fn bind(address: SocketAddr, purpose: &str, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::AddrInUse => {
                let owner = match port_owner::owner(address) {
                    Some(owner) => format!(" by pid {} ({})", owner.process, owner.command),
                    None => String::new(),
                };
                format!("address already in use{owner}; stop it or choose another with {flag}")
            }
            ErrorKind::AddrNotAvailable => {
                format!("this machine has no such address; choose another with {flag} or --listen")
            }
            ErrorKind::PermissionDenied => {
                format!("permission denied; choose a port above 1023 with {flag}, or run as root")
            }
            _ => format!("{error}; choose another with {flag}"),
        };
        Failure::cannot(format_args!("cannot listen on {address} ({purpose}): {reason}"))
    })
}
