//! Events from the kernel: BPF programs on socket calls, TLS libraries and language runtimes.

mod golang;
pub mod kernel;
pub mod libraries;
mod probed;
pub mod runtimes;
