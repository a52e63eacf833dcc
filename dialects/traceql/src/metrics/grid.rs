//! Time, cut into intervals.

/// Points that a series may have.
pub const MAX_POINTS: u64 = 10_000;

/// Intervals `(start, end]` of one length, each told by its end; or, for an instant
/// query, `[start, end]` as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    start: u64,
    end: u64,
    step: u64,
    instant: bool,
}

impl Grid {
    /// Intervals of `step_nanos` that cover from `start` to `end`, in nanoseconds of
    /// Unix time. They lie at multiples of the step, whatever the start.
    ///
    /// # Errors
    /// What is wrong with the range.
    pub fn range(start: u64, end: u64, step_nanos: u64) -> Result<Self, String> {
        if start >= end {
            return Err("the end of the time range must be after its start".to_owned());
        }
        if step_nanos == 0 {
            return Err("the step must be above 0".to_owned());
        }
        let start = start - start % step_nanos;
        let end = end
            .checked_next_multiple_of(step_nanos)
            .ok_or("the end of the time range is too late")?;
        let points = (end - start) / step_nanos;
        if points > MAX_POINTS {
            return Err(format!(
                "the time range has {points} steps; at most {MAX_POINTS} are taken: choose a longer step"
            ));
        }
        Ok(Grid { start, end, step: step_nanos, instant: false })
    }

    /// One interval with both ends.
    ///
    /// # Errors
    /// What is wrong with the range.
    pub fn instant(start: u64, end: u64) -> Result<Self, String> {
        if start >= end {
            return Err("the end of the time range must be after its start".to_owned());
        }
        Ok(Grid { start, end, step: end - start, instant: true })
    }

    /// How many intervals there are.
    #[must_use]
    pub fn len(&self) -> usize {
        ((self.end - self.start) / self.step) as usize
    }

    /// Never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether it is one for an instant query.
    #[must_use]
    pub fn is_instant(&self) -> bool {
        self.instant
    }

    /// Length of an interval.
    #[must_use]
    pub fn step_nanos(&self) -> u64 {
        self.step
    }

    /// Length of an interval in seconds.
    #[must_use]
    pub fn step_seconds(&self) -> f64 {
        self.step as f64 / 1e9
    }

    /// The first and the last time that have an interval.
    #[must_use]
    pub fn bounds(&self) -> (u64, u64) {
        (if self.instant { self.start } else { self.start.saturating_add(1) }, self.end)
    }

    /// The interval of a time.
    #[must_use]
    pub fn place(&self, unix_nanos: u64) -> Option<usize> {
        if self.instant {
            return (self.start..=self.end).contains(&unix_nanos).then_some(0);
        }
        let inside = unix_nanos > self.start && unix_nanos <= self.end;
        inside.then(|| ((unix_nanos - self.start - 1) / self.step) as usize)
    }

    /// The time that an interval is told by: its end.
    #[must_use]
    pub fn unix_nanos(&self, place: usize) -> u64 {
        self.start + (place as u64 + 1) * self.step
    }
}

/// The step where none is asked for: some 240 points, in multiples of a usual length.
#[must_use]
pub fn default_step_nanos(start: u64, end: u64) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let range = end.saturating_sub(start);
    let wanted = range / 240;
    if range < 60 * SECOND {
        let unit = SECOND / 20;
        return (wanted / unit * unit).max(unit);
    }
    [3600, 300, 60, 15, 5, 1]
        .into_iter()
        .map(|seconds| seconds * SECOND)
        .find(|unit| wanted > *unit)
        .map_or(SECOND, |unit| wanted / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_belong_to_intervals() {
        let grid = Grid::range(12, 38, 10).unwrap();
        assert_eq!(grid.len(), 3);
        for (time, place) in
            [(10, None), (11, Some(0)), (20, Some(0)), (21, Some(1)), (40, Some(2)), (41, None)]
        {
            assert_eq!(grid.place(time), place, "{time}");
        }
        assert_eq!((grid.unix_nanos(0), grid.unix_nanos(2)), (20, 40));
        let instant = Grid::instant(12, 38).unwrap();
        assert_eq!(
            (instant.place(12), instant.place(38), instant.place(39)),
            (Some(0), Some(0), None)
        );
        assert_eq!(instant.unix_nanos(0), 38);
    }

    #[test]
    fn refused_ranges() {
        for (start, end, step) in [(5, 5, 1), (0, 10, 0), (0, 20_000, 1), (0, u64::MAX, 1 << 60)] {
            assert!(Grid::range(start, end, step).is_err(), "{start} {end} {step}");
        }
    }

    #[test]
    fn steps() {
        const SECOND: u64 = 1_000_000_000;
        for (range, step) in [
            (30 * SECOND, 100_000_000),
            (SECOND, 50_000_000),
            (600 * SECOND, 2 * SECOND),
            (3600 * SECOND, 15 * SECOND),
            (24 * 3600 * SECOND, 360 * SECOND - 60 * SECOND),
        ] {
            assert_eq!(default_step_nanos(0, range), step, "{range}");
        }
    }
}
