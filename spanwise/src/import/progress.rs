//! Progress and results of an import.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::batches::NamedBatch;
use crate::terminal::bytes;

/// Interval between two updates of the bar.
const EVERY: Duration = Duration::from_millis(100);
const BAR: u64 = 24;
/// Maximum reasons for rejected spans that are reported.
const MOST_REASONS: usize = 5;

/// The result for a file.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    spans: u64,
    rejected: u64,
    reasons: Vec<String>,
    other: u64,
    /// Number of records that could not be read.
    pub(super) broken: u64,
}

impl Outcome {
    /// That of a file which cannot be opened.
    pub(super) fn unreadable() -> Self {
        Self { broken: 1, ..Self::default() }
    }

    pub(super) fn add(&mut self, batch: &NamedBatch) {
        self.spans += batch.spans() as u64;
        self.rejected += batch.rejected;
        self.other += batch.other;
        let room = MOST_REASONS - self.reasons.len().min(MOST_REASONS);
        self.reasons.extend(batch.reasons.iter().take(room).cloned());
    }

    /// Whether every span of the file is stored.
    pub(super) const fn is_whole(&self) -> bool {
        self.broken == 0 && self.rejected == 0
    }

    /// A sentence about the result, and one for each problem.
    pub(super) fn summary(&self) -> String {
        let mut text = match self.spans {
            1 => "1 span is stored".to_owned(),
            spans => format!("{spans} spans are stored"),
        };
        if self.other > 0 {
            text +=
                &format!("; passed over: {} of logs, metrics or profiles, or empty", self.other);
        }
        if self.broken > 0 {
            text += &format!("; not read: {}", self.broken);
        }
        for reason in &self.reasons {
            text += &format!("\n  {reason}");
        }
        text
    }
}

/// A progress bar on a terminal; silent otherwise.
pub(super) struct Progress {
    name: String,
    size: Option<u64>,
    read: Arc<AtomicU64>,
    began: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    pub(super) fn new(name: &str, size: Option<u64>, read: Arc<AtomicU64>) -> Self {
        Self {
            name: name.to_owned(),
            size,
            read,
            began: Instant::now(),
            shown: None,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Redraws the bar, if the interval has passed.
    pub(super) fn show(&mut self, outcome: &Outcome) {
        if !self.terminal || self.shown.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let read = self.read.load(Ordering::Relaxed);
        let line = line(&self.name, self.size, read, outcome.spans, self.began.elapsed());
        let mut out = std::io::stderr().lock();
        // A failure to draw the bar does not stop the import.
        let _ = write!(out, "\r\x1b[2K{line}");
        let _ = out.flush();
    }

    /// Removes the bar, so that other text can be written.
    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[2K");
        }
    }
}

fn line(name: &str, size: Option<u64>, read: u64, spans: u64, elapsed: Duration) -> String {
    let rate = (read as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
    let share = match size {
        Some(size) if size > 0 => {
            let read = read.min(size);
            let full = usize::try_from(BAR * read / size).unwrap_or_default();
            let empty = usize::try_from(BAR).unwrap_or_default() - full;
            let (full, empty) = ("█".repeat(full), "░".repeat(empty));
            format!("{full}{empty} {:>3} %", 100 * read / size)
        }
        _ => bytes(read),
    };
    let unit = if spans == 1 { "span" } else { "spans" };
    format!("{name}  {share}  {spans} {unit}  {}/s", bytes(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_tells_how_far_it_is() {
        let text = line("f", Some(4 << 20), 2 << 20, 7, Duration::from_secs(1));
        assert_eq!(
            text,
            format!("f  {}{}  50 %  7 spans  2.0 MiB/s", "█".repeat(12), "░".repeat(12))
        );
        assert_eq!(
            line("-", None, 1024, 7, Duration::from_secs(1)),
            "-  1.0 KiB  7 spans  1.0 KiB/s"
        );
        assert!(line("f", Some(0), 10, 0, Duration::ZERO).contains("10 B"));
        assert!(line("f", Some(5), 10, 0, Duration::ZERO).contains("100 %"), "it grew meanwhile");
    }
}
