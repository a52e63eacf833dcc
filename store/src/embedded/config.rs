//! Bounds and places of the embedded store.

use std::path::PathBuf;
use std::time::Duration;

use crate::embedded::sql::SqlWorker;

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
    /// Where files are brought to; `None`: they stay in the directory.
    pub object_storage: Option<ObjectStorageConfig>,
    /// How a process is started that runs a statement which somebody has typed;
    /// `None`: they run in this process, which they can then exhaust or end. Only
    /// tests can do without.
    pub sql_worker: Option<SqlWorker>,
}

/// Object storage for files. Credentials, region and endpoint come from the
/// environment, under the names that each provider's own tools use.
#[derive(Debug, Clone)]
pub struct ObjectStorageConfig {
    /// `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, or
    /// `file:///DIRECTORY`.
    pub url: String,
    /// Disk for copies of what is there.
    pub cache_max_bytes: u64,
    /// A file is brought there this long after it was written: what is merged
    /// before is not uploaded for nothing, and what waits goes with this machine.
    pub upload_after: Duration,
    /// The id of the server whose files are taken over.
    pub take_over: Option<String>,
    /// What holds instead of the environment, by the environment's names, such as
    /// `AWS_ENDPOINT_URL`.
    pub options: Vec<(String, String)>,
}

impl ObjectStorageConfig {
    /// The defaults, at this address.
    pub fn new(url: String) -> Self {
        Self {
            url,
            cache_max_bytes: 10 << 30,
            upload_after: Duration::from_secs(600),
            take_over: None,
            options: Vec::new(),
        }
    }
}

impl EmbeddedConfig {
    /// The defaults, in this directory.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            recent_max_bytes: 96 << 20,
            generation_max_bytes: 64 << 20,
            generation_max_age: Duration::from_secs(60),
            settle_deadline: Duration::from_secs(10),
            retain_age: None,
            retain_bytes: None,
            min_free_bytes: 64 << 20,
            spool: false,
            object_storage: None,
            sql_worker: None,
        }
    }
}
