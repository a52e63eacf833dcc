//! Bytes that somebody derived from rows of a range of time, kept beside the rows. The store does
//! not know what they mean. It keeps them as durably as rows, and removes them with the rows that
//! they were derived from.
//!
//! ```text
//! DIRECTORY/derived/FROM-TO      seconds since 1970
//! ```
//!
//! A file has named parts, so that a reader reads only what it needs. A file is written once, under
//! another name first. One that is damaged is renamed to end in `.broken`, and counts as missing.
//! Whatever is missing can be derived from rows again.
//!
//! ```text
//! SPWD, form (1 byte), number of parts (4), CRC of what follows up to the parts (4)
//! of each part: kind (4), id (8), place (8), bytes in the file (4), bytes as they are (4), CRC (4)
//! the parts, each compressed
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::{fault, private};
use crate::contract::{DerivedPart, DerivedPartName, StoreError, TimeRange};

const MAGIC: &[u8; 4] = b"SPWD";
const FORM: u8 = 1;
const HEAD_BYTES: usize = 13;
const ENTRY_BYTES: usize = 32;
const SECOND_NANO: i64 = 1_000_000_000;
/// The largest part.
const MAX_PART_BYTES: usize = 1 << 30;
/// Removals that are remembered. What was begun before the oldest of them is refused.
const REMEMBERED: usize = 1_024;
const LEVEL: i32 = 3;

/// The files, and what became of them. See the module.
#[derive(Debug)]
pub struct DerivedFiles {
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By start: end and bytes. They do not overlap.
    files: BTreeMap<i64, (i64, u64)>,
    /// Number and range of the latest removals.
    removed: Vec<(u64, TimeRange)>,
    removals: u64,
    /// Deletions that are under way. Nothing is written meanwhile.
    deleting: usize,
    /// Files that end before this time are removed.
    floor_unix_nano: i64,
    broken: u64,
    refused: u64,
    warnings: Vec<String>,
}

impl State {
    fn overlapping(&self, time: TimeRange) -> Vec<TimeRange> {
        let before = self.files.range(..time.from_unix_nano).next_back();
        let from = before.map_or(time.from_unix_nano, |(from, _)| *from);
        let all = self
            .files
            .range(from..)
            .map(|(from, (to, _))| TimeRange { from_unix_nano: *from, to_unix_nano: *to });
        all.take_while(|file| file.from_unix_nano < time.to_unix_nano)
            .filter(|file| file.to_unix_nano > time.from_unix_nano)
            .collect()
    }

    fn remember(&mut self, time: TimeRange) {
        self.removals += 1;
        self.removed.push((self.removals, time));
        if self.removed.len() > REMEMBERED {
            self.removed.remove(0);
        }
    }

    /// Whether nothing of this time was removed since.
    fn is_untouched(&self, time: TimeRange, since: u64) -> bool {
        let forgotten = self.removals - self.removed.len() as u64;
        since >= forgotten
            && self.removed.iter().all(|(number, removed)| {
                *number <= since
                    || removed.to_unix_nano <= time.from_unix_nano
                    || removed.from_unix_nano >= time.to_unix_nano
            })
    }
}

/// While it lives, nothing is written.
pub(super) struct Deleting<'a>(&'a DerivedFiles);

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().deleting -= 1;
    }
}

