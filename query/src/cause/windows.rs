//! Which ranges of time are compared.

use std::time::{Duration, Instant};

use spanwise_analyze::Names;
use spanwise_analyze::cause::{CauseRange, CauseVerdict, Suspect};
use spanwise_model::schema::column;
use spanwise_store::{Counting, SqlLimits, TimeRange};

use super::read::Rows;
use crate::{Queries, QueryError, now_unix_nano, on_blocking_thread};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
/// How far back is looked where no range is given.
const BACK: i64 = 4 * 3600 * SECOND;
/// How many steps of time are searched for an unusual range, and of how many before it some are
/// usual ones.
const RECENT: usize = 20;
const USUAL: usize = 16;
/// Parts of a range of which each is read.
const PARTS: i64 = 6;
/// Spans of a window, and of a part.
const SPANS: usize = 8_000;
/// Windows with fewer spans say nothing, so steps are chosen that have more.
const WANTED_SPANS: u64 = 400;
const LEAST_SPANS: usize = 20;
/// How far a window's evidence must be from what is usual.
const CLEAR: f64 = 5.0;
/// The shortest window.
const LEAST: i64 = 5 * SECOND;
/// The most time that reading takes.
const TIME: Duration = Duration::from_secs(15);
const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(10), rows: 500_000, memory_bytes: 512 << 20 };

/// A window of time with its spans.
pub(super) struct Window {
    pub(super) time: TimeRange,
    pub(super) rows: Rows,
    pub(super) range: CauseRange,
}

/// What is compared with what.
pub(super) struct Compared {
    /// The range that is to be explained.
    pub(super) asked: Window,
    /// Usual ones, by time.
    pub(super) usual: Vec<Window>,
    pub(super) names: Names,
    /// The range was found, not given.
    pub(super) found: bool,
    pub(super) warnings: Vec<String>,
}

/// Reads windows, and stops when its time is over.
pub(super) struct Reader<'a> {
    queries: &'a Queries,
    service: Option<&'a str>,
    names: Names,
    began: Instant,
    left_out: usize,
}

const fn range(from_unix_nano: i64, to_unix_nano: i64) -> TimeRange {
    TimeRange { from_unix_nano, to_unix_nano }
}

const fn length(time: TimeRange) -> i64 {
    time.to_unix_nano.saturating_sub(time.from_unix_nano)
}

impl<'a> Reader<'a> {
    pub(super) fn new(queries: &'a Queries, service: Option<&'a str>) -> Self {
        let names = Names::default();
        Self { queries, service, names, began: Instant::now(), left_out: 0 }
    }

    /// The window's newest spans; `None` when the time is over.
    async fn rows(&mut self, time: TimeRange) -> Result<Option<Rows>, QueryError> {
        if self.began.elapsed() >= TIME {
            self.left_out += 1;
            return Ok(None);
        }
        let names = std::mem::take(&mut self.names);
        let (rows, names) = self.queries.cause_rows(names, time, SPANS, self.service).await?;
        self.names = names;
        Ok(Some(rows))
    }

    async fn window(&mut self, time: TimeRange) -> Result<Option<Window>, QueryError> {
        let Some(rows) = self.rows(time).await? else { return Ok(None) };
        if rows.spans.len() < LEAST_SPANS {
            return Ok(None);
        }
        Ok(Some(Window { time, range: CauseRange::of(&rows.spans), rows }))
    }

