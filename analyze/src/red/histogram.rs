//! Histograms of durations, in two shapes at once: buckets with fixed bounds (Prometheus' classic
//! ones), and buckets that grow by a constant factor (its native ones).

use std::sync::Arc;

use spanwise_model::TraceId;

/// The upper bounds of classic buckets. The last bucket has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds(Arc<[i64]>);

impl Bounds {
    /// The most bounds.
    pub const MOST: usize = 64;

    /// Bounds in nanoseconds.
    ///
    /// # Errors
    /// Where they do not increase from above zero, or are none or too many.
    pub fn new(nano: &[i64]) -> Result<Self, String> {
        let increase = nano.first() > Some(&0) && nano.is_sorted_by(|one, next| one < next);
        if !increase || nano.len() > Self::MOST {
            return Err(format!(
                "bounds of buckets must increase from above zero, and be 1 to {}",
                Self::MOST
            ));
        }
        Ok(Self(nano.into()))
    }

    /// `count` bounds, each twice the one before.
    pub fn doubling(first_nano: i64, count: u32) -> Self {
        Self((0..count).map(|power| first_nano << power).collect())
    }

    /// The bounds, in nanoseconds.
    pub fn nano(&self) -> &[i64] {
        &self.0
    }

    /// The bucket of a duration: that of the first bound that it does not exceed.
    pub(super) fn bucket(&self, nano: i64) -> u8 {
        self.0.partition_point(|bound| nano > *bound) as u8
    }
}

/// Counts of durations.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// How many there are.
    pub count: u64,
    /// Their sum.
    pub sum_nano: u128,
    /// How many are in each classic bucket (not in those below).
    pub classic: Box<[u64]>,
    /// The native buckets.
    pub native: Native,
    exemplars: Option<Box<[Exemplar]>>,
    /// Durations that are not in buckets yet, with their classic bucket. Buckets are far apart in
    /// memory, so they are visited seldom.
    recent: [(i16, u8); RECENT],
    recent_count: u8,
}

const RECENT: usize = 16;
/// A native bucket of what took no time.
const ZERO: i16 = i16::MIN;

/// A trace that a bucket counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    /// The trace.
    pub trace_id: TraceId,
    /// The duration that was counted.
    pub nano: i64,
    /// When it was counted; 0 if the bucket has no exemplar.
    pub at_unix_nano: i64,
}

const NO_EXEMPLAR: Exemplar = Exemplar { trace_id: TraceId([0; 16]), nano: 0, at_unix_nano: 0 };

/// A bucket's exemplar is kept this long.
const KEEP_EXEMPLAR_NANO: i64 = 1_000_000_000;

impl Histogram {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self {
            count: 0,
            sum_nano: 0,
            classic: vec![0; bounds.0.len() + 1].into(),
            native: Native::default(),
            exemplars: None,
            recent: [(0, 0); RECENT],
            recent_count: 0,
        }
    }

    /// Counts a duration of this classic bucket.
    pub(super) fn count(&mut self, nano: i64, bucket: u8) {
        self.count += 1;
        self.sum_nano += u128::from(nano.unsigned_abs());
        if usize::from(self.recent_count) == RECENT {
            self.fill_buckets();
        }
        let native = if nano > 0 { finest_bucket(nano) } else { ZERO };
        self.recent[usize::from(self.recent_count)] = (native, bucket);
        self.recent_count += 1;
    }

    /// Puts all durations into their buckets.
    fn fill_buckets(&mut self) {
        let recent = self.recent;
        for (native, bucket) in &recent[..usize::from(std::mem::take(&mut self.recent_count))] {
            if let Some(count) = self.classic.get_mut(usize::from(*bucket)) {
                *count += 1;
            }
            self.native.count(*native);
        }
    }

    /// A copy in which all durations are in their buckets.
    pub(super) fn filled(&self) -> Self {
        let mut filled = self.clone();
        filled.fill_buckets();
        filled
    }

    /// Keeps a trace as the bucket's example, unless it has one that is still new.
    pub(super) fn keep(&mut self, bucket: u8, exemplar: Exemplar) {
        let buckets = self.classic.len();
        let kept = self.exemplars.get_or_insert_with(|| vec![NO_EXEMPLAR; buckets].into());
        if let Some(kept) = kept.get_mut(usize::from(bucket))
            && exemplar.at_unix_nano - kept.at_unix_nano >= KEEP_EXEMPLAR_NANO
        {
            *kept = exemplar;
        }
    }

    /// A bucket's exemplar.
    pub fn exemplar(&self, bucket: usize) -> Option<&Exemplar> {
        self.exemplars.as_ref()?.get(bucket).filter(|exemplar| exemplar.at_unix_nano != 0)
    }
}