impl DerivedFiles {
    /// The files in this data directory.
    ///
    /// # Errors
    /// If the directory cannot be made or read.
    pub(super) fn open(data: &Path) -> Result<Self, StoreError> {
        let directory = data.join("derived");
        let cannot = || fault::io(format!("cannot use the directory {}", directory.display()));
        private::create_directory(&directory).map_err(cannot())?;
        let mut found: Vec<(i64, i64, u64)> = Vec::new();
        for entry in fs::read_dir(&directory).map_err(cannot())? {
            let entry = entry.map_err(cannot())?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.ends_with(".tmp") {
                // A crash came before its end.
                drop(fs::remove_file(entry.path()));
            } else if let Some((from, to)) = range_of(name) {
                found.push((from, to, entry.metadata().map_or(0, |about| about.len())));
            }
        }
        // The longer ones first: what is in them replaces what is in shorter ones.
        found.sort_by_key(|(from, to, _)| (from - to, *from));
        let mut state = State::default();
        for (from, to, bytes) in found {
            let time = TimeRange { from_unix_nano: from, to_unix_nano: to };
            if state.overlapping(time).is_empty() {
                state.files.insert(from, (to, bytes));
            } else {
                drop(fs::remove_file(directory.join(name_of(time))));
            }
        }
        Ok(Self { directory, state: Mutex::new(state) })
    }

    /// The ranges of files that overlap this time, the earliest first.
    pub fn list(&self, time: TimeRange) -> Vec<TimeRange> {
        self.state.lock().overlapping(time)
    }

    /// How often files were removed. To be asked before rows are read for [`Self::put`].
    pub fn removals(&self) -> u64 {
        self.state.lock().removals
    }

    /// Writes a file for this time, durably, in place of all files inside of it. Returns `false`,
    /// and writes nothing, if files of this time were removed after `since` or are being removed:
    /// then rows may have been read that are not there any more. Ends are whole seconds.
    ///
    /// # Errors
    /// If the range is none, overlaps a file that is not inside of it, or cannot be written.
    pub fn put(
        &self,
        time: TimeRange,
        parts: &[DerivedPart],
        since: u64,
    ) -> Result<bool, StoreError> {
        let TimeRange { from_unix_nano: from, to_unix_nano: to } = time;
        if from >= to || from % SECOND_NANO != 0 || to % SECOND_NANO != 0 {
            return Err(StoreError::Invalid(format!("{from} to {to} is no range of seconds")));
        }
        let bytes = encode(parts)?;
        let path = self.directory.join(name_of(time));
        // The lock is held, so that a removal comes before or after the whole.
        let mut state = self.state.lock();
        if state.deleting > 0 || !state.is_untouched(time, since) {
            state.refused += 1;
            return Ok(false);
        }
        let replaced = state.overlapping(time);
        if replaced.iter().any(|file| file.from_unix_nano < from || file.to_unix_nano > to) {
            return Err(StoreError::Invalid(format!("a file crosses {from} or {to}")));
        }
        private::write_durably(&path, &bytes)
            .map_err(fault::io(format!("cannot write {}", path.display())))?;
        for file in replaced {
            state.files.remove(&file.from_unix_nano);
            if file != time {
                // If this fails, the next start removes it.
                drop(fs::remove_file(self.directory.join(name_of(file))));
            }
        }
        state.files.insert(from, (to, bytes.len() as u64));
        Ok(true)
    }

    /// The parts of a file that are asked for, by their names; `None` if the file is not there, or
    /// is damaged, which is counted.
    pub fn read(
        &self,
        time: TimeRange,
        is_wanted: impl Fn(DerivedPartName) -> bool,
    ) -> Option<Vec<DerivedPart>> {
        let path = self.directory.join(name_of(time));
        let error = match read(&path, is_wanted) {
            Ok(parts) => return Some(parts),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => error,
        };
        if error.kind() == io::ErrorKind::InvalidData {
            self.set_aside(time, &error.to_string());
        } else {
            // An error of the system says nothing about the file.
            tracing::warn!("cannot read {}: {error}", path.display());
        }
        None
    }

    /// Renames a damaged file, so that what it holds is derived again.
    pub fn set_aside(&self, time: TimeRange, reason: &str) {
        let mut state = self.state.lock();
        let path = self.directory.join(name_of(time));
        let mut broken = path.clone().into_os_string();
        broken.push(".broken");
        drop(fs::rename(&path, &broken));
        if state.files.remove(&time.from_unix_nano).is_some() {
            state.broken += 1;
            let warning = format!(
                "{} is damaged ({reason}) and was renamed to end in .broken; its figures are made \
                 again from spans. Have a look at the disk",
                path.display()
            );
            tracing::warn!("{warning}");
            if state.warnings.len() < 10 {
                state.warnings.push(warning);
            }
        }
    }

