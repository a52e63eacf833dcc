//! Probes at what makes tasks, in files that processes share.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use libbpf_rs::Link;

use super::memory::{Image, inside};
use crate::kernel::Kernel;

/// How long probes stay in a file that no process uses any more: a server may only have
/// been started again.
const UNUSED_FOR: Duration = Duration::from_secs(60);

/// Places in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probes {
    /// By device and inode.
    file: (u64, u64),
    /// By which it can be reached from here while the process lives.
    path: PathBuf,
    offsets: Vec<usize>,
}

impl Probes {
    /// These places in the file of an image; `None` where it cannot be told from others.
    pub(super) fn new(process: u32, image: &Image, offsets: Vec<usize>) -> Option<Self> {
        let metadata = image.file.metadata().ok()?;
        let path = inside(process, &image.path);
        Some(Self { file: (metadata.dev(), metadata.ino()), path, offsets })
    }
}

struct InFile {
    links: Vec<Link>,
    processes: HashSet<u32>,
    unused_since: Option<Instant>,
}

/// The files that have probes.
pub(super) struct Probed {
    files: HashMap<(u64, u64), InFile>,
    /// The kernel makes whoever takes a probe away wait for all processors.
    take_away: Sender<Vec<Link>>,
}

impl Probed {
    /// # Errors
    /// Where the system refuses a thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let (take_away, unused) = channel();
        std::thread::Builder::new()
            .name("task probes".to_owned())
            .spawn(move || unused.into_iter().for_each(drop::<Vec<Link>>))?;
        Ok(Self { files: HashMap::new(), take_away })
    }

    /// A process uses a file that is to have these probes.
    pub(super) fn set(
        &mut self,
        kernel: &Kernel,
        process: u32,
        probes: &Probes,
    ) -> Result<(), String> {
        if let Some(known) = self.files.get_mut(&probes.file) {
            known.processes.insert(process);
            known.unused_since = None;
            return Ok(());
        }
        let links = kernel.probe_contexts(&probes.path, &probes.offsets)?;
        let processes = HashSet::from([process]);
        self.files.insert(probes.file, InFile { links, processes, unused_since: None });
        Ok(())
    }

    pub(super) fn ended(&mut self, process: u32) {
        for file in self.files.values_mut() {
            if file.processes.remove(&process) && file.processes.is_empty() {
                file.unused_since = Some(Instant::now());
            }
        }
    }

    /// Takes probes away that have not been used for long.
    pub(super) fn tick(&mut self) {
        let unused =
            |file: &InFile| file.unused_since.is_some_and(|since| since.elapsed() >= UNUSED_FOR);
        for (_, file) in self.files.extract_if(|_, file| unused(file)) {
            // Where the thread is gone, so is the agent.
            let _ = self.take_away.send(file.links);
        }
    }
}
