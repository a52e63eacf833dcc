//! Ticks to wall-clock time, by the anchors that the program took.

/// The two clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) tick: u64,
    pub(crate) unix_ns: u64,
}

/// Straight lines between anchors.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    anchors: Vec<Anchor>,
    /// Nanoseconds of a tick after each anchor.
    slopes: Vec<f64>,
}

impl Clock {
    /// Anchors that go back in ticks are left out.
    pub(crate) fn new(mut anchors: Vec<Anchor>, ticks_per_second: u64) -> Self {
        anchors.retain(|anchor| anchor.unix_ns > 0);
        anchors.sort_by_key(|anchor| anchor.tick);
        anchors.dedup_by_key(|anchor| anchor.tick);
        if anchors.is_empty() {
            anchors.push(Anchor { tick: 0, unix_ns: 0 });
        }
        let nominal = 1e9 / (ticks_per_second.max(1) as f64);
        let slope = |a: &Anchor, b: &Anchor| {
            (b.unix_ns as f64 - a.unix_ns as f64) / ((b.tick - a.tick) as f64)
        };
        let mut slopes: Vec<f64> =
            anchors.windows(2).map(|pair| slope(&pair[0], &pair[1])).collect();
        // After the last anchor: the line of the longest recent baseline.
        let last = anchors[anchors.len() - 1];
        let far = anchors[anchors.len().saturating_sub(5)];
        slopes.push(if far.tick < last.tick { slope(&far, &last) } else { nominal });
        Self { anchors, slopes }
    }

    /// Unix time of a tick in nanoseconds. `hint` remembers the place of the last call.
    pub(crate) fn unix_ns(&self, tick: u64, hint: &mut usize) -> u64 {
        let fits = |at: usize| {
            self.anchors[at].tick <= tick
                && self.anchors.get(at + 1).is_none_or(|next| tick < next.tick)
        };
        if *hint >= self.anchors.len() || !fits(*hint) {
            *hint = self.anchors.partition_point(|anchor| anchor.tick <= tick).saturating_sub(1);
        }
        let anchor = self.anchors[*hint];
        let ticks = i128::from(tick) - i128::from(anchor.tick);
        let ns = (ticks as f64 * self.slopes[*hint]).round() as i64;
        anchor.unix_ns.saturating_add_signed(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lie_on_the_lines_between_anchors() {
        let anchor = |tick, unix_ns| Anchor { tick, unix_ns };
        let clock = Clock::new(vec![anchor(1000, 5000), anchor(2000, 5500), anchor(4000, 7500)], 1);
        let mut hint = 0;
        let mut at = |tick| clock.unix_ns(tick, &mut hint);
        assert_eq!([at(1000), at(1500), at(2000), at(3000)], [5000, 5250, 5500, 6500]);
        assert_eq!(at(800), 4900, "before the first: its line");
        assert_eq!(at(7000), 10000, "after the last: the line of them all, 2500 ns / 3000 ticks");
    }

    #[test]
    fn one_anchor_takes_the_named_frequency() {
        let clock = Clock::new(vec![Anchor { tick: 10, unix_ns: 100 }], 500_000_000);
        assert_eq!(clock.unix_ns(15, &mut 0), 110);
        assert_eq!(Clock::new(Vec::new(), 0).unix_ns(0, &mut 9), 0);
    }
}
