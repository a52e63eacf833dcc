//! A disk cache for blocks of objects, with a maximum size. The least recently read blocks are
//! evicted.
//!
//! Each block is a file. It is checked against the object's checksums when it is fetched, and again
//! at its first read after a start. So nothing needs to be synced, and a crash is harmless.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::embedded::files::handle::tick;
use crate::embedded::private;

/// Size of blocks. The last block of an object is smaller.
pub(crate) const BLOCK_BYTES: u64 = 256 << 10;
/// A reader that waits for a block checks again after this time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Identifies an object within this process.
pub(super) type Serial = u64;

/// A block cache. See the module's description.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
    pub(super) max_bytes: u64,
    blocks: Mutex<Blocks>,
    /// Notified when a fetch ends.
    fetched: Condvar,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) writes_failed: AtomicU64,
}

#[derive(Debug, Default)]
struct Blocks {
    names: HashMap<Serial, String>,
    next: Serial,
    held: HashMap<(Serial, u32), Entry>,
    /// Blocks by the time of their last read.
    uses: BTreeMap<u64, (Serial, u32)>,
    bytes: u64,
    /// Blocks that are being fetched.
    fetching: HashSet<(Serial, u32)>,
    /// Blocks of the previous process, of objects that are not registered yet.
    found: HashMap<String, Vec<(u32, u64)>>,
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    used: u64,
    checked: bool,
}

impl Blocks {
    fn add(&mut self, key: (Serial, u32), bytes: u64, checked: bool) {
        self.remove(key);
        let used = tick();
        self.held.insert(key, Entry { bytes, used, checked });
        self.uses.insert(used, key);
        self.bytes += bytes;
    }

    fn remove(&mut self, key: (Serial, u32)) -> bool {
        let Some(entry) = self.held.remove(&key) else { return false };
        self.uses.remove(&entry.used);
        self.bytes -= entry.bytes;
        true
    }
}

impl Cache {
    /// Opens the cache in a directory and creates it if needed. Unreadable blocks are ignored.
    pub(super) fn open(directory: PathBuf, max_bytes: u64) -> io::Result<Self> {
        private::create_directory(&directory)?;
        let mut blocks = Blocks::default();
        for entry in fs::read_dir(&directory)?.flatten() {
            let name = entry.file_name();
            let named = name.to_str().and_then(|name| name.rsplit_once('-'));
            match named.and_then(|(object, block)| Some((object, block.parse().ok()?))) {
                Some((object, block)) => {
                    let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                    blocks.found.entry(object.to_owned()).or_default().push((block, bytes));
                }
                None => remove(&entry.path()),
            }
        }
        Ok(Self {
            directory,
            max_bytes,
            blocks: Mutex::new(blocks),
            fetched: Condvar::new(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            writes_failed: AtomicU64::new(0),
        })
    }

    fn path(&self, name: &str, block: u32) -> PathBuf {
        self.directory.join(format!("{name}-{block:06}"))
    }

    /// Registers an object and its existing blocks.
    pub(super) fn name(&self, name: &str) -> Serial {
        let mut blocks = self.blocks.lock();
        let serial = blocks.next;
        blocks.next += 1;
        blocks.names.insert(serial, name.to_owned());
        for (block, bytes) in blocks.found.remove(name).unwrap_or_default() {
            blocks.add((serial, block), bytes, false);
        }
        serial
    }

    /// Removes blocks of objects that were not registered.
    pub(super) fn forget_unnamed(&self) {
        let found = std::mem::take(&mut self.blocks.lock().found);
        for (name, blocks) in found {
            blocks.iter().for_each(|(block, _)| remove(&self.path(&name, *block)));
        }
        self.shrink_to(self.max_bytes);
    }

    /// Removes an object and its blocks.
    pub(super) fn forget(&self, name: &str) {
        let gone = {
            let mut blocks = self.blocks.lock();
            let named = blocks.names.iter().filter(|(_, own)| *own == name);
            let serials: HashSet<Serial> = named.map(|(serial, _)| *serial).collect();
            let of_it = blocks.held.keys().filter(|(object, _)| serials.contains(object));
            let gone: Vec<(Serial, u32)> = of_it.copied().collect();
            for key in &gone {
                blocks.remove(*key);
            }
            blocks.names.retain(|serial, _| !serials.contains(serial));
            gone
        };
        gone.iter().for_each(|(_, block)| remove(&self.path(name, *block)));
    }

    /// Bytes of all blocks.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.lock().bytes
    }

    /// The time of the last read of the least recently read block.
    pub(super) fn oldest_use(&self) -> Option<u64> {
        self.blocks.lock().uses.keys().next().copied()
    }

    /// Fills the buffer from an offset of a block, if the block is cached and its checksum is
    /// `crc32`.
    pub(super) fn read(
        &self,
        serial: Serial,
        block: u32,
        crc32: u32,
        offset: u64,
        buffer: &mut [u8],
    ) -> bool {
        let key = (serial, block);
        let (path, checked, bytes) = {
            let mut blocks = self.blocks.lock();
            let now = tick();
            let Some(entry) = blocks.held.get_mut(&key) else { return false };
            let before = std::mem::replace(&mut entry.used, now);
            let (checked, bytes) = (entry.checked, entry.bytes);
            blocks.uses.remove(&before);
            blocks.uses.insert(now, key);
            let Some(name) = blocks.names.get(&serial) else { return false };
            (self.path(name, block), checked, bytes)
        };
        let mut read = || -> io::Result<bool> {
            let file = File::open(&path)?;
            if !checked {
                let mut all = vec![0; usize::try_from(bytes).unwrap_or(0)];
                file.read_exact_at(&mut all, 0)?;
                if crc32fast::hash(&all) != crc32 {
                    return Ok(false);
                }
                if let Some(entry) = self.blocks.lock().held.get_mut(&key) {
                    entry.checked = true;
                }
            }
            file.read_exact_at(buffer, offset)?;
            Ok(true)
        };
        // The block may have just been evicted. The caller then fetches it.
        let there = read().unwrap_or(false);
        if !there {
            self.blocks.lock().remove(key);
        }
        there
    }