    /// Removes all files of which any part is in this time, durably. What is being derived for this
    /// time is refused.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove(&self, time: TimeRange) -> Result<(), StoreError> {
        self.remove_now(&mut self.state.lock(), time)
    }

    fn remove_now(&self, state: &mut State, time: TimeRange) -> Result<(), StoreError> {
        state.remember(time);
        let files = state.overlapping(time);
        for file in &files {
            let path = self.directory.join(name_of(*file));
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(fault::io(format!("cannot remove {}", path.display()))(error));
                }
                _ => drop(state.files.remove(&file.from_unix_nano)),
            }
        }
        if !files.is_empty() {
            File::open(&self.directory)
                .and_then(|directory| directory.sync_all())
                .map_err(fault::io(format!("cannot sync {}", self.directory.display())))?;
        }
        Ok(())
    }

    /// Removes what was derived from rows of this time, and writes nothing until the answer is
    /// dropped.
    pub(super) fn delete(&self, time: TimeRange) -> Result<Deleting<'_>, StoreError> {
        let mut state = self.state.lock();
        state.deleting += 1;
        let deleting = Deleting(self);
        let removed = self.remove_now(&mut state, time);
        // The guard takes the lock.
        drop(state);
        removed.map(|()| deleting)
    }

    /// Removes files that end before this time, as rows of that time are forgotten.
    pub(super) fn retire(&self, unix_nano: i64) {
        let mut state = self.state.lock();
        state.floor_unix_nano = state.floor_unix_nano.max(unix_nano);
        while let Some((from, (to, _))) = state.files.first_key_value() {
            let time = TimeRange { from_unix_nano: *from, to_unix_nano: *to };
            if time.to_unix_nano > unix_nano {
                break;
            }
            if let Err(error) = self.remove_now(&mut state, time) {
                tracing::warn!("{error}");
                break;
            }
        }
    }

    /// Nothing is to be derived from rows that started before this time. They are forgotten soon.
    pub fn floor_unix_nano(&self) -> i64 {
        self.state.lock().floor_unix_nano
    }

    /// Number and bytes of the files.
    pub fn totals(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.files.len() as u64, state.files.values().map(|(_, bytes)| bytes).sum())
    }

    pub(super) fn counters(&self) -> [(String, u64); 4] {
        let (files, bytes) = self.totals();
        let state = self.state.lock();
        [
            ("derived_files".to_owned(), files),
            ("derived_bytes".to_owned(), bytes),
            ("derived_files_broken".to_owned(), state.broken),
            ("derived_files_refused".to_owned(), state.refused),
        ]
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.state.lock().warnings.clone()
    }
}

fn name_of(time: TimeRange) -> String {
    format!("{}-{}", time.from_unix_nano / SECOND_NANO, time.to_unix_nano / SECOND_NANO)
}

fn range_of(name: &str) -> Option<(i64, i64)> {
    let (from, to) = name.split_once('-')?;
    let nano =
        |text: &str| text.parse::<u32>().ok().map(|seconds| i64::from(seconds) * SECOND_NANO);
    Some((nano(from)?, nano(to)?)).filter(|(from, to)| from < to)
}

