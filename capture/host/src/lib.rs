//! This host: who its processes are, what the operator wants to see of them, and what
//! this process may do.

pub mod filter;
pub mod processes;
pub mod rights;
