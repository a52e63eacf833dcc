//! Bytes that somebody derived from rows of a range of time, kept beside the rows. The store does
//! not know what they mean. It keeps them as durably as rows, and removes them with the rows that
//! they were derived from.
//!
//! ```text
//! DIRECTORY/derived/FROM-TO      seconds since 1970
//! DIRECTORY/derived/FROM-TO.old  the same, outdated: rows of its time came later
//! ```
//!
//! An outdated file is read until newer ones cover its time. For whoever derives, it is missing.
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
const OUTDATED: &str = ".old";

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DerivedFile {
    /// The time of the rows that it was derived from.
    pub time: TimeRange,
    /// Whether rows of this time came later. It is to be derived again.
    pub is_outdated: bool,
}

impl DerivedFile {
    /// A file that is not outdated.
    pub const fn fresh(time: TimeRange) -> Self {
        Self { time, is_outdated: false }
    }

    fn name(self) -> String {
        let TimeRange { from_unix_nano: from, to_unix_nano: to } = self.time;
        let end = if self.is_outdated { OUTDATED } else { "" };
        format!("{}-{}{end}", from / SECOND_NANO, to / SECOND_NANO)
    }

    fn of_name(name: &str) -> Option<Self> {
        let (range, is_outdated) =
            name.strip_suffix(OUTDATED).map_or((name, false), |range| (range, true));
        let (from, to) = range.split_once('-')?;
        let nano =
            |text: &str| text.parse::<u32>().ok().map(|seconds| i64::from(seconds) * SECOND_NANO);
        let time = TimeRange { from_unix_nano: nano(from)?, to_unix_nano: nano(to)? };
        (time.from_unix_nano < time.to_unix_nano).then_some(Self { time, is_outdated })
    }
}

/// The files, and what became of them. See the module.
#[derive(Debug)]
pub struct DerivedFiles {
    directory: PathBuf,
    state: Mutex<State>,
}

/// Files by their start: end and bytes. They do not overlap.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<i64, (i64, u64)>);

impl Ranges {
    fn overlapping(&self, time: TimeRange) -> Vec<TimeRange> {
        let before = self.0.range(..time.from_unix_nano).next_back();
        let from = before.map_or(time.from_unix_nano, |(from, _)| *from);
        let all = self
            .0
            .range(from..)
            .map(|(from, (to, _))| TimeRange { from_unix_nano: *from, to_unix_nano: *to });
        all.take_while(|file| file.from_unix_nano < time.to_unix_nano)
            .filter(|file| file.to_unix_nano > time.from_unix_nano)
            .collect()
    }

    /// Whether these files together have all of this time.
    fn cover(&self, time: TimeRange) -> bool {
        let mut reached = time.from_unix_nano;
        for file in self.overlapping(time) {
            if file.from_unix_nano > reached {
                return false;
            }
            reached = file.to_unix_nano;
        }
        reached >= time.to_unix_nano
    }

    fn insert(&mut self, time: TimeRange, bytes: u64) {
        self.0.insert(time.from_unix_nano, (time.to_unix_nano, bytes));
    }

    /// Takes this file out of the list; its bytes, if it was there.
    fn take(&mut self, time: TimeRange) -> Option<u64> {
        let is_there =
            self.0.get(&time.from_unix_nano).is_some_and(|(to, _)| *to == time.to_unix_nano);
        let taken = is_there.then(|| self.0.remove(&time.from_unix_nano));
        taken.flatten().map(|(_, bytes)| bytes)
    }
}

/// Why what was read for a file is not all that should be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Touched {
    /// Rows came later.
    Outdated,
    /// Rows may not be there any more.
    Removed,
}

/// A time in which files were removed or outdated.
#[derive(Debug, Clone, Copy)]
struct Touch {
    number: u64,
    time: TimeRange,
    what: Touched,
}

#[derive(Debug, Default)]
struct State {
    files: Ranges,
    /// What is read as long as `files` do not cover its time. None is inside of one of `files`.
    outdated: Ranges,
    /// The latest removals.
    removed: Vec<Touch>,
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
    fn list_of(&mut self, is_outdated: bool) -> &mut Ranges {
        if is_outdated { &mut self.outdated } else { &mut self.files }
    }

