//! Finds the TLS libraries of processes, so that probes can be attached. A separate thread does
//! this, because programs can be large.

mod functions;
mod go;
mod maps;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use self::maps::Mapped;
use crate::kernel::{Function, Kernel};
use crate::probed::{FileId, ProbedFiles, Set};
use spanwise_capture_host::processes::environment_variable;

/// A process is examined when it starts, because it may end soon, and again after this time,
/// because it may load libraries later.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Minimum time between two examinations because of TLS handshakes. It doubles each time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);
const LOOK_AGAIN_AFTER_AT_MOST: Duration = Duration::from_secs(300);
/// Interval at which unused files with probes are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Maximum processes that wait to be examined.
const MAX_WAITING: usize = 16_384;
/// Maximum files that are known to have no TLS functions. Most executables have none.
const MAX_KNOWN: usize = 4096;

/// Number of places in this file that would be probed. For tests with damaged files.
pub fn tls_functions(file: &File) -> usize {
    functions::find(file).len()
}

/// The result of examining a process.
#[derive(Debug)]
enum Seen {
    /// A file with functions to probe.
    Found(Found),
    /// The process has opted out.
    OptedOut(u32),
}

/// A process with this environment variable set to `off` is left alone.
const SWITCH: &str = "SPANWISE_TLS";

fn opts_out(process: u32) -> bool {
    environment_variable(process, SWITCH).as_deref() == Some("off")
}

/// A file with functions to probe, and a process that uses it.
#[derive(Debug)]
struct Found {
    process: u32,
    file: FileId,
    /// Kept open, so that it is available after the process has ended.
    handle: File,
    /// The path in the process's view.
    path: PathBuf,
    functions: Vec<Function>,
}

/// Whether a file's name is that of a TLS library. Executables, which may contain one, are examined
/// as well.
fn may_be_library(path: &std::path::Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    ["libssl", "libgnutls", "libboringssl"].iter().any(|library| name.starts_with(library))
}

/// A process to examine.
#[derive(Debug, Clone, Copy)]
struct Asked {
    process: u32,
    /// The process uses TLS, so any mapped file may contain the library, such as an extension of an
    /// interpreter.
    speaks_tls: bool,
}

/// Examines processes until the channel closes.
fn look(asked: &Receiver<Asked>, seen: &Sender<Seen>, done: &AtomicU64) {
    let mut known: HashMap<FileId, Vec<Function>> = HashMap::new();
    while let Ok(Asked { process, speaks_tls }) = asked.recv() {
        for found in look_at(process, speaks_tls, &mut known) {
            if seen.send(found).is_err() {
                return;
            }
        }
        done.fetch_add(1, Ordering::Release);
    }
}

fn look_at(
    process: u32,
    speaks_tls: bool,
    known: &mut HashMap<FileId, Vec<Function>>,
) -> Vec<Seen> {
    let mut seen = Vec::new();
    let executable = std::fs::read_link(format!("/proc/{process}/exe")).ok();
    for Mapped { file, path } in maps::executed_files(process) {
        let is_known = known.get(&file).is_some_and(|functions| !functions.is_empty());
        let may_be = is_known || may_be_library(&path) || executable.as_ref() == Some(&path);
        if !speaks_tls && !may_be {
            continue;
        }
        // The path in the process's view, which may be in a container.
        let inside = path.strip_prefix("/").unwrap_or(&path);
        let inside = PathBuf::from(format!("/proc/{process}/root")).join(inside);
        if known.len() >= MAX_KNOWN {
            known.retain(|_, functions| !functions.is_empty());
        }
        if known.get(&file).is_some_and(Vec::is_empty) {
            continue;
        }
        let Ok(handle) = File::open(inside) else { continue };
        let functions = known.entry(file).or_insert_with(|| functions::find(&handle)).clone();
        if functions.is_empty() {
            continue;
        }
        let found = if opts_out(process) {
            Seen::OptedOut(process)
        } else {
            Seen::Found(Found { process, file, handle, path, functions })
        };
        seen.push(found);
    }
    seen
}

/// Attaches probes to the TLS libraries of processes, and detaches them.
pub struct Libraries {
    ask: Sender<Asked>,
    /// Number of requested and of completed examinations.
    asked: u64,
    done: Arc<AtomicU64>,
    seen: Receiver<Seen>,
    waiting: Vec<(Instant, u32)>,
    /// Processes examined because of TLS handshakes: the time, and how long to wait before the
    /// next.
    looked: HashMap<u32, (Instant, Duration)>,
    probed: ProbedFiles,
    swept: Instant,
    /// Processes that have opted out, and those of them that have ended since.
    opted_out: HashSet<u32>,
    gone: Vec<u32>,
    /// Files that the kernel refused. Each is logged once.
    refused: HashSet<FileId>,
    /// Processes that use a library and were not wanted.
    unwanted: HashSet<u32>,
}

