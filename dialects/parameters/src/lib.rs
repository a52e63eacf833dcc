//! The texts that query APIs take as parameters: durations, moments and tags, as the clients of
//! each tool write them. Whatever a text is, it is read in time linear in its length, or refused.

pub mod go_duration;
mod moment;
pub mod tags;
pub mod tempo;

pub use moment::{MOMENT_FORMS, duration_nano, moment_unix_nano, now_unix_nano};
