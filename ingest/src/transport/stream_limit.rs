//! Limits the number of long-lived streams, in total and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// The maximum and current number of streams of one kind.
#[derive(Debug)]
pub(crate) struct StreamLimit {
    open: Arc<Mutex<OpenStreams>>,
    limit: usize,
    per_address: usize,
}

#[derive(Debug, Default)]
struct OpenStreams {
    count: usize,
    addresses: HashMap<Option<IpAddr>, usize>,
}

/// The permit for one stream, until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    open: Arc<Mutex<OpenStreams>>,
    address: Option<IpAddr>,
}

impl StreamLimit {
    pub(crate) fn new(limit: usize, per_address: usize) -> Self {
        Self { open: Arc::default(), limit, per_address }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.lock().count
    }

    /// A permit, or nothing if the total limit or that of the address is reached.
    pub(crate) fn take(&self, address: Option<IpAddr>) -> Option<StreamPermit> {
        let mut open = self.open.lock();
        let of_address = open.addresses.get(&address).copied().unwrap_or(0);
        if open.count >= self.limit || of_address >= self.per_address {
            return None;
        }
        open.count += 1;
        open.addresses.insert(address, of_address + 1);
        drop(open);
        Some(StreamPermit { open: Arc::clone(&self.open), address })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        open.count -= 1;
        if let Some(count) = open.addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.addresses.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_them_all() {
        let limit = StreamLimit::new(3, 2);
        let (one, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        let taken = [limit.take(one), limit.take(one)];
        assert!(taken.iter().all(Option::is_some) && limit.take(one).is_none());
        let third = limit.take(other);
        assert!(third.is_some() && limit.take(other).is_none(), "all are taken");
        drop(taken);
        assert_eq!(limit.open(), 1);
        assert!(limit.take(one).is_some());
    }
}
