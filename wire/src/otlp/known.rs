//! Attributes with columns of their own: OpenTelemetry's stable names, and older names (of
//! OpenTelemetry, Zipkin and OpenTracing) that many senders still use.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use spanwise_model::{AttributeRef, Attributes, Flow, Kind, grpc, protocol};

use super::value::integer;

/// What the attributes say about the exchange.
#[derive(Default)]
pub(crate) struct Known<'a> {
    http: bool,
    http_status: Option<i64>,
    grpc_status: Option<i64>,
    database: Option<&'a str>,
    rpc: Option<&'a str>,
    messaging: Option<&'a str>,
    pub(crate) error_type: Option<&'a str>,
    pub(crate) exception_type: Option<&'a str>,
    pub(crate) x_request_id: Option<String>,
    peer: Endpoint<'a>,
    old_peer: Endpoint<'a>,
    local: Endpoint<'a>,
    client: Endpoint<'a>,
    server: Endpoint<'a>,
}

#[derive(Default, Clone, Copy)]
struct Endpoint<'a> {
    address: Option<&'a str>,
    port: Option<u16>,
}

impl<'a> Endpoint<'a> {
    fn or(self, other: Self) -> Self {
        // Address and port of an endpoint belong together. The second source is used only if the
        // first has neither.
        if self.address.is_some() {
            Self { address: self.address, port: self.port.or(other.port) }
        } else {
            Self { address: other.address, port: other.port.or(self.port) }
        }
    }
}

/// A [`Flow`] with borrowed texts.
#[derive(Default)]
pub(super) struct FlowRef<'a> {
    pub(super) client_address: Option<Cow<'a, str>>,
    pub(super) client_port: Option<u16>,
    pub(super) server_address: Option<Cow<'a, str>>,
    pub(super) server_port: Option<u16>,
}

/// Stores an attribute's value in [`Known`].
pub(super) type Note = for<'a> fn(&mut Known<'a>, AttributeRef<'a>);

/// The function for values of this key, if the key is relevant here.
pub(super) fn note(key: &str) -> Option<Note> {
    let note: Note = match key {
        "http.request.method" | "http.method" | "http.path" | "http.url" => {
            |known, _| known.http = true
        }
        "http.response.status_code" | "http.status_code" => {
            |known, value| known.http_status = integer(value)
        }
        "rpc.grpc.status_code" => |known, value| known.grpc_status = integer(value),
        "rpc.response.status_code" | "grpc.status_code" => {
            |known, value| known.grpc_status = known.grpc_status.or_else(|| grpc_code(value))
        }
        "db.system.name" => |known, value| known.database = text(value),
        "db.system" => |known, value| known.database = known.database.or_else(|| text(value)),
        // OpenTracing's key, in which `sql` means any relational database.
        "db.type" => |known, value| {
            let kind = || text(value).filter(|kind| *kind != "sql");
            known.database = known.database.or_else(kind);
        },
        "rpc.system" | "rpc.system.name" => |known, value| known.rpc = text(value),
        "messaging.system" => |known, value| known.messaging = text(value),
        "error.type" => |known, value| known.error_type = text(value),
        "exception.type" => |known, value| known.exception_type = text(value),
        "http.request.header.x-request-id" | "http.request.header.x_request_id" => {
            |known, value| known.x_request_id = first_text(value)
        }
        "network.peer.address" => |known, value| known.peer.address = ip(value),
        "network.peer.port" => |known, value| known.peer.port = port(value),
        "net.sock.peer.addr" => |known, value| known.old_peer.address = ip(value),
        "net.peer.ip" => |known, value| {
            known.old_peer.address = known.old_peer.address.or_else(|| ip(value));
        },
        "net.sock.peer.port" => |known, value| known.old_peer.port = port(value),
        "net.peer.port" => |known, value| {
            known.old_peer.port = known.old_peer.port.or_else(|| port(value));
        },
        "network.local.address" => |known, value| known.local.address = ip(value),
        "network.local.port" => |known, value| known.local.port = port(value),
        "net.sock.host.addr" | "net.host.ip" => |known, value| {
            known.local.address = known.local.address.or_else(|| ip(value));
        },
        "net.sock.host.port" | "net.host.port" => |known, value| {
            known.local.port = known.local.port.or_else(|| port(value));
        },
        "client.address" => |known, value| known.client.address = text(value),
        "client.port" => |known, value| known.client.port = port(value),
        "server.address" => |known, value| known.server.address = text(value),
        "server.port" => |known, value| known.server.port = port(value),
        "net.peer.name" => |known, value| {
            known.server.address = known.server.address.or_else(|| text(value));
        },
        _ => return None,
    };
    Some(note)
}

