//! Files with probes, and their users. Probes are attached to a file for all processes that use it,
//! and detached when none is left.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use libbpf_rs::Link;

use crate::kernel::{Function, Kernel};

/// The longest instruction of any supported machine.
const INSTRUCTION_BYTES: usize = 16;

/// Identifies a file, wherever it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    /// Major and minor number of its device.
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
}

impl FileId {
    /// The id of an open file.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let device = metadata.dev();
        let device = (rustix::fs::major(device), rustix::fs::minor(device));
        Ok(Self { device, inode: metadata.ino() })
    }
}

/// A file with probes.
struct ProbedFile {
    links: Vec<Link>,
    /// Processes known to use it. Some may have ended.
    processes: HashSet<u32>,
    /// None of them was alive at the last sweep.
    doubted: bool,
}

/// The result of attaching probes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// They were attached.
    Now,
    /// They were already attached.
    Before,
    /// Older ones are being detached. With new ones beside them, every call would be reported
    /// twice. The caller may retry later.
    Later,
    /// The kernel has refused them. It is not asked again.
    Refused(String),
}

/// Detaches probes until the channel closes. The kernel waits until no processor is in a probe,
/// which takes some tens of milliseconds for each.
fn take_away(unused: &Receiver<(FileId, Vec<Link>)>, gone: &Sender<FileId>) {
    while let Ok((file, links)) = unused.recv() {
        drop(links);
        if gone.send(file).is_err() {
            return;
        }
    }
}

/// The files with probes.
pub(crate) struct ProbedFiles {
    probed: HashMap<FileId, ProbedFile>,
    /// Files whose probes are being detached.
    leaving: HashSet<FileId>,
    take_away: Sender<(FileId, Vec<Link>)>,
    taken_away: Receiver<FileId>,
    /// Files that the kernel refused, with its reasons.
    refused: HashMap<FileId, String>,
}

impl ProbedFiles {
    /// No files yet.
    ///
    /// # Errors
    /// If the system refuses a thread.
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

    /// Probes these functions of an open file, on behalf of a process.
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
        // The kernel reads the instructions that it replaces. On ext4, if they are not in the page
        // cache, Linux 6.18 logs a warning about a lock that is not held.
        for function in functions {
            let _ = handle.read_at(&mut [0; INSTRUCTION_BYTES], function.file_offset);
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        match kernel.probe_functions(functions, &path) {
            Ok(links) => {
                let processes = HashSet::from([process]);
                self.probed.insert(file, ProbedFile { links, processes, doubted: false });
                Set::Now
            }
            Err(reason) => {
                self.refused.insert(file, reason.clone());
                Set::Refused(reason)
            }
        }
    }

    /// Detaches probes that were unused since the last sweep. Returns whether others may be unused.
    /// A process that has ended may have forked children that were never reported. So the caller
    /// should examine all processes once more before a file's probes are removed.
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

    /// Number of files.
    pub(crate) fn count(&self) -> usize {
        self.probed.len()
    }
}

fn is_alive(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}
