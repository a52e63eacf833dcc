//! Random numbers that never change, on any host.

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014). No
/// library is used, because libraries change their sequences between versions, while figures of one
/// load are compared over years.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        // The upper half of the product is even enough, and needs no division.
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// An element of a list that is not empty.
    pub(crate) const fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    /// A number from 0 up to, not including, 1.
    pub(crate) const fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub(crate) const fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number below `end`. Small ones are much more frequent, like popular products.
    pub(crate) const fn skewed(&mut self, end: u64) -> u64 {
        let unit = self.unit();
        ((unit * unit * unit) * end as f64) as u64
    }

    /// A log-normal latency with this median: most are close, few are many times larger.
    pub(crate) fn latency(&mut self, median_nano: f64) -> i64 {
        // The sum of four uniform numbers approximates a normal one.
        let normal = (self.unit() + self.unit() + self.unit() + self.unit() - 2.0) * 1.732;
        (median_nano * (0.7 * normal).exp()) as i64
    }
}
