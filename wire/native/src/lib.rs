//! Reads what native programs recorded (`docs/native-format.md`), and sets their filters.
//!
//! Nothing of a file is trusted: what is whole is read, and the rest is named.

mod clock;
mod detached;
mod filter;
mod following;
pub mod host;
pub mod otlp;
mod process;
mod recording;
mod records;
mod ring;
mod state;

pub use filter::{FilterError, FilterReport, Rule, fits, rules, set_rules};
pub use following::{FollowCounts, Following, Given};
pub use process::{Instrument, Process, Site};
pub use recording::{Piece, Recording};
pub use records::{Counts, Detached, LogRecord, MetricPoint, Span};
pub use ring::Ring;

/// Little-endian numbers at any place of outside bytes; beyond the end they are zero.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u16::from_le_bytes(*chunk))
}
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u32::from_le_bytes(*chunk))
}
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u64::from_le_bytes(*chunk))
}