/// Counts in buckets of which each is `2^(2^-schema)` times as wide as the one before. Bucket 0 ends
/// at one second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Native {
    /// The resolution.
    pub schema: i8,
    /// The index of the first bucket in `counts`.
    pub first: i32,
    /// How many are in each bucket; there are buckets without any.
    pub counts: Vec<u64>,
    /// How many took no time at all.
    pub zero: u64,
}

/// Eight buckets for each doubling: each is nine per cent wider than the one before. Tempo's are
/// as fine.
const FINEST: i8 = 3;
/// The most buckets of a histogram. If it needs more, it becomes coarser.
const MOST_BUCKETS: usize = 160;

impl Default for Native {
    fn default() -> Self {
        Self { schema: FINEST, first: 0, counts: Vec::new(), zero: 0 }
    }
}

impl Native {
    /// Counts a duration of this bucket at the finest resolution.
    fn count(&mut self, finest: i16) {
        if finest == ZERO {
            self.zero += 1;
            return;
        }
        let finest = i32::from(finest);
        let index = |schema| coarser(finest, FINEST - schema);
        let mut at = index(self.schema);
        // Nearly always, the bucket is there.
        if let Some(count) = self.counts.get_mut((at - self.first) as usize) {
            *count += 1;
            return;
        }
        if self.counts.is_empty() {
            self.first = at;
        }
        while self.width_with(at) > MOST_BUCKETS {
            self.halve();
            at = index(self.schema);
        }
        if at < self.first {
            let more = (self.first - at) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = at;
        }
        let place = (at - self.first) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
    }

    /// The buckets that have counts, named by their ends at the finest resolution: bucket 0 ends at
    /// one second, and bucket 8 at two.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (i32, u64)> {
        let all = (self.first..).zip(self.counts.iter().copied());
        let finest = FINEST - self.schema;
        all.filter(|(_, count)| *count > 0).map(move |(index, count)| (index << finest, count))
    }

    /// The end of this histogram's bucket that has a bucket with this end in it.
    pub(crate) const fn end_of(&self, end: i32) -> i32 {
        let finest = FINEST - self.schema;
        coarser(end, finest) << finest
    }

    fn width_with(&self, index: i32) -> usize {
        let last = self.first + self.counts.len() as i32 - 1;
        (index.max(last) - index.min(self.first) + 1) as usize
    }

    /// Joins each two neighbouring buckets.
    fn halve(&mut self) {
        let first = coarser(self.first, 1);
        let mut counts = Vec::with_capacity(self.counts.len() / 2 + 1);
        for (index, count) in (self.first..).zip(&self.counts) {
            let place = (coarser(index, 1) - first) as usize;
            counts.resize(counts.len().max(place + 1), 0);
            counts[place] += count;
        }
        (self.schema, self.first, self.counts) = (self.schema - 1, first, counts);
    }
}

/// The bucket that holds this one, with half the resolution so many times.
const fn coarser(index: i32, times: i8) -> i32 {
    // Rounds up: a bucket is named by its end.
    ((index - 1) >> times) + 1
}

/// The ends of the buckets between 0.5 and 1: powers of the eighth root of two.
const ENDS: [f64; 8] = [
    0.5,
    0.545_253_866_332_628_8,
    0.594_603_557_501_360_5,
    0.648_419_777_325_504_8,
    std::f64::consts::FRAC_1_SQRT_2,
    0.771_105_412_703_970_4,
    0.840_896_415_253_714_5,
    0.917_004_043_204_671_2,
];

/// For each 64th of the way from 0.5 to 1: how many buckets end before it, or where it begins.
const GUESSES: [u8; 64] = {
    let mut guesses = [0; 64];
    let mut part = 0;
    while part < 64 {
        let begin = 0.5 + part as f64 / 128.0;
        while (guesses[part] as usize) < ENDS.len() && ENDS[guesses[part] as usize] < begin {
            guesses[part] += 1;
        }
        part += 1;
    }
    guesses
};

