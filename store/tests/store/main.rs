//! Tests of stores: the contract for every implementation, and failures that each must survive.

mod clickhouse;
mod damage;
mod disk;
mod files;
mod kill;
mod kit;
mod memory;
mod names;
mod remote;
mod sql;
mod support;
mod twice;
