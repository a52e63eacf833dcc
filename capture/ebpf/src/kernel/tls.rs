//! Probes at functions of TLS libraries.

use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, UprobeMultiOpts, UprobeOpts};

use super::Kernel;

/// What a function does, and so which programs go where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsProbe {
    /// `(session, buffer, count)`, returns how many bytes were written.
    Write,
    /// `(session, buffer, count)`, returns how many bytes were read.
    Read,
    /// `(session, buffer, count, &written)`, returns 1 where it succeeded.
    WriteEx,
    /// `(session, buffer, count, &read)`, returns 1 where it succeeded.
    ReadEx,
    /// `(session)`: exchanges handshake messages.
    Handshake,
    /// `(session)`: there is no such session any more.
    Free,
    /// Go's `(*tls.Conn).Write`, behind the part that may be run twice.
    GoWrite,
    /// Go's `(*tls.Conn).Read`, likewise.
    GoRead,
    /// An instruction that returns from it.
    GoReadEnd,
}

/// A function of a file, or a place in it, to probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    /// What it does.
    pub(crate) probe: TlsProbe,
    /// Its first byte's place in the file.
    pub(crate) file_offset: u64,
}

/// Names of the programs in the BPF object.
const PROGRAMS: &[&str] = &[
    "tls_write",
    "tls_read",
    "tls_write_ex",
    "tls_read_ex",
    "tls_handshake",
    "tls_free",
    "tls_exit",
    "go_tls_write",
    "go_tls_read",
    "go_tls_read_end",
    "python_context_made",
];

/// How probes are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tls {
    /// All of a program and file at once (Linux 6.6): to set and to take away
    /// each by itself takes as long as all together.
    Many,
    /// Each by itself.
    Single,
    /// Not at all, for this reason.
    Refused(String),
}

impl Tls {
    /// The programs that are loaded, and those of them for many probes.
    pub(super) const fn programs(&self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Many => (PROGRAMS, PROGRAMS),
            Self::Single => (PROGRAMS, &[]),
            Self::Refused(_) => (&[], &[]),
        }
    }
}

impl TlsProbe {
    /// Whether its end is of interest, and can be met by changing the return
    /// address.
    const fn returns(self) -> bool {
        matches!(self, Self::Write | Self::Read | Self::WriteEx | Self::ReadEx)
    }

    const fn entry(self) -> &'static str {
        match self {
            Self::Write => "tls_write",
            Self::Read => "tls_read",
            Self::WriteEx => "tls_write_ex",
            Self::ReadEx => "tls_read_ex",
            Self::Handshake => "tls_handshake",
            Self::Free => "tls_free",
            Self::GoWrite => "go_tls_write",
            Self::GoRead => "go_tls_read",
            Self::GoReadEnd => "go_tls_read_end",
        }
    }
}

impl Kernel {
    /// Why plaintext of TLS libraries cannot be read; `None` where it can.
    pub fn tls_refusal(&self) -> Option<&str> {
        match &self.tls {
            Tls::Refused(reason) => Some(reason),
            Tls::Many | Tls::Single => None,
        }
    }

    /// Sets the probes of a file's functions, in all processes that use it.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn probe_tls(
        &self,
        functions: &[Function],
        path: &Path,
    ) -> Result<Vec<Link>, String> {
        if let Some(reason) = self.tls_refusal() {
            return Err(reason.to_owned());
        }
        let offsets_of = |wanted: &dyn Fn(TlsProbe) -> bool| -> Vec<usize> {
            let wanted = functions.iter().filter(|function| wanted(function.probe));
            wanted.filter_map(|function| usize::try_from(function.file_offset).ok()).collect()
        };
        let mut links = Vec::new();
        // The ends first: a beginning without one would leave calls open.
        links.extend(self.set("tls_exit", true, path, &offsets_of(&TlsProbe::returns))?);
        for program in PROGRAMS {
            let offsets = offsets_of(&|probe| probe.entry() == *program);
            links.extend(self.set(program, false, path, &offsets)?);
        }
        Ok(links)
    }

    /// Reports contexts of Python that are made from now on: what the functions at these
    /// places in a file return.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn probe_contexts(
        &self,
        path: &Path,
        offsets: &[usize],
    ) -> Result<Vec<Link>, String> {
        if let Some(reason) = self.tls_refusal() {
            return Err(reason.to_owned());
        }
        self.set("python_context_made", true, path, offsets)
    }

    /// Attaches a program at each of these places in a file.
    fn set(
        &self,
        name: &str,
        retprobe: bool,
        path: &Path,
        offsets: &[usize],
    ) -> Result<Vec<Link>, String> {
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let program = self.object.progs_mut().find(|program| program.name() == name);
        let Some(program) = program else { return Err(format!("there is no program {name}")) };
        // Process -1: all.
        let set = if self.tls == Tls::Many {
            let opts =
                UprobeMultiOpts { offsets: offsets.to_vec(), retprobe, ..Default::default() };
            program.attach_uprobe_multi_with_opts(-1, path, "", opts).map(|link| vec![link])
        } else {
            let single = |offset: &usize| {
                let opts = UprobeOpts { retprobe, ..UprobeOpts::default() };
                program.attach_uprobe_with_opts(-1, path, *offset, opts)
            };
            offsets.iter().map(single).collect()
        };
        set.map_err(|error| format!("{error:#}"))
    }

    /// Leaves a process alone, in spite of probes in a library that others use as
    /// well; or does so no longer.
    pub(crate) fn ignore_tls(&self, process: u32, ignored: bool) {
        let map = self.object.maps().find(|map| map.name() == "tls_ignored_processes");
        let Some(map) = map else { return };
        let key = process.to_ne_bytes();
        let done = if ignored { map.update(&key, &[1], MapFlags::ANY) } else { map.delete(&key) };
        if let Err(error) = done
            && ignored
        {
            tracing::error!("process {process} cannot be left alone: {error}");
        }
    }

    /// Tells the socket hooks whether any library has probes.
    pub(crate) fn use_tls(&self, used: bool) {
        let flag =
            self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".data.tls"));
        if let Some(flag) = flag {
            let value = u64::from(used).to_ne_bytes();
            if let Err(error) = flag.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY) {
                tracing::error!("plaintext of TLS libraries stays unseen: {error}");
            }
        }
    }
}
