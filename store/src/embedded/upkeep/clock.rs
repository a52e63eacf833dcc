//! The clock for retention.
//!
//! If the host's clock jumps far ahead, deletion by age would delete everything. So the time is
//! recorded regularly. A host clock that is ahead of the recorded time by more than has really
//! passed is not trusted: ages are computed with the recorded time, which continues to advance. A
//! host that was switched off for long looks the same. So after some running time, the host's clock
//! is trusted, and until then a warning says what it would delete.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::embedded::private;

const NOTE: &str = "clock.json";
/// If the operator creates a file with this name, the host's clock is trusted at once.
pub(crate) const CONFIRMATION: &str = "clock-is-right";
/// Interval at which the time is recorded.
const NOTE_EVERY: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// The clock for retention. See the module's description.
#[derive(Debug)]
pub(crate) struct Clock {
    directory: PathBuf,
    /// The time that ages are computed with.
    now_unix_nano: i64,
    /// How long the server has run while the host's clock was not trusted.
    waited: Duration,
    /// Both are readings of a clock that is never set.
    looked_at: Duration,
    noted_at: Option<Duration>,
}

/// The state that survives a restart.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    unix_nano: i64,
    waited_seconds: u64,
}

/// A host clock that is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UntrustedClock {
    /// How far it is ahead.
    pub(crate) by: Duration,
    /// Time until it is trusted.
    pub(crate) for_another: Duration,
}

impl Clock {
    /// The recorded time; else the time of the newest file; else now.
    pub(crate) fn open(
        directory: &Path,
        newest_file_unix_nano: Option<i64>,
        now_unix_nano: i64,
    ) -> Self {
        let text = fs::read(directory.join(NOTE)).ok();
        let note: Option<Note> = text.and_then(|text| serde_json::from_slice(&text).ok());
        let before = note.as_ref().map(|note| note.unix_nano).or(newest_file_unix_nano);
        Self {
            directory: directory.to_owned(),
            now_unix_nano: before.unwrap_or(now_unix_nano),
            // No wait is longer than a day.
            waited: Duration::from_secs(note.map_or(0, |note| note.waited_seconds)).min(DAY),
            looked_at: running(),
            noted_at: None,
        }
    }

    /// Checks the host's clock, given the retention time. Returns a value if the clock is not
    /// trusted.
    pub(crate) fn look(
        &mut self,
        machine_unix_nano: i64,
        keep: Duration,
    ) -> Option<UntrustedClock> {
        self.look_at(machine_unix_nano, running(), keep)
    }

    fn look_at(
        &mut self,
        machine_unix_nano: i64,
        running: Duration,
        keep: Duration,
    ) -> Option<UntrustedClock> {
        let passed = running.saturating_sub(self.looked_at);
        self.looked_at = running;
        let expected = self.now_unix_nano.saturating_add(nano(passed));
        let by = machine_unix_nano.saturating_sub(expected);
        if by <= nano((keep / 4).clamp(HOUR / 6, DAY)) {
            self.now_unix_nano = machine_unix_nano;
            self.waited = Duration::ZERO;
            return None;
        }
        self.waited += passed;
        let wait = keep.clamp(HOUR, DAY);
        if self.waited >= wait || self.is_confirmed() {
            tracing::warn!("the clock is believed from now on, and spans grow old by it");
            self.now_unix_nano = machine_unix_nano;
            self.waited = Duration::ZERO;
            return None;
        }
        self.now_unix_nano = expected;
        Some(UntrustedClock {
            by: Duration::from_nanos(by.unsigned_abs()),
            for_another: wait.saturating_sub(self.waited),
        })
    }

    /// The time that ages are computed with.
    pub(crate) const fn now_unix_nano(&self) -> i64 {
        self.now_unix_nano
    }

    /// Whether the operator confirmed the clock. Consumes the confirmation.
    fn is_confirmed(&self) -> bool {
        fs::remove_file(self.directory.join(CONFIRMATION)).is_ok()
    }

