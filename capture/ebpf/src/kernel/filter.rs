//! Passes the connection filter to the kernel side: writes `struct filter` of `bpf/filter.h`.

use std::sync::atomic::Ordering;

use libbpf_rs::{MapCore, MapFlags};

use super::Kernel;
use spanwise_capture_host::filter::{Filter, MAX_SELECTORS, Namespace};

/// The kernel refused the filter.
#[derive(Debug, thiserror::Error)]
#[error("the kernel does not take the filter: {0}")]
pub struct FilterError(String);

/// Lists end with a zero.
const ENTRIES: usize = MAX_SELECTORS + 1;
const SHARE_OFFSET: usize = 4;

/// The bytes of the struct without its generation.
fn layout(filter: &Filter, connection_share: u32) -> Vec<u8> {
    let mut bytes = connection_share.to_ne_bytes().to_vec();
    for ports in [&filter.only.ports, &filter.except.ports] {
        let padded = ports.iter().copied().chain(std::iter::repeat((0, 0))).take(ENTRIES);
        for (first, last) in padded {
            bytes.extend(first.to_ne_bytes());
            bytes.extend(last.to_ne_bytes());
        }
    }
    for namespaces in [&filter.only.namespaces, &filter.except.namespaces] {
        bytes.extend(inodes(namespaces).iter().flat_map(|inode| inode.to_ne_bytes()));
    }
    bytes
}

/// The inodes of existing namespaces. If none of the requested ones exists, a number that no
/// namespace has, because an empty list would mean all.
fn inodes(namespaces: &[Namespace]) -> [u32; ENTRIES] {
    let mut inodes = [0; ENTRIES];
    let found = namespaces.iter().filter_map(Namespace::inode);
    for (slot, inode) in inodes.iter_mut().zip(found) {
        *slot = inode;
    }
    if !namespaces.is_empty() && inodes[0] == 0 {
        inodes[0] = u32::MAX;
    }
    inodes
}

impl Kernel {
    /// Applies the filter in the kernel. Sockets check it again if it has changed, or if `anew` is
    /// set.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn set_filter(&self, filter: &Filter, anew: bool) -> Result<(), FilterError> {
        let map =
            self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".data.filter"));
        let map = map.ok_or_else(|| FilterError("it has no such map".to_owned()))?;
        let refused = |error: libbpf_rs::Error| FilterError(format!("{error:#}"));
        let key = 0u32.to_ne_bytes();
        let now = map.lookup(&key, MapFlags::ANY).map_err(refused)?.unwrap_or_default();
        let Some(generation) = now.first_chunk::<SHARE_OFFSET>() else {
            return Err(FilterError(format!("its map has {} bytes", now.len())));
        };
        let wanted = layout(filter, self.connection_share.load(Ordering::Relaxed));
        if !anew && now.get(SHARE_OFFSET..SHARE_OFFSET + wanted.len()) == Some(&wanted[..]) {
            return Ok(());
        }
        let next = u32::from_ne_bytes(*generation).wrapping_add(1).max(1);
        // A socket that sees the new generation must see the complete new filter.
        for generation in [*generation, next.to_ne_bytes()] {
            let mut value = [&generation[..], &wanted[..]].concat();
            value.resize(now.len(), 0);
            map.update(&key, &value, MapFlags::ANY).map_err(refused)?;
        }
        Ok(())
    }

    /// Captures up to 32 KiB of each call on a connection from now on.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn capture_more(&self, connection: u64) -> Result<(), FilterError> {
        let map = self.object.maps().find(|map| map.name() == "generous_connections");
        let map = map.ok_or_else(|| FilterError("it has no such map".to_owned()))?;
        map.update(&connection.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|error| FilterError(format!("{error:#}")))
    }

    /// From the next [`Self::set_filter`] on, traces only this share (of 2^32) of the wanted
    /// connections. Without address translation, all hosts choose the same ones.
    pub fn share_connections(&self, share: u32) {
        self.connection_share.store(share, Ordering::Relaxed);
    }

    /// Excludes a process, or includes it again. Sockets check it at the next [`Self::set_filter`].
    ///
    /// # Errors
    /// If too many are excluded, or the process was not excluded.
    pub fn ignore_process(&self, process: u32, ignored: bool) -> Result<(), FilterError> {
        let map = self.object.maps().find(|map| map.name() == "ignored_processes");
        let map = map.ok_or_else(|| FilterError("it has no such map".to_owned()))?;
        let key = process.to_ne_bytes();
        let done = if ignored { map.update(&key, &[1], MapFlags::ANY) } else { map.delete(&key) };
        done.map_err(|error| FilterError(format!("{error:#}")))
    }
}
