//! Settings of the embedded store.

use std::path::PathBuf;
use std::time::Duration;

use crate::embedded::sql::SqlWorker;

/// Location and limits of the embedded store.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// The data directory. It is created if it does not exist.
    pub directory: PathBuf,
    /// Maximum memory for rows that are not in files yet. Beyond it, senders are refused.
    pub recent_max_bytes: u64,
    /// A generation of the log is closed at this size.
    pub generation_max_bytes: u64,
    /// A generation of the log is closed at this age.
    pub generation_max_age: Duration,
    /// A closed generation waits at most this long for assembly.
    pub settle_deadline: Duration,
    /// Files with only older rows are removed. `None` means never.
    pub retain_age: Option<Duration>,
    /// The oldest files beyond this many bytes are removed. `None` means never.
    pub retain_bytes: Option<u64>,
    /// Minimum free disk space. Below it, senders are refused.
    pub min_free_bytes: u64,
    /// Whether the store is a spool: another store takes the files one by one, and files are not
    /// merged.
    pub spool: bool,
    /// Object storage for files. `None` means that files stay in the directory.
    pub object_storage: Option<ObjectStorageConfig>,
    /// How to start the process that runs a user's statement. `None` means that statements run in
    /// this process, and can then exhaust its memory or crash it. Only tests use `None`.
    pub sql_worker: Option<SqlWorker>,
}

/// Object storage for files. Credentials, region and endpoint come from the environment variables
/// that each provider's own tools use.
#[derive(Debug, Clone)]
pub struct ObjectStorageConfig {
    /// `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, or
    /// `file:///DIRECTORY`.
    pub url: String,
    /// Disk space for cached copies.
    pub cache_max_bytes: u64,
    /// A file is uploaded this long after it was written. A shorter time uploads files that are
    /// merged soon after. Files that are not uploaded yet are lost with this host.
    pub upload_after: Duration,
    /// The id of a server whose files this one takes over.
    pub take_over: Option<String>,
    /// Values that override environment variables, such as `AWS_ENDPOINT_URL`.
    pub options: Vec<(String, String)>,
}

impl ObjectStorageConfig {
    /// Default settings with this address.
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
    /// Default settings with this directory.
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
