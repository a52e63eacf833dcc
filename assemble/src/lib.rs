//! From rows to traces: which span is the parent of which, with evidence and confidence.
//!
//! All functions are pure and do no IO. [`Window`] assembles a stream of rows, [`assemble_all`] a
//! complete set. [`Expansion`] says which further rows to look for when a trace is requested, and
//! [`Trace`] is the resulting tree. All use the same table of parent rules, [`RULES`].

mod chains;
mod clocks;
mod index;
mod messages;
mod parents;
mod read;
mod resolve;
mod row;
mod search;
mod slot;
mod text;
mod timeline;
mod timing;
mod tree;
mod window;

#[cfg(test)]
mod testing;

pub use clocks::ClockDifference;
pub use messages::{Carrier, MessageLink, link_messages, message_keys};
pub use parents::{RULES, Rule};
pub use resolve::assemble_all;
pub use row::{Prior, Row};
pub use search::{Expansion, MAX_ROUNDS, RowIdentity, SearchKey, TraceRows};
pub use text::Text;
pub use timing::TimingCounters;
pub use tree::{Node, Trace};
pub use window::{Window, WindowConfig, WindowCounters};
