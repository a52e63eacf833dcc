//! This host: its processes, the operator's filter, and this process's rights.

pub mod filter;
pub mod processes;
pub mod rights;
