//! Alerts that are on.

use std::collections::BTreeMap;

use super::broken::Alert;

/// Evaluations in a row that must agree before an alert begins or ends.
const AGREEING: u32 = 2;

/// An alert that is on, or about to be.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenAlert {
    /// The alert, as it was found last.
    pub alert: Alert,
    /// When it was found first.
    pub since_unix_nano: i64,
    /// Whether it has begun. Otherwise it was found once.
    pub is_firing: bool,
    /// Evaluations in a row that found it, or that did not.
    agreeing: u32,
}

/// Follows alerts.
#[derive(Debug, Default)]
pub struct Alerts(BTreeMap<(String, String), OpenAlert>);

impl Alerts {
    /// Those that begin and those that end with what is found now. One whose figures alone have
    /// changed goes on.
    pub fn follow(&mut self, now: Vec<Alert>, unix_nano: i64) -> (Vec<OpenAlert>, Vec<OpenAlert>) {
        self.follow_after(AGREEING, now, unix_nano)
    }

    /// The same, at once.
    pub fn follow_at_once(
        &mut self,
        now: Vec<Alert>,
        unix_nano: i64,
    ) -> (Vec<OpenAlert>, Vec<OpenAlert>) {
        self.follow_after(1, now, unix_nano)
    }

    fn follow_after(
        &mut self,
        agreeing: u32,
        now: Vec<Alert>,
        unix_nano: i64,
    ) -> (Vec<OpenAlert>, Vec<OpenAlert>) {
        let mut found: BTreeMap<(String, String), Alert> = now
            .into_iter()
            .map(|alert| ((alert.rule.clone(), alert.subject.clone()), alert))
            .collect();
        let (mut began, mut ended) = (Vec::new(), Vec::new());
        self.0.retain(|key, open| match (found.remove(key), open.is_firing) {
            (Some(alert), false) => {
                open.alert = alert;
                open.agreeing += 1;
                true
            }
            (Some(alert), true) => {
                (open.alert, open.agreeing) = (alert, 0);
                true
            }
            (None, false) => false,
            (None, true) => {
                open.agreeing += 1;
                if open.agreeing >= agreeing {
                    ended.push(open.clone());
                    return false;
                }
                true
            }
        });
        for (key, alert) in found {
            let open =
                OpenAlert { alert, since_unix_nano: unix_nano, is_firing: false, agreeing: 1 };
            self.0.insert(key, open);
        }
        for open in self.0.values_mut() {
            if !open.is_firing && open.agreeing >= agreeing {
                (open.is_firing, open.agreeing) = (true, 0);
                began.push(open.clone());
            }
        }
        (began, ended)
    }

    /// All of a rule, as it was written.
    pub fn of<'a>(&'a self, rule: &'a str) -> impl Iterator<Item = &'a OpenAlert> {
        self.0.values().filter(move |open| open.alert.rule == rule)
    }
}
