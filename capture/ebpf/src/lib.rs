//! Events from the kernel: BPF programs on socket calls, on TLS libraries and on what
//! language runtimes do.

mod golang;
pub mod kernel;
pub mod libraries;
mod probed;
pub mod runtimes;
