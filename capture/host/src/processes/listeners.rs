//! The TCP ports on which a process listens.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Maximum descriptors of one process that are examined.
const MAX_DESCRIPTORS: usize = 16_384;
/// Bytes of a row in `/proc/net/tcp`. Rows in `tcp6` are slightly longer.
const ROW_BYTES: usize = 150;
/// `TCP_LISTEN` in the `st` column of `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The process's listening ports, ascending; empty if they cannot be read.
pub(super) fn ports(proc: &Path, process: u32) -> Vec<u16> {
    let directory = proc.join(process.to_string());
    let sockets = socket_inodes(&directory);
    if sockets.is_empty() {
        return Vec::new();
    }
    let mut ports: Vec<u16> = ["net/tcp", "net/tcp6"]
        .iter()
        .filter_map(|table| File::open(directory.join(table)).ok())
        .flat_map(|table| listening(table, &sockets))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn socket_inodes(directory: &Path) -> HashSet<u64> {
    let Ok(descriptors) = fs::read_dir(directory.join("fd")) else { return HashSet::new() };
    descriptors
        .take(MAX_DESCRIPTORS)
        .filter_map(|entry| {
            let target = fs::read_link(entry.ok()?.path()).ok()?;
            target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

/// Ports of the listening rows whose inode is in `sockets`. Listening rows come first. To list
/// connections, which are not needed here, the kernel searches a table that is large even if it is
/// almost empty. So only one row is read at a time, and nothing after the first row of a
/// connection.
fn listening(mut table: impl Read, sockets: &HashSet<u64>) -> Vec<u16> {
    let mut ports = Vec::new();
    let (mut text, mut begin) = (Vec::new(), 0);
    let mut chunk = [0; ROW_BYTES];
    while let Ok(count @ 1..) = table.read(&mut chunk) {
        text.extend_from_slice(&chunk[..count]);
        while let Some(length) = memchr::memchr(b'\n', &text[begin..]) {
            let row = str::from_utf8(&text[begin..begin + length]).unwrap_or_default();
            let is_heading = begin == 0;
            begin += length + 1;
            match row_of(row) {
                Some((port, LISTEN, inode)) => {
                    ports.extend(sockets.contains(&inode).then_some(port))
                }
                _ if is_heading => {}
                _ => return ports,
            }
        }
    }
    ports
}

/// A row's local port, state and inode.
fn row_of(row: &str) -> Option<(u16, &str, u64)> {
    let mut columns = row.split_ascii_whitespace();
    let port = columns.nth(1)?.rsplit(':').next()?;
    let state = columns.nth(1)?;
    let inode = columns.nth(5)?.parse().ok()?;
    Some((u16::from_str_radix(port, 16).ok()?, state, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_listening_ports_are_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        assert!(ports(Path::new("/proc"), std::process::id()).contains(&port));
        assert!(ports(Path::new("/proc"), u32::MAX).is_empty());
    }

    #[test]
    fn a_strange_table_yields_nothing() {
        let sockets = HashSet::from([1]);
        assert!(listening(&b"header\ngarbage\n 0: zz 0A"[..], &sockets).is_empty());
    }

    #[test]
    fn nothing_is_read_of_connections() {
        /// A reader that returns one row at a time, as the kernel does for short reads.
        struct Rows(Vec<String>);
        impl Read for Rows {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                assert!(!self.0.is_empty(), "read on after the first connection");
                let row = self.0.remove(0);
                into[..row.len()].copy_from_slice(row.as_bytes());
                Ok(row.len())
            }
        }
        let row = |port: u16, state: &str, inode: u64| {
            format!(" 0: 0100007F:{port:04X} 0:0 {state} 0:0 00:00000000 0 0 0 {inode} 1 0\n")
        };
        let rows = vec![
            "  sl  local_address rem_address   st\n".to_owned(),
            row(80, LISTEN, 7),
            row(81, LISTEN, 8),
            row(82, LISTEN, 9),
            row(83, "01", 7),
        ];
        assert_eq!(listening(Rows(rows), &HashSet::from([7, 9])), [80, 82]);
    }
}
