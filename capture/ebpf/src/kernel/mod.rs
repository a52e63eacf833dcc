//! The kernel side: loads the BPF programs, attaches the best hooks that the kernel accepts, and
//! reads their events.

mod decode;
mod figures;
mod filter;
mod hook;
mod layout;
mod objects;
mod probe;
mod ring;
mod tasks;
mod uprobes;

use std::os::fd::RawFd;
use std::sync::atomic::AtomicU32;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};
use parking_lot::Mutex;

pub use decode::{DecodeError, decode};
pub use figures::{FiguresLost, KernelFigures, ProcessFigures};
pub use filter::FilterError;
pub use hook::{Hook, HookChoice};
pub use objects::LoadError;
pub use probe::{Probe, ProbeOutcome, probe_all};
pub use ring::{EventsMap, RingReader};
pub(crate) use tasks::{TaskKind, TaskRule};
use uprobes::Uprobes;
pub(crate) use uprobes::{Function, ProbeKind};

/// Settings of the kernel side.
#[derive(Debug, Clone)]
pub struct KernelConfig {
    /// Which hooks to use.
    pub hook: HookChoice,
    /// Bytes of the ring buffer, rounded up to a power of two.
    pub ring_bytes: u32,
    /// Bytes of payload to capture of each call, at most 1024.
    pub payload_bytes: u32,
    /// Processes that are never traced.
    pub ignored_processes: Vec<u32>,
    /// Whether to read plaintext from TLS libraries.
    pub tls: bool,
}

impl Default for KernelConfig {
    fn default() -> Self {
        Self {
            hook: HookChoice::Auto,
            ring_bytes: 8 << 20,
            payload_bytes: 1024,
            ignored_processes: Vec::new(),
            tls: true,
        }
    }
}

/// The attached programs. Dropping it detaches them.
pub struct Kernel {
    hook: Hook,
    // Declared before the object that contains their programs, so that they are dropped first.
    links: Vec<Link>,
    /// File descriptors of the hooks' programs, open while the object is.
    programs: Vec<RawFd>,
    /// The hooks on thread creation, once requested; empty if the kernel refuses them.
    thread_made: Mutex<Option<Vec<Link>>>,
    object: Object,
    tallies: Tallies,
    uprobes: Uprobes,
    tls: bool,
    /// The share (of 2^32) of the wanted connections that are traced.
    connection_share: AtomicU32,
}

/// The hooks without their work, to measure their own cost. Dropping it detaches them.
pub struct EmptyHooks {
    _links: Vec<Link>,
    _object: Object,
}

impl EmptyHooks {
    /// Attaches programs that do nothing to the same places as this hook's programs.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn attach(hook: Hook) -> Result<Self, LoadError> {
        let attach = || {
            let object = objects::load(objects::EMPTY, hook.empty_programs(), &[], |_, _| Ok(()))?;
            let links = objects::attach(&object, hook.empty_programs())?;
            Ok(Self { _links: links, _object: object })
        };
        attach().map_err(|reason| LoadError::NoHook { refusals: vec![(hook, reason)] })
    }
}

/// What the kernel side could not report, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelLosses {
    /// Transfers lost because the ring buffer was full.
    pub data: u64,
    /// Openings, closings, starts and ends lost because the ring buffer was full.
    pub lifecycle: u64,
    /// Calls that moved plaintext of TLS sessions whose socket was unknown.
    pub tls_unbound: u64,
    /// Connections that carried data and were closed without any captured call.
    pub connections_unseen: u64,
    /// Ends of `io_uring_enter` with hooks that do not see its effects.
    pub io_uring_calls: u64,
    /// Calls that read, after the end of a connection, data that was received before it.
    pub reads_after_close: u64,
    /// Calls, or state changes of connections, for which a hook did not run because it was already
    /// running on that processor.
    pub calls_missed: u64,
}

impl Kernel {
    /// Loads and attaches the chosen hooks, or the first set of [`Hook::ALL`] that the kernel
    /// accepts.
    ///
    /// # Errors
    /// If no set can be attached: the kernel's reason for each.
    pub fn attach(config: &KernelConfig) -> Result<Self, LoadError> {
        let candidates: &[Hook] = match &config.hook {
            HookChoice::Auto => Hook::ALL,
            HookChoice::Only(hook) | HookChoice::Older(hook) => std::slice::from_ref(hook),
        };
        let older = matches!(config.hook, HookChoice::Older(_));
        let objects: &[&[u8]] = if older || !probe::functions_take_pointers() {
            &[objects::CAPTURE_BEFORE_5_12]
        } else {
            // A kernel that refuses the normal programs may accept those for older kernels.
            &[objects::CAPTURE, objects::CAPTURE_BEFORE_5_12]
        };
        let many = !older && probe::many_uprobes_attach();
        let mut refusals = Vec::new();
        for capture in objects {
            for hook in candidates {
                match Self::attach_hook(*hook, config, capture, many) {
                    Ok(kernel) => return Ok(kernel),
                    Err(reason) => refusals.push((*hook, reason)),
                }
            }
        }
        refusals.truncate(candidates.len()); // keeps the reasons for the first object
        Err(LoadError::NoHook { refusals })
    }

    fn attach_hook(
        hook: Hook,
        config: &KernelConfig,
        capture: &[u8],
        many: bool,
    ) -> Result<Self, String> {
        let mut refusal = String::new();
        for programs in hook.program_sets() {
            match Self::attach_set(hook, programs, config, capture, many) {
                Ok(kernel) => return Ok(kernel),
                Err(reason) => refusal = reason,
            }
        }
        Err(refusal)
    }

