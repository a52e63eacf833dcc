//! Requests to object storage, with timeouts, retries and counters. While it is unreachable, reads
//! fail at once instead of waiting one after the other.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
    RetryConfig, UpdateVersion, WriteMultipart,
};
use parking_lot::Mutex;
use tokio::runtime::Handle as Runtime;

use super::words;

/// Larger objects are uploaded in parts of this size.
pub(super) const PART_BYTES: usize = 8 << 20;
/// Parts of one object that are uploaded in parallel.
const PARTS_AT_ONCE: usize = 3;
/// Parallel requests of one reader.
const READS_AT_ONCE: usize = 16;
/// Maximum time for reading an object, including retries.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of one request, including its data.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Options of the HTTP clients. Plain HTTP is allowed, since the operator configures the address.
const CLIENT: [(ClientConfigKey, &str); 3] = [
    (ClientConfigKey::Timeout, "60s"),
    (ClientConfigKey::ConnectTimeout, "5s"),
    (ClientConfigKey::AllowHttp, "true"),
];
/// Requests are retried after server errors for this long.
const RETRY_FOR: Duration = Duration::from_secs(15);
/// After a failure, readers do not try again for this long, or until another request succeeds.
const REST: Duration = Duration::from_secs(30);

/// A bucket in object storage. See the module's description.
#[derive(Debug)]
pub(super) struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The address, for operators.
    pub(super) url: String,
    /// Whether the service supports conditional writes of existing objects.
    pub(super) has_versions: bool,
    runtime: Runtime,
    trouble: Mutex<Option<BucketProblem>>,
    pub(super) figures: Figures,
}

/// The problem since the last success.
#[derive(Debug, Clone)]
struct BucketProblem {
    reason: String,
    /// Readers do not try before this time.
    rest_until: Instant,
}

/// Counters of requests.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) requests: AtomicU64,
    pub(super) requests_failed: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_written: AtomicU64,
}

/// Why a request failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Failure {
    /// The object does not exist.
    #[error("there is no such object")]
    Missing,
    /// Another writer changed the object first.
    #[error("another one was first")]
    Conflict,
    /// The service is unreachable, refuses the request, or fails.
    #[error("{0}")]
    Unreachable(String),
    /// An error on this host.
    #[error("{0}")]
    Here(String),
    /// The data to be uploaded cannot be read.
    #[error("what is to be uploaded cannot be read: {0}")]
    Source(String),
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        let kind = match failure {
            Failure::Missing => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, failure.to_string())
    }
}

/// An object's bytes and their version.
pub(super) struct Versioned {
    pub(super) bytes: Bytes,
    pub(super) version: UpdateVersion,
}

