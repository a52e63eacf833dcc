//! An object that is read block by block through the cache.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::bucket::{Bucket, Failure};
use super::cache::{BLOCK_BYTES, Cache, Serial};
use super::head::Part;

/// Maximum blocks in one request.
const RUN_BLOCKS: u32 = 16;
/// Up to this many unneeded blocks between needed ones are fetched as well. A separate request
/// would take longer.
const GAP_BLOCKS: u32 = 2;

/// An object. See the module's description.
#[derive(Debug)]
pub(crate) struct Object {
    bucket: Arc<Bucket>,
    cache: Arc<Cache>,
    key: String,
    serial: Serial,
    part: Part,
    /// The end of the object, while a file is opened.
    tail: parking_lot::Mutex<Option<Bytes>>,
    /// How the object differs from what was uploaded.
    damage: Arc<OnceLock<String>>,
}

impl Object {
    pub(super) fn new(
        bucket: Arc<Bucket>,
        cache: Arc<Cache>,
        (key, part, tail): (String, Part, Option<Bytes>),
        damage: Arc<OnceLock<String>>,
    ) -> Self {
        let serial = cache.name(&key.replace('/', "."));
        Self { bucket, cache, key, serial, part, tail: parking_lot::Mutex::new(tail), damage }
    }

    /// The object's size.
    pub(crate) const fn byte_len(&self) -> u64 {
        self.part.bytes
    }

    /// Frees the end of the object, once the file is opened.
    pub(super) fn forget_tail(&self) {
        self.tail.lock().take();
    }

    /// Fills the buffer from this offset.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + buffer.len() as u64;
        if end > self.part.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(tail) = self.tail.lock().as_ref()
            && offset >= self.part.tail
        {
            let from = usize::try_from(offset - self.part.tail).unwrap_or(usize::MAX);
            let own = tail.get(from..).and_then(|rest| rest.get(..buffer.len()));
            buffer.copy_from_slice(own.ok_or(io::ErrorKind::UnexpectedEof)?);
            return Ok(());
        }
        let mut fetched = BTreeMap::new();
        for block in blocks(&(offset..end)) {
            let own = overlap(block, offset..end);
            let into = &mut buffer[(own.start - offset) as usize..(own.end - offset) as usize];
            let within = own.start - u64::from(block) * BLOCK_BYTES;
            if self.cache.read(self.serial, block, self.crc32(block), within, into) {
                self.cache.hits.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if !fetched.contains_key(&block) {
                // Fetches all missing blocks of the range, which will all be needed.
                fetched = self.fetch(&blocks(&(own.start..end)).collect::<Vec<_>>(), true)?;
            }
            let bytes = fetched.get(&block).ok_or(io::ErrorKind::UnexpectedEof)?;
            let from = within as usize;
            into.copy_from_slice(&bytes[from..from + into.len()]);
        }
        Ok(())
    }

