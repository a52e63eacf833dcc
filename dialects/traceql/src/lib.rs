//! TraceQL, as [Grafana Tempo documents it](https://grafana.com/docs/tempo/latest/traceql/):
//! text to a checked syntax tree and back, what a query means on traces in memory, and
//! what of it a store can look for. It knows nothing of servers or stores.
//!
//! [`parse`] gives a [`Query`]. What it needs of single spans says [`Query::needs`]; which
//! fields to show, [`ast::Pipeline::fields`]. On a [`trace::Trace`], seen through a
//! [`trace::TraceView`], a search is run by [`search`], and metrics by
//! [`metrics::Evaluation`]. These two are the definition of what a query means.

pub mod ast;
mod error;
mod evaluate;
mod fields;
mod lexer;
mod literal;
pub mod metrics;
mod names;
mod necessary;
mod parser;
mod pattern;
mod print;
pub mod trace;
mod tree;
mod types;
mod value;

pub use ast::Query;
pub use error::Error;
pub use evaluate::{Spanset, search};
pub use necessary::{Check, Condition, Needs, SomeSpan, Test};
pub use parser::{MAX_DEPTH, MAX_MEASURES, MAX_PATTERNS, MAX_QUERY_BYTES, MAX_STAGES, parse};
pub use pattern::Pattern;
pub use value::Value;
