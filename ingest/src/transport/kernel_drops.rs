//! Datagrams that the kernel dropped because a socket's buffer was full, from `/proc/net/udp`.
//! Without that file, drops are unknown.

use std::fs;
use std::os::fd::AsFd;

/// The drops of one socket.
#[derive(Debug)]
pub(crate) struct KernelDrops {
    inode: Option<u64>,
    seen: u64,
}

impl KernelDrops {
    pub(crate) fn of(socket: impl AsFd) -> Self {
        Self { inode: rustix::fs::fstat(socket).ok().map(|stat| stat.st_ino), seen: 0 }
    }

    /// Drops since the last call; `None` if there were none or they are unknown.
    pub(crate) fn more(&mut self) -> Option<u64> {
        let inode = self.inode?;
        let now = ["/proc/net/udp", "/proc/net/udp6"]
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok())
            .find_map(|table| drops(&table, inode))?;
        let more = now.saturating_sub(self.seen);
        self.seen = now;
        (more > 0).then_some(more)
    }
}

/// The socket's last column. The columns are `sl local_address rem_address st tx_queue:rx_queue
/// tr:tm->when retrnsmt uid timeout inode ref pointer drops`.
fn drops(table: &str, inode: u64) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(9);
        let same = fields.next()?.parse::<u64>().ok()? == inode;
        if same { fields.nth(2)?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn the_table_of_sockets_is_read() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            \x20 11: 0100007F:1AAF 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4242 2 0000000000000000 17\n\
            garbage\n";
        assert_eq!(drops(table, 4242), Some(17));
        assert_eq!(drops(table, 4243), None);
    }

    #[test]
    fn a_full_buffer_is_noticed() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut counted = KernelDrops::of(&receiver);
        assert_eq!(counted.more(), None);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..2000 {
            sender.send_to(&[0; 1400], receiver.local_addr().unwrap()).unwrap();
        }
        assert!(counted.more().is_some_and(|drops| drops > 0));
        assert_eq!(counted.more(), None);
    }
}