    /// All files of which any part is in this time.
    fn overlapping(&self, time: TimeRange) -> Vec<DerivedFile> {
        let fresh = self.files.overlapping(time).into_iter().map(DerivedFile::fresh);
        let outdated = self.outdated.overlapping(time);
        fresh
            .chain(outdated.into_iter().map(|time| DerivedFile { time, is_outdated: true }))
            .collect()
    }

    fn remember(&mut self, time: TimeRange, what: Touched) {
        self.removals += 1;
        self.removed.push(Touch { number: self.removals, time, what });
        if self.removed.len() > REMEMBERED {
            self.removed.remove(0);
        }
    }

    /// What happened to this time since; `None` if nothing did.
    fn touched(&self, time: TimeRange, since: u64) -> Option<Touched> {
        let forgotten = self.removals - self.removed.len() as u64;
        if since < forgotten {
            return Some(Touched::Removed);
        }
        let touches = self.removed.iter().filter(|touch| {
            touch.number > since
                && touch.time.to_unix_nano > time.from_unix_nano
                && touch.time.from_unix_nano < time.to_unix_nano
        });
        touches.map(|touch| touch.what).max()
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
        let mut found: Vec<(DerivedFile, u64)> = Vec::new();
        for entry in fs::read_dir(&directory).map_err(cannot())? {
            let entry = entry.map_err(cannot())?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.ends_with(".tmp") {
                // A crash came before its end.
                drop(fs::remove_file(entry.path()));
            } else if let Some(file) = DerivedFile::of_name(name) {
                found.push((file, entry.metadata().map_or(0, |about| about.len())));
            }
        }
        // The longer ones first: what is in them replaces what is in shorter ones. Outdated ones
        // last: they may be replaced.
        found.sort_by_key(|(DerivedFile { time, is_outdated }, _)| {
            (*is_outdated, time.from_unix_nano - time.to_unix_nano, time.from_unix_nano)
        });
        let mut state = State::default();
        for (file, bytes) in found {
            let is_replaced = file.is_outdated && state.files.cover(file.time);
            let list = state.list_of(file.is_outdated);
            if !is_replaced && list.overlapping(file.time).is_empty() {
                list.insert(file.time, bytes);
            } else {
                drop(fs::remove_file(directory.join(file.name())));
            }
        }
        Ok(Self { directory, state: Mutex::new(state) })
    }

    /// The ranges of files that overlap this time and are not outdated, the earliest first.
    pub fn list(&self, time: TimeRange) -> Vec<TimeRange> {
        self.state.lock().files.overlapping(time)
    }

    /// The files to read of this time, the earliest first. They do not overlap.
    pub fn covering(&self, time: TimeRange) -> Vec<DerivedFile> {
        let state = self.state.lock();
        let mut files = state.overlapping(time);
        // Not all of an outdated file's time was derived again.
        files.retain(|file| file.is_outdated || state.outdated.overlapping(file.time).is_empty());
        files.sort_by_key(|file| file.time.from_unix_nano);
        files
    }

    /// How often files were removed or outdated. To be asked before rows are read for
    /// [`Self::put`].
    pub fn removals(&self) -> u64 {
        self.state.lock().removals
    }

