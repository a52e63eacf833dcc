//! Protocol parsing for traced connections. Needs no kernel and runs on any platform.
//!
//! The bytes of each direction form a stream. A parser finds messages in the stream, and a
//! [conversation](sessions::Conversation) pairs requests with responses.

pub mod attribution;
pub mod bytes;
pub mod counters;
mod formats;
mod framing;
pub mod keys;
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