const fn as_str(value: AttributeRef<'_>) -> Option<&str> {
    match value {
        AttributeRef::String(text) => Some(text),
        _ => None,
    }
}

fn text(value: AttributeRef<'_>) -> Option<&str> {
    as_str(value).filter(|text| !text.is_empty())
}

fn port(value: AttributeRef<'_>) -> Option<u16> {
    integer(value).and_then(|port| u16::try_from(port).ok())
}

/// For Unix sockets this is a path.
fn ip(value: AttributeRef<'_>) -> Option<&str> {
    as_str(value).filter(|text| text.parse::<IpAddr>().is_ok())
}

impl<'a> Known<'a> {
    pub(crate) fn new(attributes: &'a Attributes) -> Self {
        let mut known = Self::default();
        for (key, value) in attributes {
            if let Some(note) = note(key) {
                note(&mut known, value.as_ref());
            }
        }
        known
    }

    /// The protocol of the span's request. The most specific name wins, because a database may be
    /// accessed over HTTP.
    pub(crate) fn protocol(&self) -> Option<&'a str> {
        self.database
            .or(self.rpc)
            .or(self.messaging)
            .or_else(|| self.http.then_some(protocol::HTTP))
    }

    /// The protocol's own status code.
    pub(crate) fn status_code(&self) -> Option<i32> {
        self.http_status.or(self.grpc_status).and_then(|code| i32::try_from(code).ok())
    }

    /// The connection, if the span's kind determines which side is which.
    pub(crate) fn flow(&self, kind: Kind) -> Flow {
        let flow = self.flow_ref(kind);
        Flow {
            client_address: flow.client_address.map(Cow::into_owned),
            client_port: flow.client_port,
            server_address: flow.server_address.map(Cow::into_owned),
            server_port: flow.server_port,
            network_namespace: None,
        }
    }

    /// Like [`Self::flow`], with borrowed texts.
    pub(super) fn flow_ref(&self, kind: Kind) -> FlowRef<'a> {
        let peer = self.peer.or(self.old_peer);
        let (client, server) = match kind {
            // `server.*` in a server span is the name that the client used, not the socket's
            // address.
            Kind::Server => (peer.or(self.client), self.local),
            Kind::Client => (self.local, peer.or(self.server)),
            Kind::Internal | Kind::Producer | Kind::Consumer => return FlowRef::default(),
        };
        FlowRef {
            client_address: client.address.map(plain_address),
            client_port: client.port,
            server_address: server.address.map(plain_address),
            server_port: server.port,
        }
    }
}

/// IPv4 in dotted form, also if it was mapped to IPv6.
fn plain_address(text: &str) -> Cow<'_, str> {
    // Text that is no IPv6 address stays unchanged.
    let is_v6 = text.contains(':');
    match is_v6.then(|| text.parse::<Ipv6Addr>()) {
        Some(Ok(address)) => address.to_canonical().to_string().into(),
        Some(Err(_)) | None => text.into(),
    }
}

/// Header attributes are arrays. Some senders write a single text.
fn first_text(value: AttributeRef<'_>) -> Option<String> {
    match value {
        AttributeRef::String(text) => Some(text.to_owned()),
        AttributeRef::Json(text) => {
            serde_json::from_str::<Vec<String>>(text).ok()?.into_iter().next()
        }
        _ => None,
    }
}

/// The number of a gRPC status code. Newer conventions write its name.
fn grpc_code(value: AttributeRef<'_>) -> Option<i64> {
    integer(value).or_else(|| {
        let name = as_str(value)?;
        grpc::CODES
            .iter()
            .position(|known| *known == name)
            .and_then(|code| i64::try_from(code).ok())
    })
}
