//! Identities of recent spans, to recognise a span that is sent twice.
//!
//! About the last million identities are kept. A span that starts later than every evicted one is
//! new unless it is in this set. For older spans, files are searched (see [`super::resent`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::identity::NONE;
use super::identity_set::IdentitySet;

/// Bytes of memory for recent rows for each kept identity. A recent row takes at least this much,
/// so the set covers all rows in memory.
const ROW_BYTES: u64 = 144;
const LEAST: usize = 1 << 16;
/// For spans that start in the future, this many times fewer are kept.
const AHEAD_SHARE: usize = 16;
/// Rows that are prefetched together before they are looked up.
const FETCHED_ROWS: usize = 32;

/// Every span that starts later than this is in the set or new.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoverageStart(Arc<AtomicI64>);

impl CoverageStart {
    pub(crate) fn after(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, start_unix_nano: i64) {
        self.0.store(start_unix_nano, Ordering::Release);
    }
}

/// Identities of recent spans. See the module's description.
pub(crate) struct RecentIdentities {
    recent: SetPair,
    /// Spans that start later than they arrived, by this host's clock. They are kept apart, so that
    /// a sender with a wrong clock does not make all others late.
    ahead: SetPair,
    covered: CoverageStart,
}

/// Two sets: the newer fills up to `most`, then replaces the older. So at least the last `most` are
/// kept.
struct SetPair {
    most: usize,
    newer: IdentitySet,
    older: IdentitySet,
    /// The latest start in each set.
    newest: [i64; 2],
}

impl SetPair {
    fn new(most: usize) -> Self {
        let [newer, older] = [IdentitySet::new(), IdentitySet::new()];
        Self { most, newer, older, newest: [i64::MIN; 2] }
    }

    fn has(&self, identity: u64) -> bool {
        self.newer.has(identity) || self.older.has(identity)
    }

    /// Adds an identity. Returns whether it is new.
    fn add(&mut self, identity: u64, start_unix_nano: i64) -> bool {
        if self.older.has(identity) || !self.newer.add(identity) {
            return false;
        }
        self.newest[0] = self.newest[0].max(start_unix_nano);
        true
    }

    /// Makes room. Returns the latest start of the evicted spans.
    fn turn(&mut self) -> i64 {
        if self.newer.len() < self.most {
            return i64::MIN;
        }
        std::mem::swap(&mut self.newer, &mut self.older);
        self.newer.clear();
        let gone = self.newest[1];
        self.newest = [i64::MIN, self.newest[0]];
        gone
    }

    fn remove(&mut self, identity: u64) {
        self.newer.remove(identity);
        self.older.remove(identity);
    }
}

impl RecentIdentities {
    /// An empty set for a store with this much memory for recent rows. Its files contain no later
    /// start than `newest_unix_nano`.
    pub(crate) fn new(recent_max_bytes: u64, newest_unix_nano: i64) -> Self {
        let most = usize::try_from(recent_max_bytes / ROW_BYTES).unwrap_or(usize::MAX).max(LEAST);
        let covered = CoverageStart::default();
        covered.set(newest_unix_nano);
        Self { recent: SetPair::new(most), ahead: SetPair::new(most / AHEAD_SHARE), covered }
    }

    pub(crate) fn covered(&self) -> CoverageStart {
        self.covered.clone()
    }

    /// Adds rows by identity and start. Returns `None` if all are new, otherwise the indexes of the
    /// new ones. Rows that start later than now are [ahead](Self).
    pub(crate) fn take(
        &mut self,
        identities: &[u64],
        starts: &[i64],
        now_unix_nano: i64,
    ) -> Option<Vec<u32>> {
        let gone = self.recent.turn();
        self.ahead.turn();
        if gone > self.covered.after() {
            self.covered.set(gone);
        }
        let mut kept: Option<Vec<u32>> = None;
        for (row, (identity, start)) in (0u32..).zip(identities.iter().zip(starts)) {
            let place = row as usize;
            if place.is_multiple_of(FETCHED_ROWS) {
                let next = &identities[place..identities.len().min(place + FETCHED_ROWS)];
                self.recent.older.fetch(next);
                self.recent.newer.fetch(next);
            }
            let is_new = *identity == NONE || self.add(*identity, *start, now_unix_nano);
            match &mut kept {
                Some(kept) => kept.extend(is_new.then_some(row)),
                None if !is_new => kept = Some((0..row).collect()),
                None => {}
            }
        }
        kept
    }

