//! The parsers: one folder a protocol.

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
