//! Limits warnings that senders can cause at will. The first of each kind is logged, then one in
//! each interval with the number of suppressed ones.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Minimum time between two warnings of one kind.
const EVERY: Duration = Duration::from_secs(10);

/// The last warning of each kind: topic and reason. Both are constants of this program, so there
/// are few.
#[derive(Debug, Default)]
pub(super) struct WarningLimit(Mutex<HashMap<(&'static str, &'static str), LastWarning>>);

#[derive(Debug)]
struct LastWarning {
    logged: Instant,
    since: u64,
}

/// Number of suppressed warnings before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suppressed(u64);

impl fmt::Display for Suppressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, " (and {more} more like it before)"),
        }
    }
}

impl WarningLimit {
    /// Whether a warning of this kind is due.
    pub(crate) fn due(&self, about: &'static str, why: &'static str) -> Option<Suppressed> {
        self.due_at(about, why, Instant::now())
    }

    fn due_at(&self, about: &'static str, why: &'static str, now: Instant) -> Option<Suppressed> {
        let mut all = self.0.lock();
        let Some(last) = all.get_mut(&(about, why)) else {
            all.insert((about, why), LastWarning { logged: now, since: 0 });
            return Some(Suppressed(0));
        };
        if now.duration_since(last.logged) < EVERY {
            last.since += 1;
            return None;
        }
        let more = Suppressed(last.since);
        *last = LastWarning { logged: now, since: 0 };
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_logged_and_then_one_in_a_while() {
        let (sparse, now) = (WarningLimit::default(), Instant::now());
        assert_eq!(sparse.due_at("a", "x", now), Some(Suppressed(0)));
        assert_eq!(sparse.due_at("a", "y", now), Some(Suppressed(0)));
        for _ in 0..5 {
            assert_eq!(sparse.due_at("a", "x", now), None);
        }
        assert_eq!(sparse.due_at("a", "x", now + EVERY), Some(Suppressed(5)));
        assert_eq!(Suppressed(5).to_string(), " (and 5 more like it before)");
    }
}
