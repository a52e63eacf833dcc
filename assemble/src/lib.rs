//! Rows to traces: which span hangs under which, why, and how surely.
//!
//! Pure functions over rows; no IO. [`Window`] does it as rows stream in,
//! [`assemble_all`] for rows that were found later, with [`Expansion`] saying
//! which further rows to look for; [`Trace`] is the tree that comes of it.
//! The rules that make links stand in one table, [`RULES`].

mod index;
mod multi;
mod parents;
mod read;
mod resolve;
mod row;
mod search;
mod tree;
mod window;

#[cfg(test)]
mod testing;

pub use parents::{RULES, Rule};
pub use row::{Prior, Row};
pub use search::{Expansion, MAX_ROUNDS, SearchKey, assemble_all};
pub use tree::{Node, Trace};
pub use window::{Window, WindowConfig, WindowCounters};
