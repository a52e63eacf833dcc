//! Reads traces in the Common Trace Format: CTF 1.8 (metadata in TSDL) and CTF 2 (in JSON), as
//! LTTng, barectf and babeltrace2 write them, and makes OTLP of those events that carry spans, and
//! metrics of hosts of what LTTng's kernel tracer records.
//!
//! Nothing of a trace is trusted: what is whole is read, and the rest is named.

mod decode;
mod fields;
mod host;
mod json;
mod messages;
mod metadata;
mod otlp;
mod resolve;
mod stream;
mod trace;
mod tsdl;
mod types;

pub use decode::Value;
pub use host::HostCounts;
pub use metadata::{Clock, EventClass, Metadata, StreamClass, parse_metadata};
pub use otlp::{Batch, Counts, Spans};
pub use trace::{Event, Trace, is_trace, traces_below};
