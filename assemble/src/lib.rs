//! Rows to traces: which span hangs under which, why, and how surely.
//!
//! Pure functions over rows; no IO. [`Window`] does it as rows stream in;
//! [`Expansion`] says which further rows to look for when a trace is asked
//! for, and [`Trace`] is the tree that comes of them. Both use the same table
//! of parent rules, in [`links`].

mod links;
mod search;
mod tree;
mod window;

pub use links::{Link, links, rule_names};
pub use search::{Expansion, MAX_ROUNDS, SearchKey};
pub use tree::{Node, Trace};
pub use window::{Window, WindowConfig, WindowCounters, trace_id};