impl Libraries {
    /// Examines all running processes.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start() -> std::io::Result<Self> {
        let (ask, asked) = channel();
        let (tell, seen) = channel();
        let done = Arc::new(AtomicU64::new(0));
        std::thread::Builder::new().name("libraries".to_owned()).spawn({
            let done = Arc::clone(&done);
            move || look(&asked, &tell, &done)
        })?;
        let mut libraries = Self {
            ask,
            asked: 0,
            done,
            seen,
            waiting: Vec::new(),
            looked: HashMap::new(),
            probed: ProbedFiles::start()?,
            swept: Instant::now(),
            opted_out: HashSet::new(),
            gone: Vec::new(),
            refused: HashSet::new(),
            unwanted: HashSet::new(),
        };
        libraries.look_at_all();
        Ok(libraries)
    }

    fn look_at_all(&mut self) {
        let running = std::fs::read_dir("/proc").into_iter().flatten();
        for entry in running.flatten() {
            if let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                self.ask(process, false);
            }
        }
    }

    fn ask(&mut self, process: u32, speaks_tls: bool) {
        let waiting = self.asked - self.looked_at();
        if waiting < MAX_WAITING as u64 && self.ask.send(Asked { process, speaks_tls }).is_ok() {
            self.asked += 1;
        }
    }

    /// A process executes a new program.
    pub fn started(&mut self, process: u32) {
        self.ended(process);
        if self.waiting.len() < MAX_WAITING {
            self.ask(process, false);
            self.waiting.push((Instant::now() + LOOK_AGAIN, process));
        }
    }

    /// A process was seen to start a TLS connection.
    pub fn speaks_tls(&mut self, process: u32) {
        let now = Instant::now();
        let pause = match self.looked.get(&process) {
            Some((at, pause)) if now.duration_since(*at) < *pause => return,
            Some((_, pause)) => (*pause * 2).min(LOOK_AGAIN_AFTER_AT_MOST),
            None => LOOK_AGAIN_AFTER,
        };
        if self.looked.len() >= MAX_WAITING {
            self.looked.retain(|_, (at, pause)| now.duration_since(*at) < *pause);
        }
        self.looked.insert(process, (now, pause));
        self.ask(process, true);
    }

    /// A process has ended, or executes another program.
    pub fn ended(&mut self, process: u32) {
        self.looked.remove(&process);
        self.unwanted.remove(&process);
        if self.opted_out.remove(&process) {
            self.gone.push(process);
        }
    }

    /// A process has a connection that is wanted.
    pub fn met(&mut self, process: u32) {
        if self.unwanted.remove(&process) {
            self.ask(process, false);
        }
    }

    /// Others may be wanted from now on.
    pub fn wanted_anew(&mut self) {
        self.unwanted.clear();
        self.looked.clear();
        self.look_at_all();
    }

    /// Sets and takes away probes as far as that is due, for processes that are `wanted`.
    pub fn tick(&mut self, kernel: &Kernel, mut wanted: impl FnMut(u32) -> bool) {
        let now = Instant::now();
        let (due, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now);
        self.waiting = waiting;
        let due: Vec<(Instant, u32)> = due;
        for (_, process) in due {
            self.ask(process, false);
        }
        while let Ok(seen) = self.seen.try_recv() {
            match seen {
                Seen::Found(found) if !wanted(found.process) => {
                    if self.unwanted.len() < MAX_WAITING {
                        self.unwanted.insert(found.process);
                    }
                }
                Seen::Found(found) => self.probe(kernel, found),
                Seen::OptedOut(process) => {
                    if self.opted_out.insert(process) {
                        kernel.ignore_tls(process, true);
                    }
                }
            }
        }
        for process in self.gone.drain(..) {
            kernel.ignore_tls(process, false);
        }
        if now - self.swept >= SWEEP_EVERY && self.probed.count() > 0 {
            self.swept = now;
            self.sweep(kernel);
        }
    }

    /// Detaches unused probes. A process that has ended may have forked children that were never
    /// reported. So all processes are examined once more before a file's probes are removed.
    fn sweep(&mut self, kernel: &Kernel) {
        if self.probed.sweep() {
            self.look_at_all();
        }
        if self.probed.count() == 0 {
            kernel.use_tls(false);
        }
    }

    /// Number of requested examinations.
    pub const fn asked(&self) -> u64 {
        self.asked
    }

    /// Number of completed examinations.
    pub fn looked_at(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Number of files with probes.
    pub fn count(&self) -> usize {
        self.probed.count()
    }

    fn probe(&mut self, kernel: &Kernel, found: Found) {
        let Found { process, file, handle, path, functions } = found;
        match self.probed.set(kernel, process, file, &handle, &functions) {
            Set::Now => {
                tracing::info!("reading what {} encrypts", path.display());
                kernel.use_tls(true);
            }
            Set::Before => {}
            Set::Later if self.waiting.len() < MAX_WAITING => {
                self.waiting.push((Instant::now() + LOOK_AGAIN, process));
            }
            Set::Later => {}
            Set::Refused(reason) => {
                if self.refused.insert(file) {
                    tracing::warn!("what {} encrypts stays unseen: {reason}", path.display());
                }
            }
        }
    }
}