    fn attach_set(
        hook: Hook,
        programs: &'static [&'static str],
        config: &KernelConfig,
        capture: &[u8],
        many: bool,
    ) -> Result<Self, String> {
        let with = |uprobes| Self::attach_programs(hook, programs, config, capture, uprobes);
        let probed = if many { with(Uprobes::Many) } else { Err(String::new()) };
        probed.or_else(|_| with(Uprobes::Single)).or_else(|reason| with(Uprobes::Refused(reason)))
    }

    fn attach_programs(
        hook: Hook,
        programs: &[&str],
        config: &KernelConfig,
        capture: &[u8],
        uprobes: Uprobes,
    ) -> Result<Self, String> {
        let ring_bytes = config.ring_bytes.clamp(1 << 16, 1 << 30).next_power_of_two();
        let (further, many) = uprobes.programs(config.tls);
        let wanted = [programs, &[tasks::THREAD_MADE], &further].concat();
        let object = objects::load(capture, &wanted, &many, |name, map| {
            if name == "events" {
                map.set_max_entries(ring_bytes)?;
            } else if name.ends_with(".rodata.settings")
                && let Some(value) = map.initial_value_mut()
                && let Some(value) = value[layout::settings::MAX_PAYLOAD..].first_chunk_mut::<4>()
            {
                *value = config.payload_bytes.min(1024).to_ne_bytes();
            }
            Ok(())
        })?;
        if let Some(ignored) = object.maps().find(|map| map.name() == "ignored_processes") {
            for process in &config.ignored_processes {
                ignored
                    .update(&process.to_ne_bytes(), &[1], MapFlags::ANY)
                    .map_err(|error| format!("cannot exclude process {process}: {error}"))?;
            }
        }
        let links = objects::attach(&object, programs)?;
        let programs = objects::descriptors(&object, programs);
        let connection_share = AtomicU32::new(u32::MAX);
        let thread_made = Mutex::new(None);
        let tls = config.tls;
        let tallies = Tallies::of(&object);
        Ok(Self {
            hook,
            links,
            programs,
            object,
            tallies,
            uprobes,
            tls,
            thread_made,
            connection_share,
        })
    }

    /// The hooks in use.
    pub const fn hook(&self) -> Hook {
        self.hook
    }

    /// Number of attached programs.
    pub const fn attached_programs(&self) -> usize {
        self.links.len()
    }

    /// A reader of the ring buffer, which passes each record to `take`, in order.
    ///
    /// # Errors
    /// If the system refuses to map the buffer.
    pub fn reader<'a, F: FnMut(&[u8]) + 'a>(
        &'a self,
        events: &'a EventsMap<'a>,
        take: F,
    ) -> Result<RingReader<'a>, LoadError> {
        RingReader::new(events, take).map_err(|source| LoadError::Ring { source })
    }

    /// The map for [`Self::reader`].
    pub fn events(&self) -> EventsMap<'_> {
        let map = self.object.maps().find(|map| map.name() == "events");
        EventsMap(map.expect("the object that was loaded declares this map"))
    }

    /// Keeps reporting the data of these Unix socket connections.
    pub fn follow(&self, connections: &[u64]) {
        let Some(map) = self.object.maps().find(|map| map.name() == "unix_followed") else {
            return;
        };
        for connection in connections {
            if let Err(error) = map.update(&connection.to_ne_bytes(), &[1], MapFlags::ANY) {
                tracing::error!("connection {connection} of a Unix socket is left alone: {error}");
            }
        }
    }

    /// The losses so far.
    pub fn losses(&self) -> KernelLosses {
        let (counted, unseen) = (section(&self.tallies.counted), section(&self.tallies.unseen));
        KernelLosses {
            data: word(&counted, layout::tallies::LOST_DATA),
            lifecycle: word(&counted, layout::tallies::LOST_LIFECYCLE),
            tls_unbound: word(&counted, layout::tallies::TLS_UNBOUND),
            connections_unseen: word(&unseen, layout::unseen::CONNECTIONS),
            io_uring_calls: word(&unseen, layout::unseen::IO_URING_CALLS),
            reads_after_close: word(&unseen, layout::unseen::READS_AFTER_CLOSE),
            calls_missed: self.programs.iter().map(|program| misses(*program)).sum(),
        }
    }

    /// Number of events of any kind lost because the ring buffer was full. Cheap enough to call
    /// some hundred times a second.
    pub fn events_lost(&self) -> u64 {
        let counted = section(&self.tallies.counted);
        word(&counted, layout::tallies::LOST_DATA) + word(&counted, layout::tallies::LOST_LIFECYCLE)
    }
}

/// How often a program was skipped because it was already running (Linux 5.12; 0 before).
fn misses(program: RawFd) -> u64 {
    let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{program}")).unwrap_or_default();
    let counted = told.lines().find_map(|line| line.strip_prefix("recursion_misses:"));
    counted.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The sections of global variables with counters. Each contains one structure of `bpf/spanwise.h`.
struct Tallies {
    counted: Option<MapHandle>,
    unseen: Option<MapHandle>,
}

impl Tallies {
    fn of(object: &Object) -> Self {
        let section = |name: &str| {
            let map = object.maps().find(|map| map.name().to_string_lossy().ends_with(name))?;
            MapHandle::try_from(&map).ok()
        };
        Self { counted: section(".data.tallies"), unseen: section(".data.unseen") }
    }
}

/// The bytes of a section; empty if it cannot be read.
fn section(map: &Option<MapHandle>) -> Vec<u8> {
    let found = map.as_ref().map(|map| map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY));
    found.and_then(Result::ok).flatten().unwrap_or_default()
}

/// The number at this offset; 0 if there is none.
fn word(section: &[u8], at: usize) -> u64 {
    section.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_ne_bytes(*word))
}
