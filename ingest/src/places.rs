//! Long-lived streams: not more at a time than are allowed, of all and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many streams of one kind there may be, and are.
#[derive(Debug)]
pub(crate) struct Places {
    taken: Arc<Mutex<Taken>>,
    limit: usize,
    per_address: usize,
}

#[derive(Debug, Default)]
struct Taken {
    open: usize,
    addresses: HashMap<Option<IpAddr>, usize>,
}

/// One of the streams allowed at a time, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<Mutex<Taken>>,
    address: Option<IpAddr>,
}

impl Places {
    pub(crate) fn new(limit: usize, per_address: usize) -> Self {
        Self { taken: Arc::default(), limit, per_address }
    }

    pub(crate) fn open(&self) -> usize {
        self.taken.lock().open
    }

    /// A place; none where all are taken, or as many as one address may have.
    pub(crate) fn take(&self, address: Option<IpAddr>) -> Option<Place> {
        let mut taken = self.taken.lock();
        let of_address = taken.addresses.get(&address).copied().unwrap_or(0);
        if taken.open >= self.limit || of_address >= self.per_address {
            return None;
        }
        taken.open += 1;
        taken.addresses.insert(address, of_address + 1);
        drop(taken);
        Some(Place { taken: Arc::clone(&self.taken), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.open -= 1;
        if let Some(count) = taken.addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.addresses.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_them_all() {
        let places = Places::new(3, 2);
        let (one, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        let taken = [places.take(one), places.take(one)];
        assert!(taken.iter().all(Option::is_some) && places.take(one).is_none());
        let third = places.take(other);
        assert!(third.is_some() && places.take(other).is_none(), "all are taken");
        drop(taken);
        assert_eq!(places.open(), 1);
        assert!(places.take(one).is_some());
    }
}
