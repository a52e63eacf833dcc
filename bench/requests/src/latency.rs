//! A latency histogram with buckets of 0.4 % width.

use std::time::Duration;

/// Bits of the number of buckets for each power of two.
const BITS: u32 = 8;
const BUCKETS: usize = (64 - BITS as usize + 1) << BITS;

/// Counts of latencies.
pub(crate) struct Latencies {
    counts: Vec<u64>,
    longest: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], longest: Duration::ZERO }
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        let nano = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nano)] += 1;
        self.longest = self.longest.max(latency);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.longest = self.longest.max(other.longest);
    }

    /// The latency that this share of requests did not exceed.
    pub(crate) fn at(&self, share: f64) -> Duration {
        let all: u64 = self.counts.iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut passed = 0;
        for (index, count) in self.counts.iter().enumerate() {
            passed += count;
            if passed >= wanted.max(1) {
                return Duration::from_nanos(highest(index)).min(self.longest);
            }
        }
        self.longest
    }
}

/// Small numbers have a bucket each. Larger ones are distinguished by their highest bits.
fn bucket(nano: u64) -> usize {
    let shift = (u64::BITS - nano.leading_zeros()).saturating_sub(BITS + 1);
    ((shift as usize) << BITS) + (nano >> shift) as usize
}

/// The highest number of a bucket.
fn highest(index: usize) -> u64 {
    let octave = (index >> BITS).saturating_sub(1) as u32;
    let within = (index - ((octave as usize) << BITS)) as u64;
    ((u128::from(within + 1) << octave) - 1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say_and_are_narrow() {
        for nano in
            (0..2000).chain((11..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, 5 << (bit - 2)]))
        {
            let index = bucket(nano);
            assert!(highest(index) >= nano, "{nano}");
            assert!(index == 0 || highest(index - 1) < nano, "{nano}");
            assert!(highest(index) - nano <= nano >> BITS, "{nano}");
        }
        assert_eq!(highest(bucket(u64::MAX)), u64::MAX);
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn shares_are_of_all_that_was_recorded() {
        let mut latencies = Latencies::default();
        let mut others = Latencies::default();
        for micros in 1..=1000 {
            let to = if micros % 2 == 0 { &mut latencies } else { &mut others };
            to.record(Duration::from_micros(micros));
        }
        latencies.add(&others);
        let near = |share: f64, micros: f64| {
            let found = latencies.at(share).as_nanos() as f64 / 1000.0;
            assert!((found / micros - 1.0).abs() < 0.005, "{share}: {found}");
        };
        near(0.5, 500.0);
        near(0.99, 990.0);
        assert_eq!(latencies.at(1.0), Duration::from_micros(1000));
        assert_eq!(Latencies::default().at(0.5), Duration::ZERO);
    }
}