/// The bucket of a duration above zero, at the finest resolution.
fn finest_bucket(nano: i64) -> i16 {
    let bits = (nano as f64 / 1e9).to_bits();
    // The number is `fraction * 2^exponent`, with a fraction from 0.5 to below 1.
    let exponent = ((bits >> 52) & 0x7ff) as i16 - 1022;
    let fraction = f64::from_bits((bits & !(0x7ff << 52)) | (1022 << 52));
    // Most of the 64 parts of an octave lie in one bucket, and none in more than two.
    let part = usize::from(GUESSES[(bits >> 46 & 0x3f) as usize]);
    let is_above = ENDS.get(part).is_some_and(|end| fraction > *end);
    (exponent - 1) * 8 + part as i16 + i16::from(is_above)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The end of a bucket, in seconds.
    fn end(schema: i8, index: i32) -> f64 {
        f64::from(index).mul_add((-f64::from(schema)).exp2(), 0.0).exp2()
    }

    #[test]
    fn buckets_end_where_prometheus_says() {
        // A bucket holds its end, and not its beginning.
        assert_eq!(finest_bucket(1_000_000_000), 0);
        assert_eq!(finest_bucket(1_000_000_001), 1);
        assert_eq!(finest_bucket(2_000_000_000), 8);
        assert_eq!(finest_bucket(500_000_000), -8);
        assert_eq!((coarser(8, 1), coarser(7, 1), coarser(-7, 1), coarser(-8, 3)), (4, 4, -3, -1));
        let bounds = Bounds::doubling(2_000_000, 3);
        let buckets = [0, 2_000_000, 2_000_001, 8_000_000, 8_000_001].map(|at| bounds.bucket(at));
        assert_eq!(buckets, [0, 0, 1, 2, 3]);
    }

    #[test]
    fn bounds_that_do_not_increase_are_refused() {
        for bounds in [&[][..], &[0, 1], &[2, 2], &[2, 1], &[1; 65]] {
            assert!(Bounds::new(bounds).is_err(), "{bounds:?}");
        }
        assert_eq!(Bounds::new(&[1, 2]).expect("good").nano(), [1, 2]);
    }

    #[test]
    fn an_example_is_kept_for_a_second() {
        let bounds = Bounds::doubling(10, 2);
        let mut histogram = Histogram::new(&bounds);
        let example =
            |id, at_unix_nano| Exemplar { trace_id: TraceId([id; 16]), nano: 5, at_unix_nano };
        for (id, at) in [(1, 2_000_000_000), (2, 2_999_999_999), (3, 3_000_000_000)] {
            histogram.keep(1, example(id, at));
            let kept = histogram.exemplar(1).expect("an example");
            assert_eq!(kept.trace_id.0[0], if id == 2 { 1 } else { id });
        }
        assert_eq!(histogram.exemplar(0), None);
    }

    proptest! {
        /// Whatever is counted, each duration lies in its bucket, and there are never too many.
        #[test]
        fn every_duration_is_in_its_bucket(
            durations in prop::collection::vec(
                prop_oneof![0..10i64, 0..1_000_000_000i64, 0..i64::MAX, Just(i64::MAX)],
                1..50,
            ),
        ) {
            let bounds = Bounds::doubling(2_000_000, 14);
            let mut histogram = Histogram::new(&bounds);
            for nano in &durations {
                histogram.count(*nano, bounds.bucket(*nano));
            }
            let histogram = histogram.filled();
            prop_assert_eq!(histogram.count, durations.len() as u64);
            prop_assert_eq!(histogram.sum_nano, durations.iter().map(|nano| *nano as u128).sum());
            let ends = bounds.nano().iter().map(Some).chain([None]);
            let mut from = -1;
            for (count, end) in histogram.classic.iter().zip(ends) {
                let to = end.copied().unwrap_or(i64::MAX);
                let within = durations.iter().filter(|nano| (from + 1..=to).contains(nano)).count();
                prop_assert_eq!(*count, within as u64);
                from = to;
            }
            let native = &histogram.native;
            prop_assert!(native.counts.len() <= MOST_BUCKETS);
            let zero = durations.iter().filter(|nano| **nano == 0).count();
            prop_assert_eq!(native.zero, zero as u64);
            for (index, count) in (native.first..).zip(&native.counts) {
                let (from, to) = (end(native.schema, index - 1), end(native.schema, index));
                let is_in = |seconds: f64| seconds > from && seconds <= to;
                let seconds = durations.iter().map(|nano| *nano as f64 / 1e9);
                let within = seconds.filter(|seconds| is_in(*seconds)).count();
                prop_assert_eq!(*count, within as u64, "bucket {} of {}", index, native.schema);
            }
        }
    }
}
