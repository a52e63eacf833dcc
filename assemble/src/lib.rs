//! Rows to traces: which span hangs under which, why, and how surely.
//!
//! Pure functions over rows; no IO. [`Window`] does it as rows stream in,
//! [`assemble_all`] for rows that are all there. [`Expansion`] says which
//! further rows to look for when a trace is asked for, and [`Trace`] is the
//! tree that comes of them. All use the same table of parent rules, [`RULES`].

mod chains;
mod clocks;
mod index;
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
pub use parents::{RULES, Rule};
pub use resolve::assemble_all;
pub use row::{Prior, Row};
pub use search::{Expansion, MAX_ROUNDS, RowIdentity, SearchKey, TraceRows};
pub use text::Text;
pub use timing::TimingCounters;
pub use tree::{Node, Trace};
pub use window::{Window, WindowConfig, WindowCounters};
