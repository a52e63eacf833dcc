//! Protocols: what connections say, without a kernel, on any platform.
//!
//! A direction's bytes become a stream, a parser finds messages in it, and a
//! [conversation](sessions::Conversation) pairs requests with responses.

pub mod attribution;
pub mod bytes;
pub mod counters;
mod formats;
mod framing;
pub mod memory;
pub mod parser;
pub mod parsers;
#[cfg(feature = "plugins")]
pub mod plugins;
pub mod process;
pub mod recognition;
pub mod redaction;
pub mod registry;
pub mod sessions;
pub mod stream;
pub mod trace_headers;
mod words;
