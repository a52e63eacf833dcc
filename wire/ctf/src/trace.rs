//! A trace: a directory with metadata and stream files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::decode::Value;
use crate::metadata::{EventClass, Metadata, parse_metadata};
use crate::stream::Stream;

const METADATA_MAX_BYTES: u64 = 64 << 20;
/// Directories of directories of traces.
const BELOW_MAX: usize = 8;
const TRACES_MAX: usize = 10_000;

/// An event of a trace.
#[derive(Debug)]
pub struct Event<'a> {
    /// What kind of event it is.
    pub class: &'a EventClass,
    /// When it happened.
    pub time_ns: u64,
    /// Which of the trace's streams it is in.
    pub stream: usize,
    /// The processor on which it happened, if its packet says so.
    pub processor: Option<u64>,
    /// Whether events between it and the one before it in its stream are missing.
    pub after_gap: bool,
    /// Whether its stream holds what a kernel's scheduler does.
    pub(crate) has_switches: bool,
    /// Whether, at this time, events of a scheduler are missing in any stream.
    pub(crate) is_in_gap: bool,
    /// Fields of its stream's context.
    pub common: Vec<(&'a str, Value<'a>)>,
    /// Fields of its own context.
    pub context: Vec<(&'a str, Value<'a>)>,
    /// Its own fields.
    pub fields: Vec<(&'a str, Value<'a>)>,
}

/// Streams with the description of their events.
pub struct Trace {
    /// The directory.
    pub dir: PathBuf,
    metadata: Metadata,
    streams: Vec<Stream>,
    problems: Vec<String>,
    bytes: u64,
}

/// Whether a directory is a trace.
pub fn is_trace(dir: &Path) -> bool {
    dir.join("metadata").is_file()
}

/// Directories with traces at or below a path, in the order of their names.
///
/// # Errors
/// If a directory cannot be read.
pub fn traces_below(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    below(path, 0, &mut found)?;
    Ok(found)
}

fn below(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if is_trace(dir) {
        found.push(dir.to_owned());
        return Ok(());
    }
    if depth == BELOW_MAX || found.len() >= TRACES_MAX || !dir.is_dir() {
        return Ok(());
    }
    let mut dirs = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // No symbolic links: they may lead in circles.
        if entry.file_type()?.is_dir() {
            dirs.push(entry.path());
        }
    }
    dirs.sort();
    dirs.iter().try_for_each(|dir| below(dir, depth + 1, found))
}

impl Trace {
    /// Opens the trace in a directory.
    ///
    /// # Errors
    /// If its metadata cannot be read.
    pub fn open(dir: &Path) -> Result<Self, String> {
        let named = |what: &dyn std::fmt::Display| format!("{}: {what}", dir.display());
        let mut bytes = Vec::new();
        File::open(dir.join("metadata"))
            .and_then(|file| file.take(METADATA_MAX_BYTES).read_to_end(&mut bytes))
            .map_err(|error| named(&format_args!("metadata: {error}")))?;
        if bytes.len() as u64 == METADATA_MAX_BYTES {
            return Err(named(&"the metadata has more than 64 MiB"));
        }
        let metadata = parse_metadata(&bytes).map_err(|problem| named(&problem))?;
        let mut files = Vec::new();
        let entries = std::fs::read_dir(dir).map_err(|error| named(&error))?;
        for entry in entries {
            let entry = entry.map_err(|error| named(&error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Every other file that is not hidden is a stream.
            if entry.path().is_file() && name != "metadata" && !name.starts_with('.') {
                files.push(name);
            }
        }
        files.sort();
        let (mut streams, mut problems) = (Vec::new(), Vec::new());
        for name in files {
            let opened = File::open(dir.join(&name));
            match opened.and_then(|file| Stream::new(name.clone(), file)) {
                Ok(stream) => streams.push(stream),
                Err(error) => problems.push(format!("{}: {error}", dir.join(name).display())),
            }
        }
        let bytes = streams.iter().map(Stream::bytes).sum();
        Ok(Self { dir: dir.to_owned(), metadata, streams, problems, bytes })
    }

    /// Stands for another while that one is read.
    pub(crate) fn empty() -> Self {
        Self {
            dir: PathBuf::new(),
            metadata: Metadata::default(),
            streams: Vec::new(),
            problems: Vec::new(),
            bytes: 0,
        }
    }

    /// Facts about the trace, such as `hostname`.
    pub const fn environment(&self) -> &BTreeMap<String, String> {
        &self.metadata.environment
    }

    /// The next event of any stream, in the order of time; `None` at the end. In its place is
    /// nothing if it is damaged, which `problems` then names.
    pub fn step(&mut self) -> Option<Option<Event<'_>>> {
        let metadata = &self.metadata;
        let streams = self.streams.iter_mut().enumerate();
        let (_, index) =
            streams.filter_map(|(index, stream)| Some((stream.peek(metadata)?, index))).min()?;
        let is_in_gap =
            self.streams.iter().any(|stream| stream.is_in_gap() && stream.has_switches(metadata));
        let stream = &mut self.streams[index];
        let has_switches = stream.has_switches(metadata);
        Some(stream.next(metadata).map(|decoded| {
            let [common, context, fields] = decoded.parts;
            Event {
                class: decoded.class,
                time_ns: decoded.time_ns,
                stream: index,
                processor: decoded.processor,
                after_gap: decoded.after_gap,
                has_switches,
                is_in_gap,
                common,
                context,
                fields,
            }
        }))
    }

    /// Of each stream with a kernel's scheduler: its number, its processor, and until when nothing
    /// is missing after its last event.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (usize, Option<u64>, Option<u64>)> {
        let streams = self.streams.iter().enumerate();
        streams
            .filter(|(_, stream)| stream.has_switches(&self.metadata))
            .map(|(index, stream)| (index, stream.processor(), stream.end_ns()))
    }

    /// Bytes of all streams.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that are still to be read.
    pub fn bytes_left(&self) -> u64 {
        self.streams.iter().map(Stream::bytes).sum()
    }

    /// Events that the tracer discarded, and packets that are missing.
    pub fn lost(&self) -> (u64, u64) {
        let sum = |sum: (u64, u64), stream: &Stream| {
            let counts = stream.counts;
            (sum.0.saturating_add(counts.discarded), sum.1.saturating_add(counts.packets_lost))
        };
        self.streams.iter().fold((0, 0), sum)
    }

    /// What could not be read, by file.
    pub fn problems(&self) -> Vec<String> {
        let of_streams = self.streams.iter().filter_map(|stream| {
            let problem = stream.problem.as_ref()?;
            Some(format!("{}: {problem}", self.dir.join(&stream.name).display()))
        });
        self.problems.iter().cloned().chain(of_streams).collect()
    }
}
