//! The protocol parsers: one folder and one table row per protocol.

pub(crate) mod amqp;
pub mod dns;
pub(crate) mod dubbo;
pub(crate) mod fastcgi;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod kafka;
pub(crate) mod memcached;
pub(crate) mod mongodb;
pub(crate) mod mqtt;
pub(crate) mod mysql;
pub(crate) mod nats;
pub(crate) mod postgresql;
pub(crate) mod redis;
pub mod tls;
pub(crate) mod websocket;
pub(crate) mod zmtp;

use crate::parser::Known;

/// All protocols, in the order in which they are tried; the first that answers yes is used.
/// Protocols with unambiguous first bytes come before those that check less.
pub(crate) const PROTOCOLS: &[Known] = &[
    tls::KNOWN,
    nats::KNOWN,
    http1::KNOWN,
    http2::KNOWN,
    amqp::KNOWN,
    mqtt::KNOWN,
    zmtp::KNOWN,
    dubbo::KNOWN,
    fastcgi::KNOWN,
    mongodb::KNOWN,
    kafka::KNOWN,
    mysql::KNOWN,
    postgresql::KNOWN,
    memcached::KNOWN,
    redis::KNOWN,
    dns::KNOWN,
];