    fn add(&mut self, identity: u64, start_unix_nano: i64, now_unix_nano: i64) -> bool {
        // A span that was ahead at its first arrival is not ahead if it arrives again much later.
        if start_unix_nano > now_unix_nano {
            !self.recent.has(identity) && self.ahead.add(identity, start_unix_nano)
        } else {
            !self.ahead.has(identity) && self.recent.add(identity, start_unix_nano)
        }
    }

    /// Removes identities that were just added.
    pub(crate) fn take_back(&mut self, identities: &[u64]) {
        for identity in identities.iter().filter(|identity| **identity != NONE) {
            self.recent.remove(*identity);
            self.ahead.remove(*identity);
        }
    }

    /// Removes all identities. No stored row starts later than `newest_unix_nano`, except rows that
    /// are added again right after.
    pub(crate) fn forget(&mut self, newest_unix_nano: i64) {
        self.recent = SetPair::new(self.recent.most);
        self.ahead = SetPair::new(self.ahead.most);
        self.covered.set(newest_unix_nano);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_any_more_is_said() {
        let mut seen = RecentIdentities::new(0, 5);
        let covered = seen.covered();
        let now = i64::MAX;
        let batch = |first: u64| -> (Vec<u64>, Vec<i64>) {
            (first..first + 1000).map(|n| (n * 2 + 1, n as i64 + 10)).unzip()
        };
        let count = LEAST as u64 * 5;
        for first in (0..count).step_by(1000) {
            let (identities, starts) = batch(first);
            assert_eq!(seen.take(&identities, &starts, now), None);
            assert_eq!(seen.take(&identities, &starts, now), Some(Vec::new()));
            // Every span that starts later is in the set.
            let after = usize::try_from(covered.after() - 10).unwrap_or(0) as u64 + 1;
            assert!(first + 1000 - after.min(first) >= LEAST as u64 || covered.after() == 5);
            for n in (after..first).step_by(997) {
                assert_eq!(seen.take(&[n * 2 + 1], &[n as i64 + 10], now), Some(Vec::new()));
            }
        }
        assert!(covered.after() > 5);
        seen.forget(7);
        assert_eq!(covered.after(), 7);
        let (identities, starts) = batch(count - 1000);
        assert_eq!(seen.take(&identities, &starts, now), None);
    }

    #[test]
    fn some_are_new_and_a_sender_ahead_of_time_makes_no_one_late() {
        let mut seen = RecentIdentities::new(0, 0);
        let now = 100;
        assert_eq!(
            seen.take(&[1, 2, 1, NONE, NONE], &[1, 2, 1, 5, 5], now),
            Some(vec![0, 1, 3, 4])
        );
        assert_eq!(seen.take(&[3, 2, 4], &[500, 2, 4], now), Some(vec![0, 2]));
        assert_eq!(seen.take(&[3], &[500], now), Some(vec![]), "ahead");
        assert_eq!(seen.take(&[3], &[500], 1000), Some(vec![]), "not ahead any more");
        seen.take_back(&[1, 3, NONE]);
        assert_eq!(seen.take(&[1, 2, 3], &[1, 2, 500], now), Some(vec![0, 2]));
        for n in 0..LEAST as u64 * 4 {
            assert_eq!(seen.take(&[n + 10], &[1_000_000], now), None);
        }
        assert_eq!(seen.covered().after(), 0);
    }
}