    /// Caches the blocks of some ranges with few requests.
    pub(crate) fn prepare(&self, ranges: &[Range<u64>]) -> io::Result<()> {
        let end = self.part.bytes;
        let ranges = ranges.iter().map(|range| range.start.min(end)..range.end.min(end));
        let mut wanted: Vec<u32> = ranges.flat_map(|range| blocks(&range)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        self.fetch(&wanted, false).map(drop)
    }

    /// Fetches missing blocks; `wanted` must be ascending. With `all`, returns the bytes of every
    /// block.
    fn fetch(&self, wanted: &[u32], all: bool) -> io::Result<BTreeMap<u32, Bytes>> {
        let mut fetched = BTreeMap::new();
        let claim = self.cache.claim(self.serial, wanted);
        self.fetch_own(&claim.blocks, &mut fetched)?;
        drop(claim);
        if !all {
            return Ok(fetched);
        }
        for &block in wanted {
            if fetched.contains_key(&block) {
                continue;
            }
            self.cache.wait(self.serial, block);
            let mut bytes = vec![0; self.length(block)];
            let crc32 = self.crc32(block);
            if self.cache.read(self.serial, block, crc32, 0, &mut bytes) {
                fetched.insert(block, bytes.into());
            } else {
                // The other reader's fetch failed, or the block was already evicted.
                self.fetch_own(&[block], &mut fetched)?;
            }
        }
        Ok(fetched)
    }

    fn fetch_own(&self, own: &[u32], fetched: &mut BTreeMap<u32, Bytes>) -> io::Result<()> {
        if own.is_empty() {
            return Ok(());
        }
        if let Some(damage) = self.damage.get() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, damage.clone()));
        }
        self.cache.misses.fetch_add(own.len() as u64, Ordering::Relaxed);
        let runs = runs(own);
        let range = |run: &Range<u32>| {
            u64::from(run.start) * BLOCK_BYTES
                ..(u64::from(run.end) * BLOCK_BYTES).min(self.part.bytes)
        };
        let ranges: Vec<Range<u64>> = runs.iter().map(range).collect();
        let (bucket, key) = (Arc::clone(&self.bucket), self.key.clone());
        let answers = self.bucket.wait(async move { bucket.get_ranges(&key, ranges).await })?;
        for (run, answer) in runs.iter().zip(answers) {
            let bytes = answer.map_err(|failure| self.diagnosed(failure))?;
            let whole = range(run);
            if bytes.len() as u64 != whole.end - whole.start {
                let length = whole.end - whole.start;
                return Err(self.damaged(format!(
                    "{} bytes instead of {length} came from {} on",
                    bytes.len(),
                    whole.start
                )));
            }
            for block in run.clone() {
                let from = ((block - run.start) as usize) * BLOCK_BYTES as usize;
                let bytes = bytes.slice(from..from + self.length(block));
                if crc32fast::hash(&bytes) != self.crc32(block) {
                    return Err(self.damaged(format!("block {block} is not as it was uploaded")));
                }
                self.cache.keep(self.serial, block, &bytes);
                fetched.insert(block, bytes);
            }
        }
        Ok(())
    }

    /// Finds out whether the object or the connection is the cause of a failure.
    fn diagnosed(&self, failure: Failure) -> io::Error {
        let (bucket, key) = (Arc::clone(&self.bucket), self.key.clone());
        let found = self.bucket.wait(async move {
            match bucket.length(&key).await {
                // If the bucket is missing, so is its owner object.
                Err(Failure::Missing) => (bucket.get(super::owner::KEY).await.map(|_| 0), true),
                answer => (answer, false),
            }
        });
        match found {
            Ok((Ok(_), true)) => self.damaged("it is gone".to_owned()),
            Ok((Ok(bytes), false)) if bytes != self.part.bytes => {
                self.damaged(format!("it has {bytes} bytes instead of {}", self.part.bytes))
            }
            Ok((Err(Failure::Missing), _)) => {
                let reason = format!("{}: the bucket or what was in it is gone", self.bucket.url);
                self.bucket.rest(&reason);
                Failure::Unreachable(reason).into()
            }
            _ => {
                self.bucket.rest(&failure.to_string());
                failure.into()
            }
        }
    }

    fn damaged(&self, what: String) -> io::Error {
        let what = format!("{}/{}: {what}", self.bucket.url, self.key);
        let _ = self.damage.set(what.clone());
        io::Error::new(io::ErrorKind::InvalidData, what)
    }

    fn crc32(&self, block: u32) -> u32 {
        self.part.blocks.get(block as usize).copied().unwrap_or(0)
    }

    fn length(&self, block: u32) -> usize {
        let first = u64::from(block) * BLOCK_BYTES;
        (self.part.bytes.saturating_sub(first)).min(BLOCK_BYTES) as usize
    }
}

fn blocks(range: &Range<u64>) -> Range<u32> {
    if range.is_empty() {
        return 0..0;
    }
    (range.start / BLOCK_BYTES) as u32..range.end.div_ceil(BLOCK_BYTES) as u32
}

fn overlap(block: u32, range: Range<u64>) -> Range<u64> {
    let first = u64::from(block) * BLOCK_BYTES;
    range.start.max(first)..range.end.min(first + BLOCK_BYTES)
}

/// Combines ascending blocks into ranges to fetch.
fn runs(blocks: &[u32]) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for &block in blocks {
        match runs.last_mut() {
            Some(last) if block <= last.end + GAP_BLOCKS && block < last.start + RUN_BLOCKS => {
                last.end = block + 1;
            }
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_fetched_together() {
        assert_eq!(runs(&[]), Vec::<Range<u32>>::new());
        assert_eq!(runs(&[3, 4, 7, 11]), [3..8, 11..12]);
        let many: Vec<u32> = (0..40).collect();
        assert_eq!(runs(&many), [0..16, 16..32, 32..40]);
        assert_eq!(blocks(&(BLOCK_BYTES - 1..BLOCK_BYTES + 1)), 0..2);
        assert_eq!(blocks(&(5..5)), 0..0);
        assert_eq!(overlap(1, 10..BLOCK_BYTES + 7), BLOCK_BYTES..BLOCK_BYTES + 7);
    }
}
