//! Random numbers that are the same everywhere and for ever.

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
/// Generators", 2014). Not that of a library, since those change their streams
/// between versions, and figures of one load are compared over years.
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
        // The upper half of a product is even enough, and needs no division.
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// An element of a list that is not empty.
    pub(crate) const fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    /// From 0 up to, not including, 1.
    pub(crate) const fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether something of this probability happens.
    pub(crate) const fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number below `end` of which small ones come much more often, as
    /// products that sell.
    pub(crate) const fn skewed(&mut self, end: u64) -> u64 {
        let unit = self.unit();
        ((unit * unit * unit) * end as f64) as u64
    }

    /// Log-normal about this median: most are near, few are many times it.
    pub(crate) fn latency(&mut self, median_nano: f64) -> i64 {
        // The sum of four uniform numbers is close enough to a normal one.
        let normal = (self.unit() + self.unit() + self.unit() + self.unit() - 2.0) * 1.732;
        (median_nano * (0.7 * normal).exp()) as i64
    }
}