    /// Stores a fetched block. If the disk is full, the block is fetched again next time.
    pub(super) fn keep(&self, serial: Serial, block: u32, bytes: &[u8]) {
        let length = bytes.len() as u64;
        if length > self.max_bytes {
            return;
        }
        self.shrink_to(self.max_bytes - length);
        let Some(name) = self.blocks.lock().names.get(&serial).cloned() else { return };
        let path = self.path(&name, block);
        if let Err(error) = private::create(&path).and_then(|mut file| file.write_all(bytes)) {
            if self.writes_failed.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!("cannot write {}: {error}; it is fetched anew", path.display());
            }
            remove(&path);
            return;
        }
        let mut blocks = self.blocks.lock();
        if blocks.names.contains_key(&serial) {
            blocks.add((serial, block), length, true);
        } else {
            remove(&path);
        }
    }

    /// Evicts blocks until at most this many bytes are used.
    pub(super) fn shrink_to(&self, most: u64) {
        loop {
            let mut blocks = self.blocks.lock();
            if blocks.bytes <= most {
                return;
            }
            let Some((_, key)) = blocks.uses.pop_first() else { return };
            blocks.remove(key);
            let path = blocks.names.get(&key.0).map(|name| self.path(name, key.1));
            drop(blocks);
            path.iter().for_each(|path| remove(path));
        }
    }

    /// Evicts the least recently read block. Returns the number of bytes freed.
    pub(super) fn shrink(&self) -> u64 {
        let before = self.bytes();
        self.shrink_to(before.saturating_sub(1));
        before.saturating_sub(self.bytes())
    }

    /// Claims those blocks that are neither cached nor being fetched. The caller must fetch them
    /// while it holds the claim.
    pub(super) fn claim(&self, serial: Serial, wanted: &[u32]) -> Claim<'_> {
        let mut blocks = self.blocks.lock();
        let mut own = Vec::new();
        for &block in wanted {
            let key = (serial, block);
            if !blocks.held.contains_key(&key) && blocks.fetching.insert(key) {
                own.push(block);
            }
        }
        Claim { cache: self, serial, blocks: own }
    }

    /// Waits until no other reader fetches the block.
    pub(super) fn wait(&self, serial: Serial, block: u32) {
        let mut blocks = self.blocks.lock();
        while blocks.fetching.contains(&(serial, block)) {
            self.fetched.wait_for(&mut blocks, LOOK_AGAIN_AFTER);
        }
    }
}

/// Blocks that only the holder may fetch.
pub(super) struct Claim<'a> {
    cache: &'a Cache,
    serial: Serial,
    pub(super) blocks: Vec<u32>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut blocks = self.cache.blocks.lock();
        for block in &self.blocks {
            blocks.fetching.remove(&(self.serial, *block));
        }
        drop(blocks);
        self.cache.fetched.notify_all();
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path) -> usize {
        fs::read_dir(directory).expect("read").count()
    }

    #[test]
    fn what_was_read_last_stays_and_no_more_than_allowed() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(directory.path().to_owned(), 25).expect("opened");
        let object = cache.name("a.spans");
        for block in 0..2 {
            cache.keep(object, block, &[block as u8; 10]);
        }
        let mut buffer = [9; 4];
        assert!(cache.read(object, 0, 0, 3, &mut buffer));
        assert_eq!(buffer, [0; 4]);
        cache.keep(object, 2, &[2; 10]);
        assert_eq!((cache.bytes(), files(directory.path())), (20, 2));
        assert!(!cache.read(object, 1, 0, 0, &mut buffer), "it was not read for longest");
        assert!(
            cache.read(object, 2, 0, 0, &mut buffer) && cache.read(object, 0, 0, 0, &mut buffer)
        );
        assert_eq!(cache.shrink(), 10);
        cache.forget("a.spans");
        assert_eq!((cache.bytes(), files(directory.path())), (0, 0));
    }

    #[test]
    fn blocks_outlive_the_process_but_not_damage() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Cache::open(directory.path().to_owned(), 1000).expect("opened");
        {
            let cache = open();
            let (one, other) = (cache.name("a.spans"), cache.name("b.spans"));
            cache.keep(one, 0, b"sound");
            cache.keep(one, 1, b"to be damaged");
            cache.keep(other, 0, b"of an object that goes");
        }
        fs::write(directory.path().join("a.spans-000001"), b"to be damaged?").expect("written");
        let cache = open();
        let one = cache.name("a.spans");
        cache.forget_unnamed();
        let mut buffer = [0; 5];
        assert!(cache.read(one, 0, crc32fast::hash(b"sound"), 0, &mut buffer));
        assert_eq!(&buffer, b"sound");
        assert!(!cache.read(one, 1, crc32fast::hash(b"to be damaged"), 0, &mut buffer));
        let claim = cache.claim(one, &[0, 1]);
        assert_eq!(claim.blocks, [1], "the damaged one is fetched anew");
        assert_eq!(cache.claim(one, &[1]).blocks, [0u32; 0], "by one");
        drop(claim);
        assert_eq!(cache.claim(one, &[1]).blocks, [1], "until that one gave up");
        assert!(!directory.path().join("b.spans-000000").exists());
    }
}
