//! The receivers: one table, over which settings, flags, listeners, banner and status iterate,
//! and which the documents repeat. A new receiver is a file with its row, and a line in
//! [`RECEIVERS`].

pub(crate) mod flight;
mod jaeger;
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

/// A port that takes spans.
#[derive(Debug)]
pub struct Receiver {
    /// The setting that says where it listens: `listen.` and the key that it has in the status.
    pub setting: &'static str,
    /// The same among the flags, without the hyphens before it.
    pub flag: &'static str,
    /// What is spoken there.
    pub title: &'static str,
    /// What it takes, as its setting says.
    pub takes: &'static str,
    /// Its line in the banner, which it may share with others.
    pub banner: &'static str,
    /// What follows its address there.
    pub banner_note: &'static str,
    /// Where it listens by default.
    pub default_port: u16,
    /// Whether it may be switched off.
    pub is_optional: bool,
    /// The path to which spans are posted by HTTP; empty where it has none.
    pub path: &'static str,
    /// What it counts, by what counts it.
    pub(crate) counters: &'static [&'static [&'static str]],
    pub(crate) service: Service,
}

/// How a receiver is served.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Service {
    /// Connections: HTTP and gRPC.
    Http(fn(Arc<Shared>) -> Router),
    /// Datagrams with Jaeger's thrift.
    Datagrams(ThriftProtocol),
}

/// All receivers, in the order in which people see them.
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

/// The receiver to which agents report.
pub static AGENTS: &Receiver = &otlp::grpc::RECEIVER;

impl Receiver {
    /// The key that it has in the status.
    pub fn key(&self) -> &'static str {
        self.setting.strip_prefix("listen.").unwrap_or(self.setting)
    }

    /// Whether it takes datagrams, not connections.
    pub const fn is_udp(&self) -> bool {
        matches!(self.service, Service::Datagrams(_))
    }

    /// The receiver of this key.
    pub fn named(key: &str) -> Option<&'static Self> {
        RECEIVERS.into_iter().find(|receiver| receiver.key() == key)
    }
}

/// Where each receiver listens; `None` where it is switched off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverAddresses([Option<SocketAddr>; COUNT]);

impl ReceiverAddresses {
    /// Asks for the address of each.
    ///
    /// # Errors
    /// The first error.
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

    /// Where a receiver is, in a sentence.
    pub(crate) fn where_is(&self, receiver: &Receiver) -> String {
        let Receiver { title, setting, path, .. } = receiver;
        match self.of(receiver) {
            None => format!("{title} is switched off here ({setting})"),
            Some(at) if path.is_empty() => format!("{title} has its own port, {}", at.port()),
            Some(at) => format!("{title} has its own port, {}: POST {path}", at.port()),
        }
    }

    /// Where most spans go, for those that came to the UI's port.
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
