//! Files and directories with access for their owner only, whatever the umask: spans contain data
//! of requests.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// Everything that a store keeps in its directory.
const NAMES: [&str; 12] = [
    "lock",
    "wal",
    "spans",
    "shapes",
    "heads",
    "cache",
    "derived",
    "deletions",
    "deletions.tmp",
    "spool.json",
    "object-storage.json",
    "clock.json",
];

/// Options for files that only the owner can read.
pub(super) fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(FILE_MODE);
    options
}

/// Creates an empty file for writing.
pub(super) fn create(path: &Path) -> io::Result<File> {
    options().create(true).truncate(true).write(true).open(path)
}

/// Creates a directory and its missing parents.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Writes a file atomically and durably.
pub(super) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let written = || -> io::Result<()> {
        let mut file = create(Path::new(&temporary))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    };
    written().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Removes the permissions of group and others from a store's directory and its contents. Returns
/// warnings for the operator about what could not be changed.
pub(super) fn tighten(directory: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else { return warnings };
    let mut holds_others = false;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_str().map(|name| name.trim_end_matches(".tmp"));
        let name = name.map(|name| name.trim_end_matches(".broken"));
        if name.is_some_and(|name| NAMES.contains(&name)) {
            tighten_all(&entry.path(), &mut warnings);
        } else {
            holds_others = true;
        }
    }
    let Ok(about) = fs::metadata(directory) else { return warnings };
    if about.mode() & OTHERS == 0 {
        return warnings;
    }
    // A directory such as /tmp or a home directory.
    if holds_others || about.mode() & STICKY != 0 {
        warnings.push(format!(
            "{} can be looked into by other users (its mode is {:o}), and stays so, because it \
             holds other things than spans; give --data a directory of its own",
            directory.display(),
            about.mode() & 0o7777
        ));
    } else {
        warnings.extend(take_from_others(directory, &about));
    }
    // One warning is enough if all are similar.
    warnings.truncate(1);
    warnings
}

/// The same for everything in the directory. Symbolic links are not followed.
fn tighten_all(path: &Path, warnings: &mut Vec<String>) {
    let Ok(about) = fs::symlink_metadata(path) else { return };
    if about.is_symlink() {
        return;
    }
    warnings.extend(take_from_others(path, &about));
    if about.is_dir()
        && let Ok(entries) = fs::read_dir(path)
    {
        entries.flatten().for_each(|entry| tighten_all(&entry.path(), warnings));
    }
}

fn take_from_others(path: &Path, about: &fs::Metadata) -> Option<String> {
    if about.mode() & OTHERS == 0 {
        return None;
    }
    let mode = about.mode() & 0o7777 & !OTHERS;
    let error = fs::set_permissions(path, fs::Permissions::from_mode(mode)).err()?;
    Some(format!(
        "{} can be read or changed by other users (its mode is {:o}), and that cannot be taken \
         from them ({error}); as its owner: chmod -R go= {}",
        path.display(),
        about.mode() & 0o7777,
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o777
    }

    #[test]
    fn what_is_there_is_tightened_and_what_is_not_ours_is_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        for path in ["data/spans", "data/heads/x"] {
            fs::create_dir_all(directory.path().join(path)).expect("made");
        }
        let inner = data.join("spans/1.parquet");
        let linked = directory.path().join("linked");
        for path in [&inner, &data.join("lock"), &linked] {
            fs::write(path, "").expect("written");
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("set");
        }
        std::os::unix::fs::symlink(&linked, data.join("spans/link")).expect("linked");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("set");
        assert_eq!(tighten(&data), Vec::<String>::new());
        for path in [&data, &data.join("spans"), &data.join("heads/x")] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        assert_eq!((mode(&inner), mode(&data.join("lock")), mode(&linked)), (0o600, 0o600, 0o644));

        fs::write(data.join("notes.txt"), "").expect("written");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("set");
        assert!(tighten(&data)[0].contains("a directory of its own"));
        assert_eq!(mode(&data), 0o755);
    }

    #[test]
    fn what_is_made_is_the_owners() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a/b");
        create_directory(&path).expect("made");
        write_durably(&path.join("c"), b"x").expect("written");
        assert_eq!((mode(&path), mode(&path.join("c"))), (0o700, 0o600));
        assert_eq!(fs::read(path.join("c")).expect("read"), b"x");
    }
}
