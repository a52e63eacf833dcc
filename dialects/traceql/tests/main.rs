//! The language, what it means, and what holds for every query.

mod corpus;
mod generate;
mod language;
mod meaning;
mod metrics;
mod properties;
