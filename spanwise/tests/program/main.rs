//! The program as its users meet it: the built binary, its exit codes, its
//! messages, and what it keeps through restarts and kills.

mod clickhouse;
mod import;
mod java;
mod metrics;
mod serving;
mod statements;
mod support;
mod usage;
