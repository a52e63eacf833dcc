//! A sketch of durations: log-linear buckets, merged exactly.

use std::collections::BTreeMap;

/// Buckets of each doubling. A quantile is at most 1/32 away from the value.
const PER_DOUBLING: u32 = 16;

/// The bucket of the largest number.
pub(crate) const LAST_BUCKET: u16 = 975;

/// Counts of durations. Merging adds counts, so the order of merging does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sketch(BTreeMap<u16, u64>);

impl Sketch {
    /// Counts a duration. Negative ones count as 0.
    pub fn add(&mut self, nano: i64) {
        *self.0.entry(bucket_of(nano)).or_default() += 1;
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Adds the counts of another sketch.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }

    /// Takes away counts of another sketch.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            if let Some(kept) = self.0.get_mut(bucket) {
                *kept = kept.saturating_sub(*count);
                if *kept == 0 {
                    self.0.remove(bucket);
                }
            }
        }
    }

    pub(crate) const fn of(counts: BTreeMap<u16, u64>) -> Self {
        Self(counts)
    }

    pub(crate) const fn counts(&self) -> &BTreeMap<u16, u64> {
        &self.0
    }

    /// The value below which `share` of the durations lie; 0 if there are none.
    pub fn quantile(&self, share: f64) -> i64 {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (bucket, count) in &self.0 {
            seen += count;
            if seen >= rank {
                return middle(*bucket);
            }
        }
        0
    }
}

/// The bucket of a duration. Negative ones are in the first.
pub(super) fn bucket_of(nano: i64) -> u16 {
    bucket(nano.max(0).unsigned_abs())
}

fn bucket(value: u64) -> u16 {
    if value < u64::from(PER_DOUBLING) {
        return value as u16;
    }
    let doubling = value.ilog2() - PER_DOUBLING.ilog2();
    // At most 61 * 16.
    (doubling * PER_DOUBLING + (value >> doubling) as u32) as u16
}

fn middle(bucket: u16) -> i64 {
    let bucket = u64::from(bucket);
    let per_doubling = u64::from(PER_DOUBLING);
    if bucket < 2 * per_doubling {
        return bucket as i64;
    }
    let doubling = bucket / per_doubling - 1;
    let low = (per_doubling + bucket % per_doubling) << doubling;
    i64::try_from(low + (1 << doubling) / 2).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_32nd() {
        let mut sketch = Sketch::default();
        (1..=100_000).for_each(|value| sketch.add(value * 1_000));
        for share in [0.01, 0.5, 0.95, 0.99, 1.0] {
            let (found, exact) = (sketch.quantile(share) as f64, share * 1e8);
            assert!((found / exact - 1.0).abs() <= 1.0 / 32.0, "{share}: {found}, not {exact}");
        }
        assert_eq!(bucket(u64::MAX), LAST_BUCKET);
        sketch.add(i64::MAX);
        assert!(sketch.quantile(1.0) > i64::MAX / 33 * 32);
        assert_eq!(Sketch::default().quantile(0.5), 0);
    }
}
