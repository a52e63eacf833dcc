//! Tests of stores: the contract, run against every implementation, and what
//! the embedded one must survive.

mod damage;
mod disk;
mod files;
mod kill;
mod kit;
mod memory;
mod sql;
mod support;
