//! Histograms with a bucket for each power of two, and their quantiles.

use std::collections::BTreeMap;

/// The bucket of numbers that are 0 or less.
const NOTHING: i16 = i16::MIN;

/// Number of values in each bucket. The key of a bucket is the exponent of its upper bound, which
/// is part of the bucket.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Buckets(BTreeMap<i16, u64>);

/// The bucket of a number.
pub(crate) fn bucket(number: f64) -> i16 {
    if number <= 0.0 {
        return NOTHING;
    }
    let exponent = (number.log2().ceil() as i16).clamp(-1_074, 1_024);
    // Corrects the rounding of the logarithm.
    [exponent - 1, exponent].into_iter().find(|one| number <= bound(*one)).unwrap_or(exponent + 1)
}

/// The upper bound of a bucket.
pub(crate) fn bound(bucket: i16) -> f64 {
    if bucket == NOTHING { 0.0 } else { f64::from(bucket).exp2() }
}

impl Buckets {
    pub(crate) fn add(&mut self, number: f64) {
        *self.0.entry(bucket(number)).or_default() += 1;
    }

    /// The buckets and the number of values in each.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (i16, u64)> + '_ {
        self.0.iter().map(|(bucket, count)| (*bucket, *count))
    }

    /// Estimates a quantile by exponential interpolation between the bounds of its bucket; 0 if
    /// there are no values.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        let total: u64 = self.0.values().sum();
        let wanted = ((quantile * total as f64).ceil() as u64).max(1);
        let mut before = 0;
        let mut lower = None;
        for (bucket, count) in self.counts() {
            let upper = bound(bucket);
            if before + count == wanted {
                return upper;
            }
            if before + count > wanted {
                let lower = lower.filter(|lower| *lower > 0.0).unwrap_or(upper / 2.0);
                let part = (wanted - before) as f64 / count as f64;
                return if upper == 0.0 { 0.0 } else { lower * (upper / lower).powf(part) };
            }
            before += count;
            lower = Some(upper);
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_their_buckets() {
        for (number, upper) in [
            (1.0, 1.0),
            (1.5, 2.0),
            (2.0, 2.0),
            (3.0, 4.0),
            (1024.0, 1024.0),
            (0.0, 0.0),
            (0.3, 0.5),
        ] {
            assert_eq!(bound(bucket(number)), upper, "{number}");
        }
        for exponent in -1_074..=1_024 {
            assert_eq!(bucket(bound(exponent)), exponent);
        }
        assert_eq!(bound(bucket(f64::INFINITY)), f64::INFINITY);
        assert_eq!(bucket(f64::NEG_INFINITY), NOTHING);
    }

    #[test]
    fn quantiles() {
        let mut buckets = Buckets::default();
        assert_eq!(buckets.quantile(0.5), 0.0);
        for number in [3.0, 5.0, 6.0, 7.0] {
            buckets.add(number);
        }
        assert_eq!(buckets.quantile(0.25), 4.0);
        assert_eq!(buckets.quantile(1.0), 8.0);
        // One of the three values between 4 and 8.
        let third = 4.0 * 2_f64.powf(1.0 / 3.0);
        assert!((buckets.quantile(0.5) - third).abs() < 1e-9);
    }
}