fn encode(parts: &[DerivedPart]) -> Result<Vec<u8>, StoreError> {
    let mut entries = Vec::with_capacity(parts.len() * ENTRY_BYTES);
    let mut body: Vec<u8> = Vec::new();
    let start = HEAD_BYTES + parts.len() * ENTRY_BYTES;
    for DerivedPart { name, bytes } in parts {
        let packed = zstd::bulk::compress(bytes, LEVEL)
            .map_err(fault::io("cannot compress derived bytes"))?;
        let too_large = || StoreError::Invalid("a derived part has more than 1 GiB".to_owned());
        if bytes.len() > MAX_PART_BYTES {
            return Err(too_large());
        }
        let length = u32::try_from(packed.len()).map_err(|_| too_large())?;
        entries.extend_from_slice(&name.kind.to_le_bytes());
        entries.extend_from_slice(&name.id.to_le_bytes());
        entries.extend_from_slice(&((start + body.len()) as u64).to_le_bytes());
        entries.extend_from_slice(&length.to_le_bytes());
        entries.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        entries.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
        body.extend_from_slice(&packed);
    }
    let count = u32::try_from(parts.len())
        .map_err(|_| StoreError::Invalid("there are too many derived parts".to_owned()))?;
    let mut file = Vec::with_capacity(start + body.len());
    file.extend_from_slice(MAGIC);
    file.push(FORM);
    file.extend_from_slice(&count.to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(&entries).to_le_bytes());
    file.extend_from_slice(&entries);
    file.extend_from_slice(&body);
    Ok(file)
}

fn damaged(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// Fills the buffer; a file that ends before is damaged.
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    file.read_exact_at(bytes, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it is cut off"),
        _ => error,
    })
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    let mut number = [0; BYTES];
    number.copy_from_slice(&bytes[at..at + BYTES]);
    number
}

