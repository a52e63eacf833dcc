//! Probes on functions of programs and libraries: TLS functions, and functions that reveal for
//! which task something is done.

use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, UprobeMultiOpts, UprobeOpts};

use super::Kernel;

/// The kind of a function, which determines the programs that are attached to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ProbeKind {
    /// `(session, buffer, count)`, returns the number of bytes written.
    Write,
    /// `(session, buffer, count)`, returns the number of bytes read.
    Read,
    /// `(session, buffer, count, &written)`, returns 1 on success.
    WriteEx,
    /// `(session, buffer, count, &read)`, returns 1 on success.
    ReadEx,
    /// `(session)`: exchanges handshake messages.
    Handshake,
    /// `(session)`: frees the session.
    Free,
    /// Go's `(*tls.Conn).Write`, after the part that may run twice.
    GoWrite,
    /// Go's `(*tls.Conn).Read`, likewise.
    GoRead,
    /// A return instruction of it.
    GoReadEnd,
    /// Go's `(*http.persistConn).roundTrip`: another goroutine writes the request.
    GoRoundTrip,
    /// Where gRPC's `(*http2Client).NewStream` returns.
    GoNewStreamEnd,
    /// gRPC's `(*Server).handleStream`.
    GoHandleStream,
    /// `(*serverConn).runHandler` of HTTP/2.
    GoRunHandler,
    /// Where `runtime.newproc1` returns a goroutine.
    GoMadeEnd,
    /// `runtime.send`: a goroutine gives another what that waits for.
    GoChannelSend,
    /// `runtime.recv`: a goroutine takes what another waits to give.
    GoChannelReceive,
    /// Returns a new Python context.
    PythonMakes,
}

/// A function or an instruction in a file to probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    /// The function's kind.
    pub(crate) does: ProbeKind,
    /// The offset of its first byte in the file.
    pub(crate) file_offset: u64,
}

/// Attached to the return of a function.
const PYTHON_MADE: &str = "python_context_made";
/// Names of the programs in the BPF object: for tasks,
const TASK_PROGRAMS: &[&str] = &[
    "go_http_round_trip",
    "go_grpc_new_stream_end",
    "go_grpc_handle_stream",
    "go_http2_run_handler",
    "go_made_end",
    "go_channel_send",
    "go_channel_receive",
    PYTHON_MADE,
];
/// and for TLS.
const TLS_PROGRAMS: &[&str] = &[
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

/// How probes are attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Uprobes {
    /// All probes of a program and file at once (Linux 6.6). Attaching or detaching a single one
    /// takes as long as all together.
    Many,
    /// Each by itself.
    Single,
    /// Not possible, for this reason.
    Refused(String),
}

impl Uprobes {
    /// The programs to load, and those of them for many probes at once.
    pub(super) fn programs(&self, tls: bool) -> (Vec<&'static str>, Vec<&'static str>) {
        let mut programs = TASK_PROGRAMS.to_vec();
        if tls {
            programs.extend(TLS_PROGRAMS);
        }
        match self {
            Self::Many => (programs.clone(), programs),
            Self::Single => (programs, Vec::new()),
            Self::Refused(_) => (Vec::new(), Vec::new()),
        }
    }
}

impl ProbeKind {
    /// Whether the function's return is probed, by changing the return address.
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
            Self::GoRoundTrip => "go_http_round_trip",
            Self::GoNewStreamEnd => "go_grpc_new_stream_end",
            Self::GoHandleStream => "go_grpc_handle_stream",
            Self::GoRunHandler => "go_http2_run_handler",
            Self::GoMadeEnd => "go_made_end",
            Self::GoChannelSend => "go_channel_send",
            Self::GoChannelReceive => "go_channel_receive",
            Self::PythonMakes => PYTHON_MADE,
        }
    }
}

impl Kernel {
    /// Why plaintext of TLS libraries cannot be read; `None` if it can.
    pub fn tls_refusal(&self) -> Option<&str> {
        if self.tls { self.uprobe_refusal() } else { Some("switched off") }
    }

    /// Why functions of programs cannot be probed; `None` if they can.
    pub(crate) fn uprobe_refusal(&self) -> Option<&str> {
        match &self.uprobes {
            Uprobes::Refused(reason) => Some(reason),
            Uprobes::Many | Uprobes::Single => None,
        }
    }

    /// Probes a file's functions in all processes that use the file.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn probe_functions(
        &self,
        functions: &[Function],
        path: &Path,
    ) -> Result<Vec<Link>, String> {
        if let Some(reason) = self.uprobe_refusal() {
            return Err(reason.to_owned());
        }
        let offsets_of = |wanted: &dyn Fn(ProbeKind) -> bool| -> Vec<usize> {
            let wanted = functions.iter().filter(|function| wanted(function.does));
            wanted.filter_map(|function| usize::try_from(function.file_offset).ok()).collect()
        };
        let mut links = Vec::new();
        // Returns first. Otherwise calls could begin without an end.
        links.extend(self.set("tls_exit", true, path, &offsets_of(&ProbeKind::returns))?);
        for program in TASK_PROGRAMS.iter().chain(TLS_PROGRAMS) {
            let offsets = offsets_of(&|does| does.entry() == *program);
            links.extend(self.set(program, *program == PYTHON_MADE, path, &offsets)?);
        }
        Ok(links)
    }

    /// Attaches a program to each of these places in a file.
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
        // Process -1 means all.
        let set = if self.uprobes == Uprobes::Many {
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

    /// Excludes a process from TLS probes in a library that others use, too; or includes it again.
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
