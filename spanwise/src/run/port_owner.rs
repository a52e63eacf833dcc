//! Finds the process that listens on a local port, as far as `/proc` shows it. Without rights over
//! a process, its files are not visible.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A listening process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) process: u32,
    /// Its command's name (`comm`).
    pub(crate) command: String,
}

/// `st` of a listening socket (`TCP_LISTEN` in the kernel's `tcp_states.h`).
const LISTEN: &str = "0A";

/// `st` of a UDP socket that is bound and not connected (`TCP_CLOSE` in that header).
const BOUND: &str = "07";

/// The process that accepts connections to `address`; `None` if there is none or it is not visible.
pub(crate) fn owner(address: SocketAddr) -> Option<Owner> {
    holder(["/proc/net/tcp", "/proc/net/tcp6"], LISTEN, address.port())
}

/// The process that receives datagrams to `address`, like [`owner`].
pub(crate) fn udp_owner(address: SocketAddr) -> Option<Owner> {
    holder(["/proc/net/udp", "/proc/net/udp6"], BOUND, address.port())
}

fn holder(tables: [&str; 2], state: &str, port: u16) -> Option<Owner> {
    let inodes: Vec<String> = tables
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| inodes(&table, state, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?;
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|process| holds_any(*process, &inodes))
        .map(|process| Owner { process, command: command(process) })
}

/// Inodes of the table's sockets with this state and port. The columns are `sl local_address
/// rem_address st … inode`, see proc_pid_net(5).
fn inodes(table: &str, state: &str, port: u16) -> Vec<String> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (_, listening_port) = fields.get(1)?.rsplit_once(':')?;
            let same = u16::from_str_radix(listening_port, 16).ok()? == port;
            if !same || *fields.get(3)? != state {
                return None;
            }
            fields.get(9).map(|inode| (*inode).to_owned())
        })
        .collect()
}

fn holds_any(process: u32, inodes: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| {
        let target = target.as_os_str().as_bytes();
        let inode = target.strip_prefix(b"socket:[").and_then(|rest| rest.strip_suffix(b"]"));
        inode.is_some_and(|inode| inodes.iter().any(|known| known.as_bytes() == inode))
    })
}

fn command(process: u32) -> String {
    fs::read_to_string(Path::new("/proc").join(process.to_string()).join("comm"))
        .map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_sockets_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0\n   \
            1: 0100007F:1B9E 0100007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1\n";
        assert_eq!(inodes(table, LISTEN, 7070), ["4242"]);
        assert!(inodes(table, LISTEN, 7071).is_empty());
        assert!(inodes("garbage\nmore garbage : x", LISTEN, 7070).is_empty());
    }

    #[test]
    fn this_process_is_found_by_a_port_of_its_own() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let found = owner(listener.local_addr().expect("bound")).expect("an owner");
        assert_eq!(found.process, std::process::id());
        assert!(!found.command.is_empty());
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let found = udp_owner(socket.local_addr().expect("bound")).expect("an owner");
        assert_eq!(found.process, std::process::id());
    }
}
