//! Recordings of one or more directories, piece by piece and roughly in the order of time.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::detached::DetachedSpans;
use crate::process::{FILE_MAX_BYTES, Process};
use crate::records::{Counts, LogRecord, MetricPoint, Span};
use crate::ring::Ring;

/// Spans, logs and metrics of one block.
#[derive(Debug, Default)]
pub struct Piece {
    /// Index of the process in `Recording::processes`.
    pub process: usize,
    /// Spans in the order of their ends.
    pub spans: Vec<Span>,
    /// Log records.
    pub logs: Vec<LogRecord>,
    /// Points of metrics.
    pub metrics: Vec<MetricPoint>,
    /// Attributes, events and links of the spans.
    pub extras: Vec<u64>,
}

struct Reading {
    ring: Ring,
    process: usize,
    time_ns: u64,
    done: bool,
}

/// What programs recorded.
#[derive(Default)]
pub struct Recording {
    /// The processes.
    pub processes: Vec<Process>,
    readings: Vec<Reading>,
    /// Of each process: its records are in any of its rings.
    detached: Vec<DetachedSpans>,
    problems: Vec<String>,
    skipped: HashMap<String, u64>,
}

impl Recording {
    /// Finds the recordings in directories, or single `.process` or `.ring` files.
    ///
    /// # Errors
    /// If a path cannot be read at all.
    pub fn open(paths: &[PathBuf]) -> Result<Self, String> {
        let mut recording = Self::default();
        for path in paths {
            recording
                .add(path)
                .map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
        }
        Ok(recording)
    }

    fn add(&mut self, path: &Path) -> std::io::Result<()> {
        let dir = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
        let only = (!path.is_dir()).then(|| stem(path));
        std::fs::metadata(path)?;
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            files.push(entry?.path());
        }
        files.sort();
        let mut segments: HashMap<String, Vec<(u64, PathBuf)>> = HashMap::new();
        for file in files.iter().filter(|file| extension(file) == "segment") {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if let Some((ring, number)) = name.rsplit_once('.')
                && let Ok(number) = number.parse()
            {
                segments.entry(ring.to_owned()).or_default().push((number, file.clone()));
            }
        }
        let mut known = HashMap::new();
        for file in files.iter().filter(|file| extension(file) == "process") {
            let name = stem(file);
            if only.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            match read_bounded(file)
                .map_err(|error| error.to_string())
                .and_then(|b| Process::parse(&b))
            {
                Ok(process) => {
                    known.insert(name, self.processes.len());
                    self.processes.push(process);
                    self.detached.push(DetachedSpans::unbounded());
                }
                Err(problem) => self.problems.push(format!("{} {problem}", file.display())),
            }
        }
        for file in files.iter().filter(|file| extension(file) == "ring") {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if only.as_ref().is_some_and(|only| *only != stem(file)) {
                continue;
            }
            let Some(process) = known.get(&stem(file)) else {
                self.problems.push(format!("{} has no readable .process file", file.display()));
                continue;
            };
            let ring_name = name.trim_end_matches(".ring").to_owned();
            let mut segments = segments.remove(&ring_name).unwrap_or_default();
            segments.sort();
            match File::open(file)
                .map_err(|error| error.to_string())
                .and_then(|open| Ring::open(dir, name, open, segments))
            {
                Ok(ring) => {
                    self.readings.push(Reading { ring, process: *process, time_ns: 0, done: false })
                }
                Err(problem) => self.problems.push(format!("{} {problem}", file.display())),
            }
        }
        Ok(())
    }

    /// Gives out nothing of blocks before these, which `positions` named.
    pub fn go_on(&mut self, positions: impl IntoIterator<Item = (String, u64)>) {
        self.skipped = positions.into_iter().collect();
    }

    /// The next piece; `None` at the end.
    pub fn next_piece(&mut self) -> Option<Piece> {
        loop {
            let next = self
                .readings
                .iter_mut()
                .filter(|reading| !reading.done)
                .min_by_key(|reading| reading.time_ns);
            let Some(reading) = next else { return self.detached_piece() };
            let before = self.skipped.get(&reading.ring.name).copied().unwrap_or(0);
            let skipped = reading.ring.position(true) < before;
            let Some(decoded) = reading.ring.step(&self.processes[reading.process]) else {
                reading.done = true;
                continue;
            };
            if let Some(span) = decoded.spans.last() {
                reading.time_ns = span.end_ns;
            }
            for detached in decoded.detached {
                self.detached[reading.process].add(detached);
            }
            if skipped {
                continue;
            }
            return Some(Piece {
                process: reading.process,
                spans: decoded.spans,
                logs: decoded.logs,
                metrics: decoded.metrics,
                extras: decoded.extras,
            });
        }
    }

    fn detached_piece(&mut self) -> Option<Piece> {
        let process = self.detached.iter().position(|spans| !spans.is_empty())?;
        Some(self.detached[process].piece(process, |_| true))
    }

    /// Bytes that are still to be read.
    pub fn bytes(&self) -> u64 {
        self.readings.iter().filter(|r| !r.done).map(|r| r.ring.bytes()).sum()
    }

    /// Where each ring is read: its file's name, and a block.
    pub fn positions(&self) -> Vec<(String, u64)> {
        let position = |reading: &Reading| {
            let stopped = self.processes[reading.process].stopped;
            (reading.ring.name.clone(), reading.ring.position(stopped))
        };
        self.readings.iter().map(position).collect()
    }

    /// What happened to each ring's spans.
    pub fn counts(&self) -> Vec<(&Ring, Counts)> {
        self.readings.iter().map(|r| (&r.ring, r.ring.counts())).collect()
    }

    /// Attributes of detached spans that came after their end in the same thread, or of spans that
    /// are not in the recording.
    pub fn late_extras(&self) -> u64 {
        self.detached.iter().map(|spans| spans.late_extras).sum()
    }

    /// What could not be read, by name.
    pub fn problems(&self) -> Vec<String> {
        let rings = self.readings.iter().flat_map(|reading| {
            reading.ring.problems.iter().map(|problem| format!("{}: {problem}", reading.ring.name))
        });
        self.problems.iter().cloned().chain(rings).collect()
    }
}

/// `PID-START` of any of a process's files.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

pub(crate) fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