fn read(path: &Path, is_wanted: impl Fn(DerivedPartName) -> bool) -> io::Result<Vec<DerivedPart>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut head = [0; HEAD_BYTES];
    read_at(&file, &mut head, 0)?;
    if &head[..4] != MAGIC {
        return Err(damaged("it does not begin as such a file"));
    }
    if head[4] != FORM {
        return Err(damaged(format!("it has form {}, which another version wrote", head[4])));
    }
    let count = u64::from(u32::from_le_bytes(number(&head, 5)));
    if HEAD_BYTES as u64 + count * ENTRY_BYTES as u64 > length {
        return Err(damaged("it is cut off"));
    }
    let mut entries = vec![0; count as usize * ENTRY_BYTES];
    read_at(&file, &mut entries, HEAD_BYTES as u64)?;
    if crc32fast::hash(&entries) != u32::from_le_bytes(number(&head, 9)) {
        return Err(damaged("the checksum of its table is wrong"));
    }
    let mut parts = Vec::new();
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let kind = u32::from_le_bytes(number(entry, 0));
        let name = DerivedPartName { kind, id: u64::from_le_bytes(number(entry, 4)) };
        if !is_wanted(name) {
            continue;
        }
        let at = u64::from_le_bytes(number(entry, 12));
        let packed_bytes = u32::from_le_bytes(number(entry, 20));
        let bytes = u32::from_le_bytes(number(entry, 24)) as usize;
        if at.saturating_add(packed_bytes.into()) > length || bytes > MAX_PART_BYTES {
            return Err(damaged("it is cut off"));
        }
        let mut packed = vec![0; packed_bytes as usize];
        read_at(&file, &mut packed, at)?;
        if crc32fast::hash(&packed) != u32::from_le_bytes(number(entry, 28)) {
            return Err(damaged("the checksum of a part is wrong"));
        }
        let bytes = zstd::bulk::decompress(&packed, bytes)
            .map_err(|error| damaged(format!("a part cannot be unpacked: {error}")))?;
        parts.push(DerivedPart { name, bytes });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: i64, to: i64) -> TimeRange {
        TimeRange { from_unix_nano: from * SECOND_NANO, to_unix_nano: to * SECOND_NANO }
    }

    fn part(kind: u32, id: u64, bytes: &[u8]) -> DerivedPart {
        DerivedPart { name: DerivedPartName { kind, id }, bytes: bytes.to_vec() }
    }

    fn files() -> (tempfile::TempDir, DerivedFiles) {
        let directory = tempfile::tempdir().expect("a directory");
        let files = DerivedFiles::open(directory.path()).expect("opened");
        (directory, files)
    }

    const ALL: fn(DerivedPartName) -> bool = |_| true;

    #[test]
    fn parts_come_back_one_by_one_and_after_a_restart() {
        let (directory, files) = files();
        let parts = [part(0, 0, b"head"), part(1, 7, &[9; 5_000]), part(1, 8, b"")];
        assert!(files.put(range(60, 120), &parts, files.removals()).expect("written"));
        let read = files.read(range(60, 120), |name| name.id == 7).expect("there");
        assert_eq!(read, parts[1..2]);
        let again = DerivedFiles::open(directory.path()).expect("opened");
        assert_eq!(again.read(range(60, 120), ALL).expect("there"), parts);
        assert_eq!(again.list(range(0, 61)), [range(60, 120)]);
        assert!(again.list(range(0, 60)).is_empty() && again.list(range(120, 130)).is_empty());
    }

    #[test]
    fn a_long_range_replaces_the_short_ones_also_when_a_crash_left_them() {
        let (directory, files) = files();
        for from in [0, 60] {
            files.put(range(from, from + 60), &[], files.removals()).expect("written");
        }
        let short = directory.path().join("derived/0-60");
        let bytes = fs::read(&short).expect("there");
        files.put(range(0, 120), &[part(0, 0, b"x")], files.removals()).expect("written");
        assert!(!short.exists());
        assert_eq!(files.list(TimeRange::ALL), [range(0, 120)]);
        fs::write(&short, bytes).expect("as a crash leaves it");
        let again = DerivedFiles::open(directory.path()).expect("opened");
        assert_eq!(again.list(TimeRange::ALL), [range(0, 120)]);
        assert!(!short.exists());
        // What crosses its ends is refused.
        assert!(again.put(range(60, 180), &[], again.removals()).is_err());
    }

    #[test]
    fn what_was_read_before_a_removal_is_not_written_after_it() {
        let (_directory, files) = files();
        let since = files.removals();
        files.remove(range(90, 91)).expect("removed");
        assert!(!files.put(range(60, 120), &[], since).expect("refused"));
        assert!(files.put(range(0, 60), &[], since).expect("written"));
        let deleting = files.delete(range(0, 1)).expect("deleted");
        assert!(files.list(TimeRange::ALL).is_empty());
        assert!(!files.put(range(60, 120), &[], files.removals()).expect("refused"));
        drop(deleting);
        assert!(files.put(range(60, 120), &[], files.removals()).expect("written"));
        for _ in 0..=REMEMBERED {
            files.remove(range(1_000, 1_001)).expect("removed");
        }
        assert!(!files.put(range(0, 60), &[], since).expect("refused"), "too long ago");
        files.retire(119 * SECOND_NANO);
        assert_eq!(files.list(TimeRange::ALL).len(), 1);
        files.retire(120 * SECOND_NANO);
        assert!(files.list(TimeRange::ALL).is_empty());
    }

    #[test]
    fn every_damaged_byte_is_noticed_and_the_file_set_aside() {
        let (directory, files) = files();
        let path = directory.path().join("derived/0-60");
        let parts = [part(0, 0, b"head"), part(1, 7, &[9; 300])];
        let write = || files.put(range(0, 60), &parts, files.removals()).expect("written");
        write();
        let whole = fs::read(&path).expect("there");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x41;
            fs::write(&path, &bytes).expect("written");
            assert_eq!(files.read(range(0, 60), ALL), None, "byte {at}");
            assert!(files.list(TimeRange::ALL).is_empty() && !path.exists());
            write();
        }
        for length in [0, 3, HEAD_BYTES, HEAD_BYTES + 1, whole.len() - 1] {
            fs::write(&path, &whole[..length]).expect("written");
            assert_eq!(files.read(range(0, 60), ALL), None, "{length} bytes");
            write();
        }
        assert!(files.warnings()[0].contains("made again"));
        assert_eq!(files.counters()[2].1, whole.len() as u64 + 5);
    }
}
