//! Memory of all requests in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that all requests share.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    used: Arc<AtomicUsize>,
    limit: usize,
}

/// The share of one request. It is returned when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn lease(&self) -> Lease {
        Lease { budget: self.clone(), bytes: 0 }
    }
}

impl Lease {
    /// Reserves more. Returns `false` if not enough is left.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let limit = self.budget.limit;
        let grown = self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= limit)
        });
        if grown.is_ok() {
            self.bytes += bytes;
        }
        grown.is_ok()
    }
}

impl Lease {
    /// Changes the reserved size. Returns `false` if not enough is left.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        if bytes >= self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.budget.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        self.bytes = bytes;
        true
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_at_the_limit_and_gives_back() {
        let budget = Budget::new(100);
        let (mut one, mut two) = (budget.lease(), budget.lease());
        assert!(one.grow(60));
        assert!(!two.grow(41));
        assert!(two.grow(40));
        assert!(!two.grow(usize::MAX));
        assert_eq!(budget.used(), 100);
        drop(one);
        assert_eq!(budget.used(), 40);
        assert!(two.resize(90) && two.resize(10) && !two.resize(101));
        assert_eq!(budget.used(), 10);
    }
}
