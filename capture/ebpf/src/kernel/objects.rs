//! The compiled BPF objects, and how they are loaded and attached.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Once;

use libbpf_rs::{
    Link, Object, ObjectBuilder, OpenMapMut, PrintLevel, ProgramAttachType, UprobeMultiOpts,
    UprobeOpts,
};
use parking_lot::Mutex;

use super::Hook;
use spanwise_capture_host::rights;

/// An ELF object with the alignment that its parser needs.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static CAPTURE_ALIGNED: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/capture.bpf.o")));
static CAPTURE_BEFORE_5_12_ALIGNED: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/capture_before_5_12.bpf.o")));
static EMPTY_ALIGNED: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/empty.bpf.o")));
static FIGURES_ALIGNED: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/figures.bpf.o")));

/// The agent's programs.
pub(super) static CAPTURE: &[u8] = &CAPTURE_ALIGNED.0;
/// The same for kernels whose global functions accept no pointers, without hooks that those kernels
/// lack.
pub(super) static CAPTURE_BEFORE_5_12: &[u8] = &CAPTURE_BEFORE_5_12_ALIGNED.0;
/// Programs that count what processes do.
pub(super) static FIGURES: &[u8] = &FIGURES_ALIGNED.0;
/// Programs that do nothing.
pub(super) static EMPTY: &[u8] = &EMPTY_ALIGNED.0;

/// Why the kernel side does not run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No set of hooks could be attached.
    #[error("no hook can be attached: {}", list(refusals))]
    NoHook {
        /// Each set that was tried, with the kernel's reason.
        refusals: Vec<(Hook, String)>,
    },
    /// The ring buffer cannot be read.
    #[error("cannot map the event ring: {source}; is RLIMIT_MEMLOCK too low?")]
    Ring {
        /// The system's error.
        source: libbpf_rs::Error,
    },
}

fn list(refusals: &[(Hook, String)]) -> String {
    let denied = refusals.iter().any(|(_, reason)| reason.contains("permission"));
    let allowed = rights::holds(rights::CAP_BPF) && rights::holds(rights::CAP_PERFMON);
    if denied && !allowed {
        return "the kernel allows this process no BPF (permission denied); run as root or with \
                CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
            .to_owned();
    }
    refusals.iter().map(|(hook, reason)| format!("{hook}: {reason}")).collect::<Vec<_>>().join("; ")
}

/// libbpf prints its reasons. They are kept for the error that follows.
static LIBBPF_LOG: Mutex<String> = Mutex::new(String::new());
const LIBBPF_LOG_BYTES: usize = 64 * 1024;

fn keep_log(_level: PrintLevel, message: String) {
    let mut log = LIBBPF_LOG.lock();
    if log.len() + message.len() < LIBBPF_LOG_BYTES {
        log.push_str(&message);
    }
}

/// Loads the named programs of an object and no others.
///
/// Those that are also in `many` attach to many functions at once (`BPF_TRACE_UPROBE_MULTI`, Linux
/// 6.6). `prepare` is called with every map before it is created.
pub(super) fn load(
    bytes: &[u8],
    programs: &[&str],
    many: &[&str],
    mut prepare: impl FnMut(&str, &mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
) -> Result<Object, String> {
    static PRINT: Once = Once::new();
    PRINT.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, keep_log)));
    });
    LIBBPF_LOG.lock().clear();
    let mut open = ObjectBuilder::default().open_memory(bytes).map_err(explain)?;
    let there: Vec<_> = open.progs().map(|program| program.name().to_owned()).collect();
    if let Some(missing) = programs.iter().find(|name| there.iter().all(|found| found != **name)) {
        return Err(format!("there is no {missing} for kernels like this (before Linux 5.12)"));
    }
    for mut program in open.progs_mut() {
        let wanted = programs.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
        if many.iter().any(|name| program.name() == *name) {
            program.set_attach_type(ProgramAttachType::TraceUprobeMulti);
        }
    }
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        prepare(&name, &mut map).map_err(explain)?;
    }
    open.load().map_err(explain)
}

/// Attaches the named programs of a loaded object, each at the place in its section's name.
pub(super) fn attach(object: &Object, programs: &[&str]) -> Result<Vec<Link>, String> {
    let mut links = Vec::with_capacity(programs.len());
    for program in object.progs_mut() {
        if programs.iter().any(|name| program.name() == *name) {
            links.push(program.attach().map_err(explain)?);
        }
    }
    Ok(links)
}

/// File descriptors of the named programs, open while the object is.
pub(super) fn descriptors(object: &Object, programs: &[&str]) -> Vec<RawFd> {
    let named =
        object.progs().filter(|program| programs.iter().any(|name| program.name() == *name));
    named.map(|program| program.as_fd().as_raw_fd()).collect()
}

/// Attaches a program to a function that this process will not call, either as one of `many` or
/// alone.
pub(super) fn attach_to_libc(object: &Object, program: &str, many: bool) -> Result<Link, String> {
    let Some(program) = object.progs_mut().find(|found| found.name() == program) else {
        return Err(format!("there is no program {program}"));
    };
    let opts = UprobeOpts { func_name: Some("ftok".to_owned()), ..UprobeOpts::default() };
    if many {
        let opts = UprobeMultiOpts::default();
        return program
            .attach_uprobe_multi_with_opts(0, "libc.so.6", "ftok", opts)
            .map_err(explain);
    }
    // Process 0 is the current one.
    program.attach_uprobe_with_opts(0, "libc.so.6", 0, opts).map_err(explain)
}

/// The error on one line, with the last lines of libbpf and the verifier.
fn explain(error: libbpf_rs::Error) -> String {
    let log = std::mem::take(&mut *LIBBPF_LOG.lock());
    // The verifier uses the same error, but its log then says how many instructions it processed.
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !log.contains("processed ") {
        return "permission denied".to_owned();
    }
    let said: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.contains("-- BEGIN") && !line.contains("-- END"))
        .collect();
    let last = said.iter().rev().take(5).rev().copied().collect::<Vec<_>>().join(" / ");
    if last.is_empty() { format!("{error:#}") } else { format!("{error}: {last}") }
}
