//! An open file for concurrent readers: on the local disk, in object storage, or both.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::RwLock;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::embedded::remote::Object;

/// An open file. Clones share the file, but there is no shared read position.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    source: Arc<Source>,
    bytes: u64,
}

#[derive(Debug)]
struct Source {
    /// Kept open, so that it can be read after it was unlinked.
    local: RwLock<Option<Arc<File>>>,
    remote: OnceLock<Arc<Object>>,
    used: AtomicU64,
    serial: u64,
}

/// The next tick of the clock that orders uses.
pub(crate) fn tick() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Handle {
    /// Opens a local file, which must not change any more.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self::new(Some(Arc::new(file)), OnceLock::new(), bytes))
    }

    /// An object in object storage.
    pub(crate) fn remote(object: Arc<Object>) -> Self {
        let bytes = object.byte_len();
        Self::new(None, OnceLock::from(object), bytes)
    }

    fn new(local: Option<Arc<File>>, remote: OnceLock<Arc<Object>>, bytes: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let used = AtomicU64::new(tick());
        let source = Source { local: RwLock::new(local), remote, used, serial };
        Self { source: Arc::new(source), bytes }
    }

    /// A number that no other file has or had.
    pub(crate) fn serial(&self) -> u64 {
        self.source.serial
    }

    /// Records that an object with the same bytes exists now.
    pub(crate) fn is_uploaded_as(&self, object: Arc<Object>) {
        let _ = self.source.remote.set(object);
        self.source.used.store(tick(), Ordering::Relaxed);
    }

    /// Closes the local copy, so that reads use the object. Returns whether there is an object.
    pub(crate) fn drop_copy(&self) -> bool {
        let there = self.source.remote.get().is_some();
        if there {
            self.source.local.write().take();
        }
        there
    }

    /// Whether the file is on the local disk.
    pub(crate) fn is_local(&self) -> bool {
        self.source.local.read().is_some()
    }

    /// The time of the last read, for files with an object.
    pub(crate) fn last_use(&self) -> u64 {
        self.source.used.load(Ordering::Relaxed)
    }

    /// The file's length.
    pub(crate) const fn byte_len(&self) -> u64 {
        self.bytes
    }

    fn local(&self) -> Option<Arc<File>> {
        let local = self.source.local.read().clone();
        if local.is_some() && self.source.remote.get().is_some() {
            self.source.used.store(tick(), Ordering::Relaxed);
        }
        local
    }

    /// Fills the buffer from this offset.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match (self.local(), self.source.remote.get()) {
            (Some(file), _) => file.read_exact_at(buffer, offset),
            (None, Some(object)) => object.read_at(buffer, offset),
            (None, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Announces reads. Objects are fetched together.
    pub(crate) fn prepare(&self, ranges: &[Range<u64>]) -> io::Result<()> {
        match (self.local(), self.source.remote.get()) {
            (None, Some(object)) => object.prepare(ranges),
            _ => Ok(()),
        }
    }
}

impl Length for Handle {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Handle {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(From { file: self.clone(), offset: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // A damaged file may claim any length. It must not be allocated.
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            let what = format!("{length} bytes from {start} on are not in the file");
            return Err(ParquetError::EOF(what));
        }
        let mut buffer = vec![0; length];
        self.read_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}

/// Reads a file sequentially from an offset.
#[derive(Debug)]
pub(crate) struct From {
    file: Handle,
    offset: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.file.bytes.saturating_sub(self.offset);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        self.file.read_at(&mut buffer[..count], self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
