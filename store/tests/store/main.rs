//! Tests of stores: the contract, run against every implementation, and what
//! each must survive.

mod clickhouse;
mod damage;
mod disk;
mod files;
mod kill;
mod kit;
mod memory;
mod remote;
mod sql;
mod support;
mod twice;
