//! Helpers that the agent's tests share.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod agents;
pub(crate) mod links;
pub(crate) mod programs;
#[path = "../../../tracer/tests/support/mod.rs"]
pub(crate) mod recorded;