impl Bucket {
    /// The bucket and prefix of an address. Sends no request.
    ///
    /// # Errors
    /// What is wrong with the address or the environment, with advice.
    pub(super) fn new(url: &str, options: &[(String, String)]) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (container, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let wrong = |error: Error| format!("{url}: {}", words::of(&error));
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 6,
            retry_timeout: RETRY_FOR,
        };
        // The builders have the same methods but no common trait. Option names that a provider does
        // not know belong to other providers.
        macro_rules! built {
            ($builder:ident, $key:ident) => {{
                let builder = $builder::from_env().with_url(url).with_retry(retry);
                let builder = CLIENT.iter().fold(builder, |builder, (key, value)| {
                    builder.with_config($key::Client(*key), *value)
                });
                let builder = options.iter().fold(builder, |builder, (name, value)| {
                    match name.to_ascii_lowercase().parse() {
                        Ok(key) => builder.with_config(key, value),
                        Err(_) => builder,
                    }
                });
                Arc::new(builder.build().map_err(wrong)?)
            }};
        }
        if container.is_empty() && scheme != "file" {
            return Err(words::ADDRESS.to_owned());
        }
        let (store, prefix): (Arc<dyn ObjectStore>, Path) = match scheme {
            "s3" => (built!(AmazonS3Builder, AmazonS3ConfigKey), Path::from(prefix)),
            "gs" => (built!(GoogleCloudStorageBuilder, GoogleConfigKey), Path::from(prefix)),
            "az" => (built!(MicrosoftAzureBuilder, AzureConfigKey), Path::from(prefix)),
            "file" if rest.starts_with('/') => {
                // The directory must exist: if the file system is not mounted, the bucket is
                // unreachable.
                let store = LocalFileSystem::new_with_prefix(rest).map_err(wrong)?;
                (Arc::new(store), Path::default())
            }
            _ => return Err(words::ADDRESS.to_owned()),
        };
        Ok(Self {
            store,
            prefix,
            url: url.trim_end_matches('/').to_owned(),
            has_versions: scheme != "file",
            runtime: Runtime::current(),
            trouble: Mutex::new(None),
            figures: Figures::default(),
        })
    }

    fn path(&self, key: &str) -> Path {
        key.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// The current problem; `None` if the last request succeeded.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().as_ref().map(|trouble| trouble.reason.clone())
    }

    fn rests(&self) -> Option<Failure> {
        let trouble = self.trouble.lock();
        let resting = trouble.as_ref().filter(|trouble| Instant::now() < trouble.rest_until)?;
        Some(Failure::Unreachable(resting.reason.clone()))
    }

    /// Counts a request and updates the service's state.
    fn record_result<T>(&self, answer: Result<T, Error>) -> Result<T, Failure> {
        self.figures.requests.fetch_add(1, Ordering::Relaxed);
        let failure = match answer {
            Ok(value) => {
                if self.trouble.lock().take().is_some() {
                    tracing::info!("{} can be reached again", self.url);
                }
                return Ok(value);
            }
            Err(Error::NotFound { .. }) => return Err(Failure::Missing),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                return Err(Failure::Conflict);
            }
            Err(other) => other,
        };
        self.figures.requests_failed.fetch_add(1, Ordering::Relaxed);
        let reason = format!("{}: {}", self.url, words::of(&failure));
        Err(Failure::Unreachable(reason))
    }

    /// Makes readers fail at once for a while.
    pub(super) fn rest(&self, reason: &str) {
        let rest_until = Instant::now() + REST;
        let trouble = BucketProblem { reason: reason.to_owned(), rest_until };
        if self.trouble.lock().replace(trouble).is_none() {
            tracing::warn!("object storage cannot be used: {reason}");
        }
    }

    /// Fails at once during a rest, and starts a rest after a failure.
    async fn tried<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let answer = match tokio::time::timeout(limit, work).await {
            Ok(answer) => self.record_result(answer),
            Err(_) => {
                self.figures.requests_failed.fetch_add(1, Ordering::Relaxed);
                Err(Failure::Unreachable(format!("{}: no answer in {limit:?}", self.url)))
            }
        };
        if let Err(Failure::Unreachable(reason)) = &answer {
            self.rest(reason);
        }
        answer
    }

    /// Reads a whole object.
    pub(super) async fn get(&self, key: &str) -> Result<Versioned, Failure> {
        let path = self.path(key);
        let get = async {
            let got = self.store.get(&path).await?;
            let meta = &got.meta;
            let version =
                UpdateVersion { e_tag: meta.e_tag.clone(), version: meta.version.clone() };
            Ok(Versioned { bytes: got.bytes().await?, version })
        };
        let got = self.tried(REQUEST_TIMEOUT, get).await?;
        self.figures.bytes_read.fetch_add(got.bytes.len() as u64, Ordering::Relaxed);
        Ok(got)
    }

    /// The size of an object.
    pub(super) async fn length(&self, key: &str) -> Result<u64, Failure> {
        if let Some(resting) = self.rests() {
            return Err(resting);
        }
        let path = self.path(key);
        let meta = async { self.store.head(&path).await };
        // Short timeout, because a reader waits whose first request has already failed.
        Ok(self.tried(CONNECT_TIMEOUT, meta).await?.size)
    }

    /// Reads ranges of an object with parallel requests, one for each range.
    pub(super) async fn get_ranges(
        &self,
        key: &str,
        ranges: Vec<Range<u64>>,
    ) -> Vec<Result<Bytes, Failure>> {
        let path = &self.path(key);
        let one = |range: Range<u64>| async move {
            if let Some(resting) = self.rests() {
                return Err(resting);
            }
            let get = self.store.get_range(path, range);
            let answer = match tokio::time::timeout(READ_TIMEOUT, get).await {
                // The caller finds out whether the service or the object is the cause.
                Ok(answer) => self.record_result(answer),
                Err(_) => Err(Failure::Unreachable(format!(
                    "{}: no answer in {READ_TIMEOUT:?}",
                    self.url
                ))),
            };
            if let Ok(bytes) = &answer {
                self.figures.bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            answer
        };
        futures::stream::iter(ranges).map(one).buffered(READS_AT_ONCE).collect().await
    }

    /// Writes an object, replacing an existing one.
    pub(super) async fn put(&self, key: &str, bytes: Bytes) -> Result<(), Failure> {
        self.put_if(key, bytes, PutMode::Overwrite).await
    }

    /// Writes an object if `mode` allows it, else returns [`Failure::Conflict`].
    pub(super) async fn put_if(
        &self,
        key: &str,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<(), Failure> {
        let (path, length) = (self.path(key), bytes.len() as u64);
        let put = self.store.put_opts(&path, bytes.into(), PutOptions::from(mode));
        self.tried(REQUEST_TIMEOUT + RETRY_FOR, put).await.map_err(|f| self.gone(f))?;
        self.figures.bytes_written.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    /// If a write reports a missing object, the bucket itself is missing.
    fn gone(&self, failure: Failure) -> Failure {
        let Failure::Missing = failure else { return failure };
        let reason = format!("{}: there is no such bucket", self.url);
        self.rest(&reason);
        Failure::Unreachable(reason)
    }

    /// Uploads an object of this size, which `read` returns part by part.
    pub(super) async fn upload(
        &self,
        key: &str,
        length: u64,
        read: impl Fn(Range<u64>) -> io::Result<Bytes> + Clone + Send + 'static,
    ) -> Result<(), Failure> {
        let read = |range: Range<u64>| {
            let read = read.clone();
            async move {
                let done = tokio::task::spawn_blocking(move || read(range)).await;
                let done = done.unwrap_or_else(|_| Err(io::Error::other("reading it failed")));
                done.map_err(|error| Failure::Source(error.to_string()))
            }
        };
        if length <= PART_BYTES as u64 {
            return self.put(key, read(0..length).await?).await;
        }
        let path = self.path(key);
        let begin = async { self.store.put_multipart(&path).await };
        let parts = self.tried(REQUEST_TIMEOUT, begin).await.map_err(|f| self.gone(f))?;
        let mut upload = WriteMultipart::new_with_chunk_size(parts, PART_BYTES);
        for at in (0..length).step_by(PART_BYTES) {
            let range = at..length.min(at + PART_BYTES as u64);
            let count = range.end - range.start;
            let bytes = match read(range).await {
                Ok(bytes) => bytes,
                Err(failure) => {
                    let _ = upload.abort().await;
                    return Err(failure);
                }
            };
            let room = upload.wait_for_capacity(PARTS_AT_ONCE);
            if let Err(failure) = self.tried(REQUEST_TIMEOUT + RETRY_FOR, room).await {
                let _ = tokio::time::timeout(CONNECT_TIMEOUT, upload.abort()).await;
                return Err(failure);
            }
            upload.put(bytes);
            self.figures.bytes_written.fetch_add(count, Ordering::Relaxed);
        }
        // An upload that cannot finish aborts itself.
        self.tried(REQUEST_TIMEOUT * 2, upload.finish()).await.map(drop)
    }

    /// Removes an object. A missing object is not an error.
    pub(super) async fn delete(&self, key: &str) -> Result<(), Failure> {
        let path = self.path(key);
        match self.tried(REQUEST_TIMEOUT, async { self.store.delete(&path).await }).await {
            Err(Failure::Missing) => Ok(()),
            answer => answer,
        }
    }

    /// The names of all objects below a key.
    pub(super) async fn list(&self, below: &str) -> Result<Vec<String>, Failure> {
        let path = self.path(below);
        let all = self.store.list(Some(&path)).try_collect::<Vec<_>>();
        let all = match self.tried(REQUEST_TIMEOUT * 5, all).await {
            Err(Failure::Missing) => Vec::new(),
            answer => answer?,
        };
        Ok(all.iter().filter_map(|meta| meta.location.filename().map(str::to_owned)).collect())
    }

    /// Runs a future and waits for it. Must not be called from the runtime's threads.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, answer) = std::sync::mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            let _ = done.send(work.await);
        });
        answer.recv().map_err(|_| io::Error::other("the program is ending"))
    }
}