    /// Compares the range that was given with windows of its length before it.
    pub(super) async fn given(mut self, time: TimeRange) -> Result<Compared, QueryError> {
        // What is still to come is not part of it.
        let to = time.to_unix_nano.min(now_unix_nano());
        let time = range(time.from_unix_nano, to.max(time.from_unix_nano.saturating_add(1)));
        let part = (length(time) / PARTS).max(1);
        let mut rows = Rows::default();
        for number in 0..PARTS {
            let from = time.from_unix_nano.saturating_add(number * part);
            let to =
                if number + 1 == PARTS { time.to_unix_nano } else { from.saturating_add(part) };
            if let Some(part) = self.rows(range(from, to)).await? {
                rows.extend(&part);
            }
        }
        let mut warnings = Vec::new();
        let mut usual = Vec::new();
        let oldest = self.queries.store.status().oldest_unix_nano;
        let before = match oldest {
            0 => length(time).saturating_mul(USUAL as i64),
            oldest => time.from_unix_nano.saturating_sub(oldest),
        };
        // Where little is stored before it, windows are shorter.
        let step = length(time).min(before / 6);
        if step >= LEAST {
            for number in 1..=USUAL as i64 {
                let to = time.from_unix_nano.saturating_sub((number - 1).saturating_mul(step));
                let from = to.saturating_sub(step);
                if oldest != 0 && to <= oldest {
                    break;
                }
                usual.extend(self.window(range(from, to)).await?);
            }
        }
        usual.reverse();
        if rows.spans.is_empty() {
            warnings.push(match self.service {
                Some(_) => "no span of this service started in this time".to_owned(),
                None => "no span started in this time".to_owned(),
            });
        } else if usual.len() < 3 {
            warnings.push(
                "too few spans are stored from before this time to know what is usual: choose a \
                 range that starts later"
                    .to_owned(),
            );
        }
        let asked = Window { time, range: CauseRange::of(&rows.spans), rows };
        Ok(self.compared(asked, usual, false, warnings))
    }

    /// Finds the latest range that is unusual against the hours before.
    pub(super) async fn found(mut self) -> Result<Compared, QueryError> {
        // What started just now may not be put together yet.
        let now = now_unix_nano().saturating_sub(5 * SECOND);
        let (step, start) = self.step(now).await?;
        let recent_start = now.saturating_sub(step * RECENT as i64).max(start);
        let mut windows = Vec::new();
        // Windows before the recent ones, spread over the hours.
        let before = recent_start.saturating_sub(start);
        let count = (before / step).min(USUAL as i64);
        for number in 0..count {
            let from = start.saturating_add(before / count * number);
            windows.extend(self.window(range(from, from + step)).await?);
        }
        let first_recent = windows.len();
        let mut from = recent_start;
        while from < now {
            windows.extend(self.window(range(from, from + step)).await?);
            from += step;
        }
        let names = std::mem::take(&mut self.names);
        let (windows, unusual, names) = on_blocking_thread("comparing ranges of time", move || {
            let unusual = unusual(&windows, first_recent, &names);
            (windows, unusual, names)
        })
        .await?;
        self.names = names;
        let run = latest_run(&unusual);
        let mut warnings = Vec::new();
        let found = run.is_some();
        // Where nothing is unusual, the last windows are compared all the same.
        let run = run.unwrap_or(windows.len().saturating_sub(RECENT / 4)..windows.len());
        let (mut asked, mut usual) = (None::<Window>, Vec::new());
        for (number, window) in windows.into_iter().enumerate() {
            if run.contains(&number) {
                match &mut asked {
                    Some(asked) => {
                        asked.time.to_unix_nano = window.time.to_unix_nano;
                        asked.rows.extend(&window.rows);
                    }
                    None => asked = Some(window),
                }
            } else if unusual[number].is_none() {
                usual.push(window);
            }
        }
        let mut asked = asked.unwrap_or_else(|| Window {
            time: range(recent_start, now),
            rows: Rows::default(),
            range: CauseRange::default(),
        });
        asked.time.to_unix_nano = asked.time.to_unix_nano.min(now);
        asked.range = CauseRange::of(&asked.rows.spans);
        if asked.rows.spans.is_empty() {
            warnings.push("no span started in the last minutes".to_owned());
        } else if usual.len() < 3 {
            warnings.push(
                "too few spans are stored to know what is usual: ask again in some minutes"
                    .to_owned(),
            );
        }
        Ok(self.compared(asked, usual, found, warnings))
    }

