//! Random numbers that are the same for the same seed, on every machine.

/// SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) const fn below(&mut self, end: usize) -> usize {
        ((self.next() as u128 * end as u128) >> 64) as usize
    }

    /// From 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// A time with this mean: exponential above a fifth of it.
    pub(crate) fn nano(&mut self, mean: f64) -> i64 {
        (mean * (0.2 - 0.8 * (1.0 - self.share()).ln())) as i64 + 1
    }
}
