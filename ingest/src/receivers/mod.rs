//! The table of receivers. Settings, flags, listeners, banner and status are generated from it, and
//! the documents repeat it. A new receiver is one file with its row, and one line in [`RECEIVERS`].

pub(crate) mod flight;
mod jaeger;
mod jvm;
pub(crate) mod jvm_settings;
mod otap;
mod otlp;
mod pipeline;
pub(crate) mod shared;
mod zipkin;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use spanwise_wire::jaeger::Protocol as ThriftProtocol;

pub(crate) use jaeger::udp::serve as serve_datagrams;

/// What a Jaeger writes to its remote storage by: OTLP in its second version.
pub(crate) fn storage_writer(shared: Arc<Shared>) -> Router {
    otlp::grpc::writer(Arc::clone(&shared)).merge(jaeger::grpc::storage_writer(shared))
}

use shared::Shared;

/// A port that receives spans.
#[derive(Debug)]
pub struct Receiver {
    /// The setting of its address: `listen.` and the receiver's key in the status.
    pub setting: &'static str,
    /// The corresponding flag, without leading hyphens.
    pub flag: &'static str,
    /// The protocol.
    pub title: &'static str,
    /// What it accepts, in the words of the setting's description.
    pub takes: &'static str,
    /// The title of its line in the banner. Several receivers may share a line.
    pub banner: &'static str,
    /// Text after its address in the banner.
    pub banner_note: &'static str,
    /// Its default port.
    pub default_port: u16,
    /// Whether it can be disabled.
    pub is_optional: bool,
    /// The HTTP path for spans; empty if there is none.
    pub path: &'static str,
    /// The names of its counters, in groups.
    pub(crate) counters: &'static [&'static [&'static str]],
    pub(crate) service: Service,
}

/// How a receiver is served.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Service {
    /// Over connections: HTTP and gRPC.
    Http(fn(Arc<Shared>) -> Router),
    /// Over datagrams with Jaeger's Thrift.
    Datagrams(ThriftProtocol),
}

/// All receivers, in the order in which they are shown.
pub static RECEIVERS: [&Receiver; COUNT] = [
    &otlp::grpc::RECEIVER,
    &otlp::http::RECEIVER,
    &zipkin::RECEIVER,
    &jaeger::grpc::RECEIVER,
    &jaeger::http::RECEIVER,
    &jaeger::udp::COMPACT,
    &jaeger::udp::BINARY,
];

const COUNT: usize = 7;

/// The receiver for agents.
pub static AGENTS: &Receiver = &otlp::grpc::RECEIVER;

impl Receiver {
    /// Its key in the status.
    pub fn key(&self) -> &'static str {
        self.setting.strip_prefix("listen.").unwrap_or(self.setting)
    }

    /// Whether it receives datagrams rather than connections.
    pub const fn is_udp(&self) -> bool {
        matches!(self.service, Service::Datagrams(_))
    }

    /// The receiver with this key.
    pub fn named(key: &str) -> Option<&'static Self> {
        RECEIVERS.into_iter().find(|receiver| receiver.key() == key)
    }
}

/// The address of each receiver; `None` if it is disabled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverAddresses([Option<SocketAddr>; COUNT]);

impl ReceiverAddresses {
    /// Calls a function for the address of each receiver.
    ///
    /// # Errors
    /// The first error of the function.
    pub fn try_from_fn<E>(
        mut address: impl FnMut(&'static Receiver) -> Result<Option<SocketAddr>, E>,
    ) -> Result<Self, E> {
        let mut all = Self::default();
        for (receiver, place) in RECEIVERS.into_iter().zip(&mut all.0) {
            *place = address(receiver)?;
        }
        Ok(all)
    }

    /// The address of a receiver.
    pub fn of(&self, receiver: &Receiver) -> Option<SocketAddr> {
        self.iter().find(|(one, _)| one.setting == receiver.setting)?.1
    }

    /// All receivers with their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Receiver, Option<SocketAddr>)> + '_ {
        RECEIVERS.into_iter().zip(self.0)
    }

    /// A sentence with the receiver's address.
    pub(crate) fn where_is(&self, receiver: &Receiver) -> String {
        let Receiver { title, setting, path, .. } = receiver;
        match self.of(receiver) {
            None => format!("{title} is switched off here ({setting})"),
            Some(at) if path.is_empty() => format!("{title} has its own port, {}", at.port()),
            Some(at) => format!("{title} has its own port, {}: POST {path}", at.port()),
        }
    }

    /// A sentence with the OTLP address, for spans that were sent to the UI's port.
    pub(crate) fn where_otlp_is(&self) -> String {
        let [grpc, http] =
            [&otlp::grpc::RECEIVER, &otlp::http::RECEIVER].map(|it| self.where_is(it));
        format!("{grpc}; {http}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_agree_with_themselves_and_with_no_other() {
        let mut ports = Vec::new();
        for receiver in RECEIVERS {
            assert_eq!(format!("listen.{}", receiver.flag.replace('-', "_")), receiver.setting);
            assert_eq!(Receiver::named(receiver.key()).unwrap().setting, receiver.setting);
            assert!(receiver.counters.concat().iter().any(|name| name.contains("spans")));
            ports.push((receiver.is_udp(), receiver.default_port));
        }
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), COUNT);
    }

    #[test]
    fn the_documents_have_every_receiver() {
        for document in ["operating.md", "receivers.md"] {
            let path = format!("{}/../docs/{document}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).expect("a document");
            for receiver in RECEIVERS {
                let port = receiver.default_port;
                let port = if receiver.is_udp() { format!("{port}/udp") } else { port.to_string() };
                let mut rows = text.lines().filter(|line| line.starts_with("| "));
                let further = match document {
                    "operating.md" => format!("`--{}`", receiver.flag),
                    _ => receiver.path.to_owned(),
                };
                assert!(
                    rows.any(|row| row.contains(&port) && row.contains(&further)),
                    "docs/{document} has no row with {port} and {further}"
                );
            }
        }
    }

    #[test]
    fn addresses_are_told_as_they_are() {
        let at = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        let addresses = ReceiverAddresses::try_from_fn(|receiver| {
            Ok::<_, ()>(if receiver.is_optional {
                None
            } else {
                at(receiver.default_port + 10_000)
            })
        });
        let addresses = addresses.unwrap();
        let told = |receiver| addresses.where_is(receiver);
        assert_eq!(told(&otlp::grpc::RECEIVER), "OTLP over gRPC has its own port, 14317");
        assert_eq!(
            told(&otlp::http::RECEIVER),
            "OTLP over HTTP has its own port, 14318: POST /v1/traces"
        );
        assert_eq!(told(&zipkin::RECEIVER), "Zipkin is switched off here (listen.zipkin)");
    }
}
