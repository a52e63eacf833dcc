//! `spanwise replay`: sends what native programs recorded; `spanwise native filter`.

mod source;

use std::fs::File;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use spanwise_ctf::{Spans, Trace, traces_below};
use spanwise_native::{Recording, Rule, rules, set_rules};

use crate::failure::Failure;
use crate::flags::{FilterFlags, ReplayFlags};
use crate::import;
use crate::otlp::{Endpoint, EndpointUrl, Signal};
use crate::terminal::{self, harmless};
use source::{Payload, Source};

/// How long to wait for an endpoint that is away or full.
const PATIENCE: Duration = Duration::from_secs(60);

/// Replays recordings.
///
/// # Errors
/// If nothing can be read or sent, and, at the end, if something could not be read.
pub(crate) fn run(flags: ReplayFlags) -> Result<(), Failure> {
    let speed = if flags.as_recorded { Some(1.0) } else { flags.speed };
    if speed.is_some_and(|speed| !(speed.is_finite() && speed > 0.0)) {
        return Err(Failure::Usage("--speed: give a factor greater than 0".to_owned()));
    }
    let (paths, traces) = open_traces(&flags.paths, flags.filter.as_deref())?;
    let recording = Recording::open(&paths).map_err(Failure::cannot)?;
    let mut source = Source::new(recording, traces, flags.filter, speed);
    if let Some(path) = &flags.checkpoint {
        if flags.otlp.is_none() && flags.file.is_none() {
            return Err(Failure::Usage(
                "--checkpoint is for --otlp and --file; a Spanwise server knows itself what it has"
                    .to_owned(),
            ));
        }
        source.go_on(checkpoint(path)?);
    }
    if let Some(url) = &flags.otlp {
        let url: EndpointUrl =
            url.parse().map_err(|error| Failure::Usage(format!("--otlp {error}")))?;
        let mut endpoint = Endpoint::new(url)?;
        while let Some(payload) = source.next_payload() {
            endpoint.send(payload.signal, &payload.bytes, PATIENCE)?;
            source.sent(&payload);
            remember(flags.checkpoint.as_deref(), &source, &payload)?;
        }
    } else if let Some(path) = &flags.file {
        let mut files = Files::new(path);
        while let Some(payload) = source.next_payload() {
            files.write(&payload)?;
            source.sent(&payload);
            remember(flags.checkpoint.as_deref(), &source, &payload)?;
        }
    } else {
        source = to_spanwise(source, &flags.server)?;
    }
    source.report()
}

/// Traces in the Common Trace Format at or below the paths, and the paths without any.
fn open_traces(
    paths: &[PathBuf],
    filter: Option<&str>,
) -> Result<(Vec<PathBuf>, Vec<Spans>), Failure> {
    let (mut rest, mut traces) = (Vec::new(), Vec::new());
    for path in paths {
        let is_metadata = path.file_name().is_some_and(|name| name == "metadata");
        let dir = if is_metadata { path.parent().unwrap_or(path) } else { path };
        let found = traces_below(dir)
            .map_err(|error| Failure::cannot(format_args!("{}: {error}", path.display())))?;
        for dir in &found {
            let trace = Trace::open(dir).map_err(Failure::cannot)?;
            traces.push(Spans::new(trace, filter.map(str::to_owned)));
        }
        if found.is_empty() || holds_rings(path) {
            rest.push(path.clone());
        }
    }
    Ok((rest, traces))
}

/// Whether a directory has recordings of Spanwise's library.
fn holds_rings(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .into_iter()
        .any(|entry| entry.path().extension().is_some_and(|extension| extension == "process"))
}

/// Spans as a stream of OTLP through `import`, so that nothing is stored twice.
fn to_spanwise(mut source: Source, server: &str) -> Result<Source, Failure> {
    source.only_spans();
    let Some(first) = source.next_payload() else { return Ok(source) };
    let shared = Arc::new(Mutex::new(source));
    let mut stream = Stream { source: Arc::clone(&shared), bytes: Vec::new(), at: 0 };
    stream.load(&first);
    import::stream(server, "replay", Box::new(stream))?;
    Arc::into_inner(shared)
        .map(|source| source.into_inner().unwrap_or_else(PoisonError::into_inner))
        .ok_or_else(|| Failure::cannot("the recording is still being read"))
}

struct Stream {
    source: Arc<Mutex<Source>>,
    bytes: Vec<u8>,
    at: usize,
}

