//! The zero-code agent: sees what processes say to each other from the kernel,
//! and turns it into spans.

pub mod doctor;
pub mod event;
pub mod kernel;
pub mod process;
pub mod processes;