    /// Records the time, if the interval has passed or `at_once`.
    pub(crate) fn note(&mut self, at_once: bool) {
        let is_due = self.noted_at.is_none_or(|at| running().saturating_sub(at) >= NOTE_EVERY);
        if !is_due && !at_once {
            return;
        }
        self.noted_at = Some(running());
        let note = Note { unix_nano: self.now_unix_nano, waited_seconds: self.waited.as_secs() };
        let written = serde_json::to_vec(&note)
            .map_err(std::io::Error::from)
            .and_then(|note| private::write_durably(&self.directory.join(NOTE), &note));
        if let Err(error) = written {
            // The recorded time is then some minutes old.
            tracing::debug!("cannot note the clock: {error}");
        }
    }
}

/// Time since boot, including suspend.
fn running() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn nano(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A time in UTC, for display.
pub(crate) fn utc(unix_nano: i64) -> String {
    let seconds = unix_nano.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years start in March here, and 400 years have a fixed number of days.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + i64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const WEEK: Duration = Duration::from_secs(7 * 86_400);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The results of several checks, each with the host's time and the seconds since the previous
    /// check.
    fn looks(clock: &mut Clock, all: &[(i64, u64)]) -> Vec<Option<(u64, i64)>> {
        let begin = clock.looked_at;
        let look = |(machine, running): &(i64, u64)| {
            let ahead = clock.look_at(machine * SECOND, begin + seconds(*running), WEEK);
            ahead.map(|ahead| (ahead.by.as_secs(), clock.now_unix_nano / SECOND))
        };
        all.iter().map(look).collect()
    }

    #[test]
    fn a_clock_that_jumps_ahead_is_believed_after_a_day_of_running() {
        let directory = tempfile::tempdir().expect("a directory");
        let day = 86_400;
        let mut clock = Clock::open(directory.path(), None, 0);
        // Normal progress, a little more, and backwards.
        assert_eq!(looks(&mut clock, &[(10, 10), (day, 20), (5, 30)]), [None; 3]);
        let month = 30 * day;
        let first = looks(&mut clock, &[(month, 10), (month + 60, 70)]);
        assert_eq!(first, [Some((2_591_985, 15)), Some((2_591_985, 75))]);
        // Once it is set right, it is trusted at once.
        assert_eq!(looks(&mut clock, &[(80, 5), (month, 10)]), [None, Some((2_591_915, 85))]);
        clock.look_at(month * SECOND, clock.looked_at + seconds(80_000), WEEK);
        clock.note(true);
        drop(clock);
        // A restart does not reset the wait.
        let mut clock = Clock::open(directory.path(), Some(7), month * SECOND);
        assert_eq!(clock.now_unix_nano / SECOND, 80_085);
        assert_eq!(looks(&mut clock, &[(month, 0), (month, 6_300)]).len(), 2);
        assert!(clock.waited > Duration::ZERO);
        assert_eq!(looks(&mut clock, &[(month, 200)]), [None]);
        assert_eq!(clock.now_unix_nano / SECOND, month);
    }

    #[test]
    fn the_operator_is_believed_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut clock = Clock::open(directory.path(), Some(5 * SECOND), i64::MAX);
        assert!(clock.look_at(WEEK.as_nanos() as i64, clock.looked_at, WEEK).is_some());
        fs::write(directory.path().join(CONFIRMATION), "").expect("written");
        assert!(clock.look_at(WEEK.as_nanos() as i64, clock.looked_at, WEEK).is_none());
        assert!(clock.look_at(2 * WEEK.as_nanos() as i64, clock.looked_at, WEEK).is_some());
        // A recorded wait is limited to the maximum.
        let note = format!("{{\"unix_nano\":0,\"waited_seconds\":{}}}", u64::MAX);
        fs::write(directory.path().join(NOTE), note).expect("written");
        assert_eq!(Clock::open(directory.path(), None, 9).waited, DAY);
        // An unreadable record is ignored.
        fs::write(directory.path().join(NOTE), "{").expect("written");
        assert_eq!(Clock::open(directory.path(), None, 9).now_unix_nano, 9);
    }

    #[test]
    fn what_is_kept_for_hours_waits_for_hours() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut clock = Clock::open(directory.path(), None, 0);
        let keep = 2 * HOUR;
        assert_eq!(clock.look_at(nano(HOUR / 2), clock.looked_at, keep), None);
        let ahead = clock.look_at(nano(2 * HOUR), clock.looked_at, keep).expect("ahead");
        assert_eq!((ahead.by, ahead.for_another), (HOUR + HOUR / 2, keep));
    }

    #[test]
    fn times_are_dates() {
        for (second, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(second * SECOND), date);
        }
    }
}