impl Stream {
    fn load(&mut self, payload: &Payload) {
        self.at = 0;
        self.bytes.clear();
        frame(&mut self.bytes, &payload.bytes);
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.bytes.len() {
            let payload = {
                let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(payload) = source.next_payload() else { return Ok(0) };
                source.sent(&payload);
                payload
            };
            self.load(&payload);
        }
        let length = into.len().min(self.bytes.len() - self.at);
        into[..length].copy_from_slice(&self.bytes[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

/// A message after its length, as the OpenTelemetry Collector's file exporter writes it.
fn frame(to: &mut Vec<u8>, message: &[u8]) {
    to.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend_from_slice(message);
}

/// Files of `--file`.
struct Files {
    path: PathBuf,
    open: [Option<File>; 3],
}

impl Files {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), open: [None, None, None] }
    }

    fn write(&mut self, payload: &Payload) -> Result<(), Failure> {
        let mut bytes = Vec::with_capacity(payload.bytes.len() + 4);
        frame(&mut bytes, &payload.bytes);
        if self.path == Path::new("-") {
            if payload.signal == Signal::Traces {
                std::io::stdout().write_all(&bytes).context("standard output")?;
            }
            return Ok(());
        }
        let mut name = self.path.clone().into_os_string();
        let index = match payload.signal {
            Signal::Traces => 0,
            Signal::Logs => 1,
            Signal::Metrics => 2,
        };
        name.push(["", ".logs", ".metrics"][index]);
        let shown = harmless(&name.to_string_lossy());
        if self.open[index].is_none() {
            let file = File::options().create(true).append(true).open(&name);
            self.open[index] = Some(file.with_context(|| shown.clone())?);
        }
        if let Some(file) = &mut self.open[index] {
            file.write_all(&bytes).with_context(|| shown)?;
        }
        Ok(())
    }
}

/// Lines of `RING BLOCK`.
fn checkpoint(path: &Path) -> Result<Vec<(String, u64)>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::cannot(format_args!("--checkpoint: {error}"))),
    };
    let parse = |line: &str| {
        let (ring, block) = line.rsplit_once(' ')?;
        Some((ring.to_owned(), block.parse().ok()?))
    };
    text.lines()
        .map(|line| parse(line).ok_or_else(|| Failure::cannot("--checkpoint: is no checkpoint")))
        .collect()
}

/// After the last payload of a piece.
fn remember(path: Option<&Path>, source: &Source, payload: &Payload) -> Result<(), Failure> {
    let Some(path) = path.filter(|_| payload.last) else { return Ok(()) };
    let mut text = String::new();
    for (ring, block) in source.positions() {
        text += &format!("{ring} {block}\n");
    }
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, path))
        .context("--checkpoint")?;
    Ok(())
}

/// Prints or sets filters.
///
/// # Errors
/// If the directory has no control page, or a rule is wrong.
pub(crate) fn filter(flags: &FilterFlags) -> Result<(), Failure> {
    if flags.rules.is_empty() {
        let mut text = String::new();
        for rule in rules(&flags.dir).map_err(Failure::cannot)? {
            let verb = if rule.on { "on" } else { "off" };
            text += &format!("{verb} {} {}\n", rule.level, harmless(&rule.pattern));
        }
        if text.is_empty() {
            text.push_str("every call site records\n");
        }
        return terminal::print(&text);
    }
    let parsed = flags.rules.iter().map(|text| rule(text)).collect::<Result<Vec<_>, _>>()?;
    let report = set_rules(&flags.dir, &parsed).map_err(Failure::cannot)?;
    eprintln!(
        "{} call sites record, {} do not, in {} processes; programs that start later follow the \
         same rules",
        report.on, report.off, report.processes
    );
    Ok(())
}

fn rule(text: &str) -> Result<Rule, Failure> {
    let wrong = || {
        Failure::Usage(format!(
            "{text:?} is no rule: write on, off, on:PATTERN, off:PATTERN or level:LEVEL[:PATTERN], \
             with LEVEL trace, debug, info, warn, error or fatal"
        ))
    };
    let (verb, rest) = text.split_once(':').unwrap_or((text, "*"));
    let (on, level, pattern) = match verb {
        "on" => (true, 0, rest),
        "off" => (false, 0, rest),
        "level" => {
            let (level, pattern) = rest.split_once(':').unwrap_or((rest, "*"));
            let names = ["trace", "debug", "info", "warn", "error", "fatal"];
            let at = names.iter().position(|name| *name == level).ok_or_else(wrong)?;
            // Everything below the level is off.
            (false, u8::try_from(1 + 4 * at).unwrap_or(u8::MAX), pattern)
        }
        _ => return Err(wrong()),
    };
    if pattern.is_empty() || (verb == "level" && level == 1) {
        return Ok(Rule { on: true, level: 0, pattern: pattern.to_owned() });
    }
    Ok(Rule { on, level, pattern: pattern.to_owned() })
}
