//! The TCP ports on which a process listens.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The most descriptors looked at in one process.
const MAX_DESCRIPTORS: usize = 16_384;
/// `TCP_LISTEN` in the `st` column of `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The process's listening ports, lowest first; none where it cannot be told.
pub(super) fn ports(proc: &Path, process: u32) -> Vec<u16> {
    let directory = proc.join(process.to_string());
    let sockets = socket_inodes(&directory);
    if sockets.is_empty() {
        return Vec::new();
    }
    let mut ports: Vec<u16> = ["net/tcp", "net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(directory.join(table)).ok())
        .flat_map(|table| listening(&table, &sockets))
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

/// Ports of the listening rows whose inode is among `sockets`.
fn listening(table: &str, sockets: &HashSet<u64>) -> Vec<u16> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut columns = line.split_ascii_whitespace();
            let port = columns.nth(1)?.rsplit(':').next()?;
            let state = columns.nth(1)?;
            let inode = columns.nth(5)?.parse().ok()?;
            (state == LISTEN && sockets.contains(&inode))
                .then(|| u16::from_str_radix(port, 16).ok())
                .flatten()
        })
        .collect()
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
        assert!(listening("header\ngarbage\n 0: zz 0A", &sockets).is_empty());
    }
}
