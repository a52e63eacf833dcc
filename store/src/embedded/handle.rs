//! An open file that several readers read at the same time.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// See the module. Clones share the file but no position in it.
#[derive(Debug, Clone)]
pub(super) struct Handle {
    file: Arc<File>,
    bytes: u64,
}

impl Handle {
    /// A file of this length, which does not change any more.
    pub(super) fn new(file: File, bytes: u64) -> Self {
        Self { file: Arc::new(file), bytes }
    }

    /// Its length.
    pub(super) const fn byte_len(&self) -> u64 {
        self.bytes
    }

    /// Fills the buffer from this place of the file.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
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
        Ok(BufReader::new(From { file: Arc::clone(&self.file), offset: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // What a damaged file claims must not be allocated.
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            let what = format!("{length} bytes from {start} on are not in the file");
            return Err(ParquetError::EOF(what));
        }
        let mut buffer = vec![0; length];
        self.read_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}

/// Reads a file from a place on.
#[derive(Debug)]
pub(super) struct From {
    file: Arc<File>,
    offset: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
