//! TraceQL, as [Grafana Tempo documents it](https://grafana.com/docs/tempo/latest/traceql/): a
//! parser to a checked syntax tree, a printer, the evaluation on traces in memory, and the
//! conditions that a store can search for. This crate does not depend on servers or stores.
//!
//! [`parse`] returns a [`Query`]. [`Query::needs`] returns conditions on single spans, and
//! [`ast::Pipeline::fields`] the fields to display. On a [`trace::Trace`], viewed through a
//! [`trace::TraceView`], [`search`] evaluates a search, and [`metrics::Evaluation`] evaluates
//! metrics. These two define what a query means.

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
pub use necessary::{Above, Check, Condition, Needs, SomeSpan, Test};
pub use parser::{MAX_DEPTH, MAX_MEASURES, MAX_PATTERNS, MAX_QUERY_BYTES, MAX_STAGES, parse};
pub use pattern::Pattern;
pub use value::Value;
