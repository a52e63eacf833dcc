//! Probes at functions of TLS libraries.

use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, UprobeOpts};

use super::Kernel;
use crate::libraries::Function;

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

/// Names of the programs in the BPF object.
pub(super) const PROGRAMS: &[&str] = &[
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
];

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
        self.tls_refusal.as_deref()
    }

    /// Sets the probes of a function, in all processes that use the file.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn probe_tls(&self, function: Function, path: &Path) -> Result<Vec<Link>, String> {
        if let Some(reason) = &self.tls_refusal {
            return Err(reason.clone());
        }
        let Ok(offset) = usize::try_from(function.file_offset) else {
            return Err("the function lies beyond the address space".to_owned());
        };
        let attach = |name: &str, retprobe: bool| {
            let program = self.object.progs_mut().find(|program| program.name() == name);
            let Some(program) = program else { return Err(format!("there is no program {name}")) };
            let opts = UprobeOpts { retprobe, ..UprobeOpts::default() };
            // Process -1: all.
            program
                .attach_uprobe_with_opts(-1, path, offset, opts)
                .map_err(|error| format!("{error:#}"))
        };
        // The end first: a beginning without one would leave calls open.
        let mut links = Vec::with_capacity(2);
        if function.probe.returns() {
            links.push(attach("tls_exit", true)?);
        }
        links.push(attach(function.probe.entry(), false)?);
        Ok(links)
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
