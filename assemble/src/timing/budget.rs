//! How much is computed: by the time that the rows tell of, not by that of this machine, so
//! that the same rows give the same links when it is busy. Where more would be needed, less is
//! looked at everywhere.

use super::solve::Effort;

const SECOND_NANO: i64 = 1_000_000_000;
/// Likelihoods that may be computed in a second, over all processes: some seventh of a
/// processor.
const STEPS_PER_SECOND: i64 = 750_000;
/// So much is saved up at most: rows may come all at once.
const MOST_SAVED_STEPS: i64 = 20 * STEPS_PER_SECOND;
/// So far beyond its share, nothing is computed.
const MOST_OWED_STEPS: i64 = STEPS_PER_SECOND;
/// What one solution took beyond that is made up for, but not for longer than this.
const MOST_DEBT_STEPS: i64 = 16 * STEPS_PER_SECOND;
/// So much is computed without a pause.
const MOST_AT_ONCE_STEPS: u64 = 4 * STEPS_PER_SECOND as u64;
/// Rows that are so much older than the newest,
const LATE_NANO: i64 = 10 * SECOND_NANO;
/// and so many after each other, say that the newest had a wrong clock.
const MANY_LATE: u32 = 1000;

#[derive(Debug)]
pub(super) struct Budget {
    steps: i64,
    /// Time that is less than a step.
    rest: i64,
    /// The end of the newest row.
    newest_nano: Option<i64>,
    late: u32,
    /// Computed since the last pause.
    at_once: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { steps: STEPS_PER_SECOND, rest: 0, newest_nano: None, late: 0, at_once: 0 }
    }
}

impl Budget {
    /// A row ended at this time.
    pub(super) fn passed(&mut self, end_nano: i64) {
        let newest_nano = *self.newest_nano.get_or_insert(end_nano);
        let passed = end_nano.saturating_sub(newest_nano);
        if passed < -LATE_NANO {
            self.late += 1;
            if self.late < MANY_LATE {
                return;
            }
        } else if passed < 0 {
            return;
        }
        self.late = 0;
        self.newest_nano = Some(end_nano);
        // Of a pause of hours no more than a second counts.
        let more = passed.clamp(0, SECOND_NANO) * STEPS_PER_SECOND + self.rest;
        self.rest = more % SECOND_NANO;
        self.steps = (self.steps + more / SECOND_NANO).min(MOST_SAVED_STEPS);
    }

    /// After a pause.
    pub(super) const fn begin(&mut self) {
        self.at_once = 0;
    }

    /// Whether there may be more before the next pause.
    pub(super) const fn goes_on(&self) -> bool {
        self.at_once < MOST_AT_ONCE_STEPS
    }

    /// How long may be looked for what is likely; `None` where it may not.
    pub(super) const fn effort(&self) -> Option<Effort> {
        if self.steps > STEPS_PER_SECOND / 2 {
            Some(Effort::FULL)
        } else if self.steps > 0 {
            Some(Effort::HALF)
        } else if self.steps > -MOST_OWED_STEPS {
            Some(Effort::LEAST)
        } else {
            None
        }
    }

    pub(super) fn spend(&mut self, steps: u64) {
        self.steps = self.steps.saturating_sub_unsigned(steps).max(-MOST_DEBT_STEPS);
        self.at_once = self.at_once.saturating_add(steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_looked_at_before_nothing_is() {
        let mut budget = Budget::default();
        assert_eq!(budget.effort(), Some(Effort::FULL));
        budget.spend(600_000);
        assert_eq!(budget.effort(), Some(Effort::HALF));
        budget.spend(600_000);
        assert_eq!(budget.effort(), Some(Effort::LEAST));
        budget.spend(600_000);
        assert_eq!(budget.effort(), None);
        // Two seconds of traffic, however long they take to come.
        for millis in 0..=2_000 {
            budget.passed(millis * 1_000_000);
        }
        assert_eq!(budget.effort(), Some(Effort::FULL));
    }

    #[test]
    fn a_wrong_clock_neither_gives_much_nor_ends_it_all() {
        let mut budget = Budget::default();
        budget.spend(1_500_000);
        budget.passed(SECOND_NANO);
        budget.passed(i64::MAX);
        assert_eq!(budget.steps, 0);
        for millis in 0..3_000 {
            budget.passed(2 * SECOND_NANO + millis * 1_000_000);
        }
        assert!(budget.steps > STEPS_PER_SECOND, "{}", budget.steps);
    }

    #[test]
    fn slivers_of_time_are_not_lost() {
        let mut budget = Budget::default();
        budget.spend(750_000);
        for nano in 0..=1_000_000 {
            budget.passed(nano);
        }
        assert_eq!(budget.steps, 750);
    }
}
