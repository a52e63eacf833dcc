//! Tests of the built binary: exit codes, messages, and data that survives restarts and kills.

mod analysis;
mod clickhouse;
mod import;
mod java;
mod metrics;
mod native;
#[path = "../../../wire/native/tests/otlp_metrics/mod.rs"]
mod otlp_metrics;
mod serving;
mod statements;
mod support;
mod usage;
