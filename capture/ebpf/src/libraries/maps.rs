//! The files that a process has mapped for execution (`proc(5)`, `/proc/PID/maps`).

use std::path::PathBuf;

use crate::probed::FileId;

/// A mapped file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) file: FileId,
    /// The path in the process's view.
    pub(super) path: PathBuf,
}

/// The files from which the process executes, each once. Empty if the process is gone or access is
/// denied.
pub(super) fn executed_files(process: u32) -> Vec<Mapped> {
    std::fs::read_to_string(format!("/proc/{process}/maps"))
        .map(|text| parse(&text))
        .unwrap_or_default()
}

fn parse(text: &str) -> Vec<Mapped> {
    let mut found: Vec<Mapped> = Vec::new();
    for mapped in text.lines().filter_map(parse_line) {
        if found.iter().all(|known| known.file != mapped.file) {
            found.push(mapped);
        }
    }
    found
}

/// `address perms offset device inode path`.
fn parse_line(line: &str) -> Option<Mapped> {
    let mut words = line.splitn(6, ' ');
    let permissions = words.nth(1)?;
    let (major, minor) = words.nth(1)?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    let path = words.next()?.trim_start();
    if !permissions.contains('x') || !path.starts_with('/') || path.ends_with(" (deleted)") {
        return None;
    }
    let number = |text| u32::from_str_radix(text, 16).ok();
    let device = (number(major)?, number(minor)?);
    Some(Mapped { file: FileId { device, inode }, path: PathBuf::from(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_files_are_found_each_once() {
        let text = "\
55d0c0a00000-55d0c0a2c000 r--p 00000000 fe:00 1234                       /usr/sbin/nginx
55d0c0a2c000-55d0c0b00000 r-xp 0002c000 fe:00 1234                       /usr/sbin/nginx
7f0000000000-7f0000010000 r-xp 00000000 fe:00 77                         /lib/x y/libssl.so.3
7f0000010000-7f0000020000 r-xp 00010000 fe:00 77                         /lib/x y/libssl.so.3
7f0000020000-7f0000030000 r-xp 00000000 fe:00 78                         /lib/gone.so (deleted)
7f0000030000-7f0000040000 rwxp 00000000 00:00 0
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0                          [vdso]
nonsense
";
        let found: Vec<_> = parse(text).into_iter().map(|mapped| mapped.path).collect();
        assert_eq!(
            found,
            [PathBuf::from("/usr/sbin/nginx"), PathBuf::from("/lib/x y/libssl.so.3")]
        );
    }

    #[test]
    fn this_process_executes_something() {
        assert!(!executed_files(std::process::id()).is_empty());
        assert!(executed_files(u32::MAX).is_empty());
    }
}
