//! TLS libraries that processes use: found in what they execute from, so that
//! probes can be set at what they are given to encrypt. The looking is done on
//! a thread of its own, for programs can be large.

mod functions;
mod go;
mod maps;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use libbpf_rs::Link;

pub(crate) use self::functions::Function;
use self::maps::{FileId, Mapped};
use crate::kernel::Kernel;

/// A program is looked at when its start is heard of, for it may end soon, and
/// again after this long, for it may load libraries late.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A process is not looked at more often than this for handshakes seen.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Files whose last known user has ended are kept this long: another one will
/// often come.
const KEEP_FOR: Duration = Duration::from_secs(60);
/// Most processes that wait to be looked at.
const MAX_WAITING: usize = 16_384;
/// Files known to have no TLS functions: most executables of a machine.
const MAX_KNOWN: usize = 4096;

/// What came of looking at a process.
#[derive(Debug)]
enum Seen {
    /// A file with functions to probe.
    Found(Found),
    /// It is not to be looked into.
    OptedOut(u32),
}

/// A process that has this in its environment is left alone.
const OPT_OUT: &[u8] = b"SPANWISE_TLS=off";

fn opts_out(process: u32) -> bool {
    std::fs::read(format!("/proc/{process}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|v| v == OPT_OUT))
}

/// A file with functions to probe, and a process that uses it.
#[derive(Debug)]
struct Found {
    process: u32,
    file: FileId,
    /// Held open, so that it can be reached when the process has ended.
    handle: File,
    /// As the process names it.
    path: PathBuf,
    functions: Vec<Function>,
}

/// Whether a file may be a TLS library by its name. Programs that carry one
/// are looked into as well.
fn may_be_library(path: &std::path::Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    ["libssl", "libgnutls", "libboringssl"].iter().any(|library| name.starts_with(library))
}

/// Looks at processes until nobody asks any more.
fn look(asked: &Receiver<u32>, seen: &Sender<Seen>) {
    let mut known: HashMap<FileId, Vec<Function>> = HashMap::new();
    while let Ok(process) = asked.recv() {
        let executable = std::fs::read_link(format!("/proc/{process}/exe")).ok();
        for Mapped { file, path } in maps::executed_files(process) {
            if !may_be_library(&path) && executable.as_ref() != Some(&path) {
                continue;
            }
            // As the process sees it, which may be in a container.
            let inside = path.strip_prefix("/").unwrap_or(&path);
            let inside = PathBuf::from(format!("/proc/{process}/root")).join(inside);
            if known.len() >= MAX_KNOWN {
                known.clear();
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
            if seen.send(found).is_err() {
                return;
            }
        }
    }
}

/// A file that has probes.
struct Probed {
    _links: Vec<Link>,
    /// Processes known to use it.
    processes: HashSet<u32>,
    unused_since: Option<Instant>,
}

/// Sets probes in the TLS libraries of processes, and takes them away.
pub(crate) struct Libraries {
    ask: Sender<u32>,
    seen: Receiver<Seen>,
    waiting: Vec<(Instant, u32)>,
    looked: HashMap<u32, Instant>,
    probed: HashMap<FileId, Probed>,
    /// Processes that are left alone, and those of them that have ended since.
    opted_out: HashSet<u32>,
    gone: Vec<u32>,
    /// Files that the kernel refused, so that they are not tried again.
    refused: HashSet<FileId>,
}

impl Libraries {
    /// Looks at all processes that run now.
    ///
    /// # Errors
    /// Where the system refuses a thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (ask, asked) = channel();
        let (tell, seen) = channel();
        std::thread::Builder::new()
            .name("libraries".to_owned())
            .spawn(move || look(&asked, &tell))?;
        let running = std::fs::read_dir("/proc")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        for process in running {
            let _ = ask.send(process);
        }
        Ok(Self {
            ask,
            seen,
            waiting: Vec::new(),
            looked: HashMap::new(),
            probed: HashMap::new(),
            opted_out: HashSet::new(),
            gone: Vec::new(),
            refused: HashSet::new(),
        })
    }

    /// A process runs a new program.
    pub(crate) fn started(&mut self, process: u32) {
        self.ended(process);
        if self.waiting.len() < MAX_WAITING {
            let _ = self.ask.send(process);
            self.waiting.push((Instant::now() + LOOK_AGAIN, process));
        }
    }

    /// A process was seen to begin a TLS connection.
    pub(crate) fn speaks_tls(&mut self, process: u32) {
        let now = Instant::now();
        let recent = |at: &Instant| now.duration_since(*at) < LOOK_AGAIN_AFTER;
        if self.looked.get(&process).is_some_and(recent)
            || self.probed.values().any(|probed| probed.processes.contains(&process))
        {
            return;
        }
        if self.looked.len() >= MAX_WAITING {
            self.looked.retain(|_, at| recent(at));
        }
        self.looked.insert(process, now);
        let _ = self.ask.send(process);
    }

    /// A process has ended, or runs another program.
    pub(crate) fn ended(&mut self, process: u32) {
        self.looked.remove(&process);
        if self.opted_out.remove(&process) {
            self.gone.push(process);
        }
        for probed in self.probed.values_mut() {
            if probed.processes.remove(&process) && probed.processes.is_empty() {
                probed.unused_since = Some(Instant::now());
            }
        }
    }

    /// Sets and takes away probes as far as that is due.
    pub(crate) fn tick(&mut self, kernel: &Kernel) {
        let now = Instant::now();
        self.waiting.retain(|(at, process)| {
            let due = *at <= now;
            if due {
                let _ = self.ask.send(*process);
            }
            !due
        });
        while let Ok(seen) = self.seen.try_recv() {
            match seen {
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
        let before = self.probed.len();
        self.probed.retain(|_, probed| {
            let unused = probed.unused_since.is_some_and(|since| now - since > KEEP_FOR);
            // A child that was forked uses it without anybody having said so.
            !unused || probed.processes.iter().any(|process| is_alive(*process))
        });
        if before > 0 && self.probed.is_empty() {
            kernel.use_tls(false);
        }
    }

    /// Files that have probes now.
    pub(crate) fn count(&self) -> usize {
        self.probed.len()
    }

    fn probe(&mut self, kernel: &Kernel, found: Found) {
        if self.refused.contains(&found.file) {
            return;
        }
        if let Some(probed) = self.probed.get_mut(&found.file) {
            probed.processes.insert(found.process);
            probed.unused_since = None;
            return;
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", found.handle.as_raw_fd()));
        let links = match kernel.probe_tls(&found.functions, &path) {
            Ok(links) => links,
            Err(reason) => {
                tracing::warn!("what {} encrypts stays unseen: {reason}", found.path.display());
                self.refused.insert(found.file);
                return;
            }
        };
        tracing::info!("reading what {} encrypts", found.path.display());
        kernel.use_tls(true);
        let processes = HashSet::from([found.process]);
        let probed = Probed { _links: links, processes, unused_since: None };
        self.probed.insert(found.file, probed);
    }
}

fn is_alive(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}
