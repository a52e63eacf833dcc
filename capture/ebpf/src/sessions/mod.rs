//! Sessions: requests paired with responses, for each connection: first in
//! first out, or by the stream that both name.

mod answering;
mod asking;
mod exchange;
mod exchanges;
mod said;
mod shared;
mod unanswered;

pub(crate) use exchange::Exchange;
pub(crate) use exchanges::Exchanges;
pub(crate) use said::{Alike, Answer, Attributes, Failure, Manner, Request, Tag};
pub(crate) use shared::Shared;

use crate::context::Context;
use crate::counters::Counters;
use crate::plugins::Plugins;
use crate::process::ProcessDirectory;
use crate::protocols::{Heads, Known, Topics};

/// What the whole tracer shares, lent to whoever reads a connection's bytes.
pub(crate) struct Desk<'a> {
    /// Open server requests of all processes.
    pub(crate) context: &'a mut Context,
    /// Who processes are.
    pub(crate) processes: &'a mut dyn ProcessDirectory,
    /// Totals.
    pub(crate) counters: &'a mut Counters,
    /// Where completed exchanges go.
    pub(crate) finished: &'a mut Vec<Exchange>,
    /// Exchanges so far: names each.
    pub(crate) exchanges: &'a mut u64,
    /// Kafka's topics, whose ids and names pass on different connections.
    pub(crate) topics: &'a mut Topics,
    /// Heads of HTTP/1 seen of late.
    pub(crate) heads: &'a mut Heads,
    /// What connections are taken to speak, where their bytes are not asked.
    pub(crate) assumed: Option<&'static Known>,
    /// Parsers of the operator's own.
    pub(crate) plugins: &'a mut Plugins,
}