    /// Writes a file for this time, durably, in place of all files inside of it. Returns `false` if
    /// it is to be derived again: nothing is written if files of this time were removed after
    /// `since` or are being removed, as rows may have been read that are not there any more. If they
    /// were only outdated after `since`, an outdated file is replaced. Ends are whole seconds.
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
        // The lock is held, so that a removal comes before or after the whole.
        let mut state = self.state.lock();
        let touched = state.touched(time, since);
        let is_outdated = touched == Some(Touched::Outdated);
        let replaced = state.list_of(is_outdated).overlapping(time);
        let is_inside = |file: &TimeRange| file.from_unix_nano >= from && file.to_unix_nano <= to;
        let has_room = replaced.iter().all(is_inside);
        // Files that are not outdated say more than one that is.
        let is_worse = is_outdated && (!has_room || !state.files.overlapping(time).is_empty());
        if state.deleting > 0 || touched == Some(Touched::Removed) || is_worse {
            state.refused += 1;
            return Ok(false);
        }
        if !has_room {
            return Err(StoreError::Invalid(format!("a file crosses {from} or {to}")));
        }
        let file = DerivedFile { time, is_outdated };
        let path = self.directory.join(file.name());
        private::write_durably(&path, &bytes)
            .map_err(fault::io(format!("cannot write {}", path.display())))?;
        for time in replaced {
            state.list_of(is_outdated).take(time);
            let replaced = DerivedFile { time, is_outdated };
            if replaced != file {
                // If this fails, the next start removes it.
                drop(fs::remove_file(self.directory.join(replaced.name())));
            }
        }
        state.list_of(is_outdated).insert(time, bytes.len() as u64);
        for time in state.outdated.overlapping(time) {
            if state.files.cover(time) {
                state.outdated.take(time);
                let outdated = DerivedFile { time, is_outdated: true };
                drop(fs::remove_file(self.directory.join(outdated.name())));
            }
        }
        Ok(!is_outdated)
    }

    /// The parts of a file that are asked for, by their names; `None` if the file is not there, or
    /// is damaged, which is counted.
    pub fn read(
        &self,
        file: DerivedFile,
        is_wanted: impl Fn(DerivedPartName) -> bool,
    ) -> Option<Vec<DerivedPart>> {
        let path = self.directory.join(file.name());
        let error = match read(&path, is_wanted) {
            Ok(parts) => return Some(parts),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => error,
        };
        if error.kind() == io::ErrorKind::InvalidData {
            self.set_aside(file, &error.to_string());
        } else {
            // An error of the system says nothing about the file.
            tracing::warn!("cannot read {}: {error}", path.display());
        }
        None
    }

    /// Renames a damaged file, so that what it holds is derived again.
    pub fn set_aside(&self, file: DerivedFile, reason: &str) {
        let mut state = self.state.lock();
        let path = self.directory.join(file.name());
        let mut broken = path.clone().into_os_string();
        broken.push(".broken");
        drop(fs::rename(&path, &broken));
        if state.list_of(file.is_outdated).take(file.time).is_some() {
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

    /// Makes all files of which any part is in this time outdated, durably: they are derived again,
    /// and read until then. So is what is being derived for this time.
    ///
    /// # Errors
    /// If a file cannot be renamed.
    pub fn outdate(&self, time: TimeRange) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        state.remember(time, Touched::Outdated);
        let files = state.files.overlapping(time);
        for time in &files {
            let fresh = DerivedFile::fresh(*time);
            let outdated = DerivedFile { time: *time, is_outdated: true };
            let from = self.directory.join(fresh.name());
            // An outdated hour of which this minute was derived again is what is read.
            let is_kept = state.outdated.overlapping(*time).is_empty();
            let done = if is_kept {
                fs::rename(&from, self.directory.join(outdated.name()))
            } else {
                fs::remove_file(&from)
            };
            match done {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(fault::io(format!("cannot outdate {}", from.display()))(error));
                }
                _ => {}
            }
            let bytes = state.files.take(*time);
            if let Some(bytes) = bytes.filter(|_| is_kept && done.is_ok()) {
                state.outdated.insert(*time, bytes);
            }
        }
        if files.is_empty() { Ok(()) } else { self.sync() }
    }

    fn remove_now(&self, state: &mut State, time: TimeRange) -> Result<(), StoreError> {
        state.remember(time, Touched::Removed);
        let files = state.overlapping(time);
        for file in &files {
            let path = self.directory.join(file.name());
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(fault::io(format!("cannot remove {}", path.display()))(error));
                }
                _ => drop(state.list_of(file.is_outdated).take(file.time)),
            }
        }
        if files.is_empty() { Ok(()) } else { self.sync() }
    }

    fn sync(&self) -> Result<(), StoreError> {
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(fault::io(format!("cannot sync {}", self.directory.display())))
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
        let before = TimeRange { from_unix_nano: i64::MIN, to_unix_nano: unix_nano };
        for DerivedFile { time, .. } in state.overlapping(before) {
            if time.to_unix_nano > unix_nano {
                continue;
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
        let of = |list: &Ranges| {
            (list.0.len() as u64, list.0.values().map(|(_, bytes)| bytes).sum::<u64>())
        };
        let (fresh, outdated) = (of(&state.files), of(&state.outdated));
        (fresh.0 + outdated.0, fresh.1 + outdated.1)
    }

    pub(super) fn counters(&self) -> [(String, u64); 5] {
        let (files, bytes) = self.totals();
        let state = self.state.lock();
        [
            ("derived_files".to_owned(), files),
            ("derived_bytes".to_owned(), bytes),
            ("derived_files_broken".to_owned(), state.broken),
            ("derived_files_outdated".to_owned(), state.outdated.0.len() as u64),
            ("derived_files_refused".to_owned(), state.refused),
        ]
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.state.lock().warnings.clone()
    }
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

    fn fresh(from: i64, to: i64) -> DerivedFile {
        DerivedFile::fresh(range(from, to))
    }

    fn outdated(from: i64, to: i64) -> DerivedFile {
        DerivedFile { is_outdated: true, ..fresh(from, to) }
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
        let read = files.read(fresh(60, 120), |name| name.id == 7).expect("there");
        assert_eq!(read, parts[1..2]);
        let again = DerivedFiles::open(directory.path()).expect("opened");
        assert_eq!(again.read(fresh(60, 120), ALL).expect("there"), parts);
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
    fn what_is_outdated_is_read_until_it_is_derived_again() {
        let (directory, files) = files();
        let write = |from, to, bytes: &[u8], since| {
            files.put(range(from, to), &[part(0, 0, bytes)], since).expect("no error")
        };
        let covering = || files.covering(range(0, 240));
        assert!(write(0, 120, b"hour", files.removals()));
        assert!(write(120, 180, b"minute", files.removals()));
        let since = files.removals();
        files.outdate(range(60, 61)).expect("outdated");
        assert_eq!(files.list(TimeRange::ALL), [range(120, 180)]);
        assert_eq!(covering(), [outdated(0, 120), fresh(120, 180)]);
        assert_eq!(files.read(outdated(0, 120), ALL).expect("there")[0].bytes, b"hour");
        // A part of it is derived again; it is not read yet.
        assert!(write(0, 60, b"again", since), "nothing came to this minute");
        assert!(!write(60, 120, b"too early", since));
        assert_eq!(covering(), [outdated(0, 120), fresh(120, 180)]);
        let reopened = DerivedFiles::open(directory.path()).expect("opened");
        assert_eq!(reopened.covering(range(0, 240)), covering());
        assert_eq!(reopened.list(TimeRange::ALL), files.list(TimeRange::ALL));
        assert!(write(60, 120, b"again", files.removals()));
        assert_eq!(covering(), [fresh(0, 60), fresh(60, 120), fresh(120, 180)]);
        assert_eq!(fs::read_dir(directory.path().join("derived")).expect("read").count(), 3);
        // Where rows come all the time, what was derived meanwhile replaces what is older.
        files.outdate(range(60, 61)).expect("outdated");
        let since = files.removals();
        files.outdate(range(60, 61)).expect("outdated");
        assert!(!write(60, 120, b"newer", since));
        assert_eq!(covering()[1], outdated(60, 120));
        assert_eq!(files.read(outdated(60, 120), ALL).expect("there")[0].bytes, b"newer");
        // A deletion ends it all.
        files.remove(range(60, 61)).expect("removed");
        assert_eq!(covering(), [fresh(0, 60), fresh(120, 180)]);
        assert!(!write(60, 120, b"gone", since));
        assert_eq!(covering().len(), 2);
        files.outdate(range(0, 1)).expect("outdated");
        files.retire(60 * SECOND_NANO);
        assert_eq!(covering(), [fresh(120, 180)]);
        let left = fs::read_dir(directory.path().join("derived")).expect("read");
        assert_eq!(left.count(), 1);
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
            assert_eq!(files.read(fresh(0, 60), ALL), None, "byte {at}");
            assert!(files.list(TimeRange::ALL).is_empty() && !path.exists());
            write();
        }
        for length in [0, 3, HEAD_BYTES, HEAD_BYTES + 1, whole.len() - 1] {
            fs::write(&path, &whole[..length]).expect("written");
            assert_eq!(files.read(fresh(0, 60), ALL), None, "{length} bytes");
            write();
        }
        assert!(files.warnings()[0].contains("made again"));
        assert_eq!(files.counters()[2].1, whole.len() as u64 + 5);
    }
}
