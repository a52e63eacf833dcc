//! Bounds and places of the embedded store.

use std::path::PathBuf;
use std::time::Duration;

/// What the embedded store is to hold, and where.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// The directory that holds everything; made where absent.
    pub directory: PathBuf,
    /// Memory for rows that are not yet in files; beyond, senders are refused.
    pub recent_max_bytes: u64,
    /// A generation of the log is closed at this size.
    pub generation_max_bytes: u64,
    /// And at this age.
    pub generation_max_age: Duration,
    /// A closed generation waits at most this long for assembly.
    pub settle_deadline: Duration,
    /// Files whose rows are all older than this are removed; `None`: never.
    pub retain_age: Option<Duration>,
    /// The oldest files beyond this many bytes are removed; `None`: never.
    pub retain_bytes: Option<u64>,
    /// Disk space left to others; with less, senders are refused.
    pub min_free_bytes: u64,
    /// Files wait for another store, which takes them one by one; none is merged
    /// with others.
    pub spool: bool,
}

impl EmbeddedConfig {
    /// The defaults, in this directory.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            recent_max_bytes: 192 << 20,
            generation_max_bytes: 64 << 20,
            generation_max_age: Duration::from_secs(60),
            settle_deadline: Duration::from_secs(10),
            retain_age: None,
            retain_bytes: None,
            min_free_bytes: 64 << 20,
            spool: false,
        }
    }
}
