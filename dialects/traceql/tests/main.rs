//! The syntax, the semantics, and properties of every query.

mod corpus;
mod generate;
mod language;
mod meaning;
mod metrics;
mod properties;
