//! Logical chains: what happened for one business key, such as an order's number, over minutes or
//! days. Keys themselves are in `spanwise-keys`.

#[cfg(test)]
mod tests;
mod timeline;

pub use timeline::{Gap, HandOff, HandOffEvidence, MAX_STEPS, Step, Timeline, Visit};