    /// The length of windows, so that each has spans enough, and how far back there are spans.
    async fn step(&self, now: i64) -> Result<(i64, i64), QueryError> {
        let counting = Counting {
            columns: vec![column::SERVICE],
            time: range(now.saturating_sub(BACK), now),
            step_nano: MINUTE,
            only_presence: false,
        };
        let counts = self.queries.store.count_rows(&counting, LIMITS).await?;
        let mut minutes = vec![0; (BACK / MINUTE) as usize];
        for count in counts {
            if self
                .service
                .is_none_or(|service| count.words.first().is_some_and(|it| it == service))
            {
                for (sum, spans) in minutes.iter_mut().zip(&count.intervals) {
                    *sum += spans;
                }
            }
        }
        let Some(first) = minutes.iter().position(|spans| *spans > 0) else {
            return Ok((MINUTE, now.saturating_sub(5 * MINUTE)));
        };
        let held = &minutes[first..];
        let rate = held.iter().sum::<u64>() / held.len() as u64;
        let (wanted, most) = (WANTED_SPANS / rate.max(1) + 1, 10);
        // Where there is little time, windows are shorter than a minute.
        let shortest = (held.len() as i64 * MINUTE / 24).clamp(LEAST, MINUTE);
        let step = (wanted.min(most).cast_signed() * MINUTE).min(MINUTE.max(shortest * 8));
        let step = if wanted <= 1 { shortest } else { step };
        let start = now.saturating_sub(BACK).saturating_add(first as i64 * MINUTE);
        Ok((step, start))
    }

    fn compared(
        self,
        asked: Window,
        usual: Vec<Window>,
        found: bool,
        mut warnings: Vec<String>,
    ) -> Compared {
        if self.left_out > 0 {
            warnings.push(format!(
                "reading stopped after {} s: {} parts of the time were left out; choose a shorter \
                 range, or a service",
                TIME.as_secs(),
                self.left_out
            ));
        }
        // Of usual ranges a part is as good as the whole.
        if asked.rows.cut {
            warnings.push(format!(
                "this time has more spans than are compared: {} were, the newest of each of its \
                 parts",
                asked.rows.spans.len()
            ));
        }
        Compared { asked, usual, names: self.names, found, warnings }
    }
}

/// Of each window who is suspected in it, compared with all others. Only recent ones are looked at.
/// Short windows show less than the range that they make up, so less is asked of them.
fn unusual(windows: &[Window], first_recent: usize, names: &Names) -> Vec<Option<String>> {
    let suspected = |number: usize| {
        if number < first_recent {
            return None;
        }
        let others = windows.iter().enumerate().filter(|(other, _)| *other != number);
        let others = others.map(|(_, window)| &window.range);
        let verdict = CauseVerdict::of(&windows[number].range, others, names);
        let clear = |suspect: &Suspect| {
            suspect.evidence.iter().any(|evidence| evidence.score().abs() >= CLEAR)
        };
        let first = verdict.suspects.into_iter().find(clear);
        first.map(|suspect| suspect.service)
    };
    (0..windows.len()).map(suspected).collect()
}

/// The latest two or more windows that are unusual; a single usual one between them belongs to
/// them.
fn latest_run(unusual: &[Option<String>]) -> Option<std::ops::Range<usize>> {
    let mut end = unusual.len();
    loop {
        let last = unusual[..end].iter().rposition(Option::is_some)?;
        let mut first = last;
        let mut count = 1;
        for before in (0..last).rev() {
            if unusual[before].is_some() {
                (first, count) = (before, count + 1);
            } else if first > before + 1 {
                break;
            }
        }
        // The newest window may be the first of several.
        if count > 1 || last + 1 == unusual.len() {
            return Some(first..last + 1);
        }
        end = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_run_of_unusual_windows() {
        let run = |text: &str| {
            let unusual: Vec<Option<String>> =
                text.chars().map(|mark| (mark == 'x').then(String::new)).collect();
            latest_run(&unusual)
        };
        assert_eq!(run("....xxx.."), Some(4..7));
        assert_eq!(run("....x.xx.."), Some(4..8));
        assert_eq!(run("xx....x..."), Some(0..2));
        assert_eq!(run("xx..x..xx"), Some(7..9));
        assert_eq!(run("...x"), Some(3..4));
        assert_eq!(run("..x..."), None);
        assert_eq!(run("......"), None);
        assert_eq!(run(""), None);
    }
}
