//! Attributes that have columns of their own: OpenTelemetry's stable names,
//! and the older ones (OpenTelemetry's own, Zipkin's, OpenTracing's) that many
//! senders still use.

use std::net::IpAddr;

use spanwise_model::{AttributeValue, Attributes, Flow, Kind, protocol};

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
        // Address and port of one endpoint belong together; only what the first
        // does not know at all is taken from the other.
        if self.address.is_some() {
            Self { address: self.address, port: self.port.or(other.port) }
        } else {
            Self { address: other.address, port: other.port.or(self.port) }
        }
    }
}

impl<'a> Known<'a> {
    pub(crate) fn new(attributes: &'a Attributes) -> Self {
        let mut known = Self::default();
        for (key, value) in attributes {
            known.take(key, value);
        }
        known
    }

    fn take(&mut self, key: &str, value: &'a AttributeValue) {
        let text = || value.as_str().filter(|text| !text.is_empty());
        let port = || integer(value).and_then(|port| u16::try_from(port).ok());
        // Sockets that are no IP sockets put a path here.
        let ip = || text().filter(|text| text.parse::<IpAddr>().is_ok());
        match key {
            "http.request.method" | "http.method" | "http.path" | "http.url" => self.http = true,
            "http.response.status_code" | "http.status_code" => self.http_status = integer(value),
            "rpc.grpc.status_code" => self.grpc_status = integer(value),
            "rpc.response.status_code" | "grpc.status_code" => {
                self.grpc_status = self.grpc_status.or_else(|| grpc_code(value));
            }
            "db.system.name" => self.database = text(),
            "db.system" => self.database = self.database.or_else(text),
            // OpenTracing's, where `sql` stands for any relational one.
            "db.type" => {
                self.database = self.database.or_else(|| text().filter(|kind| *kind != "sql"));
            }
            "rpc.system" | "rpc.system.name" => self.rpc = text(),
            "messaging.system" => self.messaging = text(),
            "error.type" => self.error_type = text(),
            "exception.type" => self.exception_type = text(),
            "http.request.header.x-request-id" | "http.request.header.x_request_id" => {
                self.x_request_id = first_text(value);
            }
            "network.peer.address" => self.peer.address = ip(),
            "network.peer.port" => self.peer.port = port(),
            "net.sock.peer.addr" => self.old_peer.address = ip(),
            "net.peer.ip" => self.old_peer.address = self.old_peer.address.or_else(ip),
            "net.sock.peer.port" => self.old_peer.port = port(),
            "net.peer.port" => self.old_peer.port = self.old_peer.port.or_else(port),
            "network.local.address" => self.local.address = ip(),
            "network.local.port" => self.local.port = port(),
            "net.sock.host.addr" | "net.host.ip" => {
                self.local.address = self.local.address.or_else(ip);
            }
            "net.sock.host.port" | "net.host.port" => {
                self.local.port = self.local.port.or_else(port);
            }
            "client.address" => self.client.address = text(),
            "client.port" => self.client.port = port(),
            "server.address" => self.server.address = text(),
            "server.port" => self.server.port = port(),
            "net.peer.name" => self.server.address = self.server.address.or_else(text),
            _ => {}
        }
    }

    /// The protocol that the span's request used, the most telling name first:
    /// a database may be spoken to over HTTP.
    pub(crate) fn protocol(&self) -> Option<&'a str> {
        self.database
            .or(self.rpc)
            .or(self.messaging)
            .or_else(|| self.http.then_some(protocol::HTTP))
    }

    /// The protocol's own status number.
    pub(crate) fn status_code(&self) -> Option<i32> {
        self.http_status.or(self.grpc_status).and_then(|code| i32::try_from(code).ok())
    }

    /// The connection, where the span's kind makes it plain which side is which.
    pub(crate) fn flow(&self, kind: Kind) -> Flow {
        let peer = self.peer.or(self.old_peer);
        let (client, server) = match kind {
            // `server.*` of a server span is what the client called it, and
            // says nothing of the socket.
            Kind::Server => (peer.or(self.client), self.local),
            Kind::Client => (self.local, peer.or(self.server)),
            Kind::Internal | Kind::Producer | Kind::Consumer => return Flow::default(),
        };
        Flow {
            client_address: client.address.map(plain_address),
            client_port: client.port,
            server_address: server.address.map(plain_address),
            server_port: server.port,
            network_namespace: None,
        }
    }
}

/// IPv4 in its dotted form, also where a socket of both families saw it.
fn plain_address(text: &str) -> String {
    match text.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => text.to_owned(),
    }
}

/// Header attributes are arrays; some senders write a single text.
fn first_text(value: &AttributeValue) -> Option<String> {
    match value {
        AttributeValue::String(text) => Some(text.clone()),
        AttributeValue::Json(text) => {
            serde_json::from_str::<Vec<String>>(text).ok()?.into_iter().next()
        }
        _ => None,
    }
}

/// The number of a gRPC status code, which newer conventions write as its name.
fn grpc_code(value: &AttributeValue) -> Option<i64> {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    integer(value).or_else(|| {
        let name = value.as_str()?;
        NAMES.iter().position(|known| *known == name).and_then(|code| i64::try_from(code).ok())
    })
}
