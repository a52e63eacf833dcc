//! Files that have probes, and who uses them. Probes are set in a file for all processes
//! that use it, and taken away when none is left.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use libbpf_rs::Link;

use crate::kernel::{Function, Kernel};

/// No machine's instructions are longer.
const INSTRUCTION_BYTES: usize = 16;

/// A file, wherever it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    /// Major and minor number of its device.
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
}

impl FileId {
    /// Of an open file.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let device = metadata.dev();
        let device = (rustix::fs::major(device), rustix::fs::minor(device));
        Ok(Self { device, inode: metadata.ino() })
    }
}

/// A file that has probes.
struct Probed {
    links: Vec<Link>,
    /// Processes known to use it; some may have ended since.
    processes: HashSet<u32>,
    /// None of them lived at the last sweep.
    doubted: bool,
}

/// What came of setting probes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// They are set now.
    Now,
    /// They were set before.
    Before,
    /// Older ones are being taken away: with new ones beside them, every call would be
    /// reported twice. Later it can be tried again.
    Later,
    /// The kernel has refused them, now or before: it is not asked again.
    Refused(String),
}

/// Takes probes away until nobody asks any more: the kernel makes whoever does it
/// wait until no processor is in one of them, some tens of milliseconds each.
fn take_away(unused: &Receiver<(FileId, Vec<Link>)>, gone: &Sender<FileId>) {
    while let Ok((file, links)) = unused.recv() {
        drop(links);
        if gone.send(file).is_err() {
            return;
        }
    }
}

/// The files that have probes.
pub(crate) struct ProbedFiles {
    probed: HashMap<FileId, Probed>,
    /// Files whose probes are being taken away.
    leaving: HashSet<FileId>,
    take_away: Sender<(FileId, Vec<Link>)>,
    taken_away: Receiver<FileId>,
    /// Files that the kernel refused, with its reasons.
    refused: HashMap<FileId, String>,
}

impl ProbedFiles {
    /// None yet.
    ///
    /// # Errors
    /// Where the system refuses a thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (take_away, unused) = channel();
        let (tell_gone, taken_away) = channel();
        std::thread::Builder::new()
            .name("probes".to_owned())
            .spawn(move || self::take_away(&unused, &tell_gone))?;
        Ok(Self {
            probed: HashMap::new(),
            leaving: HashSet::new(),
            take_away,
            taken_away,
            refused: HashMap::new(),
        })
    }

    /// Has these functions of a file probed, which is open here, for a process.
    pub(crate) fn set(
        &mut self,
        kernel: &Kernel,
        process: u32,
        file: FileId,
        handle: &File,
        functions: &[Function],
    ) -> Set {
        if let Some(reason) = self.refused.get(&file) {
            return Set::Refused(reason.clone());
        }
        if let Some(probed) = self.probed.get_mut(&file) {
            probed.processes.insert(process);
            probed.doubted = false;
            return Set::Before;
        }
        while let Ok(file) = self.taken_away.try_recv() {
            self.leaving.remove(&file);
        }
        if self.leaving.contains(&file) {
            return Set::Later;
        }
        // The kernel reads the instructions that it replaces. Where ext4 has to fetch them for
        // it, Linux 6.18 warns of a lock that is not held, in its own log.
        for function in functions {
            let _ = handle.read_at(&mut [0; INSTRUCTION_BYTES], function.file_offset);
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        match kernel.probe_functions(functions, &path) {
            Ok(links) => {
                let processes = HashSet::from([process]);
                self.probed.insert(file, Probed { links, processes, doubted: false });
                Set::Now
            }
            Err(reason) => {
                self.refused.insert(file, reason.clone());
                Set::Refused(reason)
            }
        }
    }

    /// Takes probes away that nobody has used since the last sweep; whether others may
    /// be unused. Who ended may have left children that were forked and never heard of:
    /// before a file goes, whoever can should look at all processes once more.
    pub(crate) fn sweep(&mut self) -> bool {
        let mut doubts = false;
        let unused = self.probed.extract_if(|_, probed| {
            probed.processes.retain(|process| is_alive(*process));
            let unused = probed.processes.is_empty();
            let gone = unused && probed.doubted;
            probed.doubted = unused;
            doubts |= unused && !gone;
            gone
        });
        for (file, probed) in unused {
            if self.take_away.send((file, probed.links)).is_ok() {
                self.leaving.insert(file);
            }
        }
        doubts
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.probed.len()
    }
}

fn is_alive(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}
