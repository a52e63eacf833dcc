//! The agent: kernel side, tracer and delivery on one thread.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use serde::Serialize;

use crate::event::{Endpoint, Event};
use crate::kernel::{Hook, HookChoice, Kernel, KernelConfig, LoadError, RingReader, decode};
use crate::libraries::Libraries;
use crate::processes::{Processes, ServiceRule};
use crate::recording;
use crate::tracer::{Tracer, TracerConfig};

/// Spans go out this often, or as soon as there are [`BATCH_SPANS`].
const DELIVER_EVERY: Duration = Duration::from_millis(200);
const BATCH_SPANS: usize = 4096;
/// How often timers are looked at and the clock is compared.
const TICK_EVERY: Duration = Duration::from_millis(20);
const FACTS_EVERY: Duration = Duration::from_secs(1);
/// How long what is in the ring is read when the agent is to end.
const LONGEST_STOP: Duration = Duration::from_secs(1);

/// What the agent is to do.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Which hooks to use.
    pub hook: HookChoice,
    /// Bytes of the ring buffer between the kernel and the agent.
    pub ring_bytes: u32,
    /// Bytes of payload to look at of each call, at most 1024.
    pub payload_bytes: u32,
    /// The operator's names for services.
    pub service_rules: Vec<ServiceRule>,
    /// Host name to report; the system's own where absent.
    pub host: Option<String>,
    /// Processes never traced, besides the agent's own.
    pub ignored_processes: Vec<u32>,
    /// Connections to these are never traced: the server that spans go to.
    pub ignored_endpoints: Vec<SocketAddr>,
    /// Whether to read in the clear what TLS libraries encrypt.
    pub tls: bool,
    /// Where to write every event, for tests and bug reports.
    pub record: Option<PathBuf>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        let kernel = KernelConfig::default();
        Self {
            hook: kernel.hook,
            ring_bytes: kernel.ring_bytes,
            payload_bytes: kernel.payload_bytes,
            service_rules: Vec::new(),
            host: None,
            ignored_processes: Vec::new(),
            ignored_endpoints: Vec::new(),
            tls: kernel.tls,
            record: None,
        }
    }
}

/// Why the agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The kernel side does not.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file for events cannot be written.
    #[error("cannot write events to {}: {source}", path.display())]
    Record {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system refused a thread.
    #[error("cannot start the agent's thread: {0}")]
    Thread(std::io::Error),
}

/// Facts about a running agent.
#[derive(Debug, Clone, Serialize)]
pub struct AgentFacts {
    /// Host name that it reports.
    pub host: String,
    /// Hooks in use.
    pub hook: Hook,
    /// Counters by name: what was seen, and what was lost or given up.
    pub counters: BTreeMap<String, u64>,
}

/// A running agent. [`Agent::stop`] detaches it from the kernel.
pub struct Agent {
    facts: Arc<Mutex<AgentFacts>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Attaches to the kernel and starts to trace; finished spans go to
    /// `deliver` as batches of the span schema, which must not block.
    ///
    /// # Errors
    /// Where the kernel allows no hook, or the recording cannot be written.
    pub fn start(
        config: AgentConfig,
        deliver: Box<dyn FnMut(RecordBatch) + Send>,
    ) -> Result<Self, AgentError> {
        let recorder = config
            .record
            .as_ref()
            .map(|path| {
                File::create(path)
                    .map(BufWriter::new)
                    .map_err(|source| AgentError::Record { path: path.clone(), source })
            })
            .transpose()?;
        let mut ignored_processes = config.ignored_processes.clone();
        ignored_processes.push(std::process::id());
        let kernel_config = KernelConfig {
            hook: config.hook,
            ring_bytes: config.ring_bytes,
            payload_bytes: config.payload_bytes,
            ignored_processes,
            tls: config.tls,
        };
        let host = config.host.clone().unwrap_or_else(Processes::host_name);
        let stopping = Arc::new(AtomicBool::new(false));
        let (started, attached) = mpsc::channel();
        let thread = {
            let stopping = Arc::clone(&stopping);
            let host = host.clone();
            std::thread::Builder::new()
                .name("agent".to_owned())
                .spawn(move || {
                    // The kernel side stays on the thread that made it.
                    let kernel = match Kernel::attach(&kernel_config) {
                        Ok(kernel) => kernel,
                        Err(error) => {
                            let _ = started.send(Err(error));
                            return;
                        }
                    };
                    let facts = Arc::new(Mutex::new(AgentFacts {
                        host: host.clone(),
                        hook: kernel.hook(),
                        counters: BTreeMap::new(),
                    }));
                    let _ = started.send(Ok(Arc::clone(&facts)));
                    run(&kernel, config, host, recorder, deliver, &facts, &stopping);
                })
                .map_err(AgentError::Thread)?
        };
        let facts = attached.recv().map_err(|_| {
            AgentError::Thread(std::io::Error::other("it ended before it was attached"))
        })??;
        Ok(Self { facts, stopping, thread: Some(thread) })
    }

    /// Facts as of about a second ago.
    pub fn facts(&self) -> AgentFacts {
        self.facts.lock().clone()
    }

    /// Detaches from the kernel, delivers what is finished, and ends.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
    }
}

/// The connections and processes that the agent looks away from: its server's.
#[derive(Default)]
struct Ignored {
    endpoints: Vec<SocketAddr>,
    /// Learnt when they accept on one of the endpoints.
    processes: HashSet<u32>,
    connections: HashSet<u64>,
}

impl Ignored {
    fn covers(&mut self, event: &Event<'_>) -> bool {
        let is_server = |endpoint: &Endpoint| {
            self.endpoints.contains(&SocketAddr::new(endpoint.address, endpoint.port))
        };
        match event {
            Event::Opened(opened) => {
                if is_server(&opened.local) {
                    self.processes.insert(opened.process);
                }
                let ignored = self.processes.contains(&opened.process) || is_server(&opened.remote);
                if ignored {
                    self.connections.insert(opened.connection);
                }
                ignored
            }
            Event::Data(data) => {
                !self.connections.is_empty() && self.connections.contains(&data.connection)
            }
            Event::Records(records) => self.connections.contains(&records.connection),
            Event::Datagram(datagram) => self.processes.contains(&datagram.process),
            Event::Closed(closed) => self.connections.remove(&closed.connection),
            Event::Exec(process) | Event::Exit(process) => {
                self.processes.remove(&process.process);
                false
            }
        }
    }
}

/// What the ring's callback and the loop around it share.
struct Pipeline {
    tracer: Tracer,
    ignored: Ignored,
    libraries: Option<Libraries>,
    recorder: Option<BufWriter<File>>,
    undecodable: u64,
    unrecorded: u64,
}

impl Pipeline {
    fn take(&mut self, record: &[u8]) {
        match decode(record) {
            Ok(event) if self.ignored.covers(&event) => {}
            Ok(event) => {
                if let Some(libraries) = &mut self.libraries {
                    watch(libraries, &event);
                }
                self.record(&event);
                self.tracer.event(&event);
            }
            Err(_) => self.undecodable += 1,
        }
    }

    fn record(&mut self, event: &Event<'_>) {
        if let Some(recorder) = &mut self.recorder
            && recording::write(recorder, event).is_err()
        {
            self.unrecorded += 1;
        }
    }
}

/// Bytes that begin a TLS handshake record (RFC 8446, section 5.1).
const HANDSHAKE: [u8; 2] = [22, 3];

/// Takes note of processes that may have come to use a TLS library.
fn watch(libraries: &mut Libraries, event: &Event<'_>) {
    match event {
        Event::Exec(process) => libraries.started(process.process),
        Event::Exit(process) => libraries.ended(process.process),
        Event::Data(data) if data.plaintext.is_none() && data.bytes.starts_with(&HANDSHAKE) => {
            libraries.speaks_tls(data.process);
        }
        _ => {}
    }
}

fn libraries(kernel: &Kernel) -> Option<Libraries> {
    if let Some(reason) = kernel.tls_refusal() {
        tracing::warn!("what TLS libraries encrypt stays unseen: {reason}");
        return None;
    }
    Libraries::start()
        .inspect_err(|error| tracing::warn!("TLS libraries are not looked for: {error}"))
        .ok()
}

fn run(
    kernel: &Kernel,
    config: AgentConfig,
    host: String,
    recorder: Option<BufWriter<File>>,
    mut deliver: Box<dyn FnMut(RecordBatch) + Send>,
    facts: &Mutex<AgentFacts>,
    stopping: &AtomicBool,
) {
    let processes = Processes::new(host, config.service_rules);
    let pipeline = RefCell::new(Pipeline {
        tracer: Tracer::new(TracerConfig::default(), Box::new(processes)),
        ignored: Ignored { endpoints: config.ignored_endpoints, ..Ignored::default() },
        libraries: libraries(kernel),
        recorder,
        undecodable: 0,
        unrecorded: 0,
    });
    let events = kernel.events();
    let reader = match kernel.reader(&events, |record| pipeline.borrow_mut().take(record)) {
        Ok(reader) => reader,
        Err(error) => {
            tracing::error!("the agent stops: {error}");
            return;
        }
    };
    pipeline.borrow_mut().tracer.set_clock(unix_minus_monotonic_nano());
    let mut batches = Batches::default();
    let mut ticked = Instant::now();
    let mut told: Option<Instant> = None;
    let mut lost = 0;
    let mut stop_by: Option<Instant> = None;
    loop {
        if stopping.load(Ordering::Relaxed) && stop_by.is_none() {
            stop_by = Some(Instant::now() + LONGEST_STOP);
        }
        // Before what came after the loss is read.
        let losses = kernel.losses();
        let losses = losses.data + losses.lifecycle;
        pipeline.borrow_mut().tracer.lost(losses.saturating_sub(lost), monotonic_nano());
        lost = losses;
        let records = reader.consume();
        // The kernel side goes on: what it reports may never end.
        let last =
            stop_by.is_some_and(|by| records < RingReader::MOST_RECORDS || Instant::now() >= by);
        let mut state = pipeline.borrow_mut();
        if last || ticked.elapsed() >= TICK_EVERY {
            ticked = Instant::now();
            state.tracer.set_clock(unix_minus_monotonic_nano());
            state.tracer.tick(monotonic_nano());
            if let Some(libraries) = &mut state.libraries {
                libraries.tick(kernel);
            }
        }
        if last {
            state.tracer.report_open();
        }
        batches.gather(&mut state.tracer, &mut deliver, last);
        if last || told.is_none_or(|told| told.elapsed() >= FACTS_EVERY) {
            told = Some(Instant::now());
            let mut counters: BTreeMap<String, u64> =
                state.tracer.counters().into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
            let losses = kernel.losses();
            counters.insert("kernel_events_lost_ring_full".to_owned(), losses.data);
            counters.insert("kernel_lifecycle_lost_ring_full".to_owned(), losses.lifecycle);
            counters.insert("tls_calls_without_socket".to_owned(), losses.tls_unbound);
            let probed = state.libraries.as_ref().map_or(0, Libraries::count);
            counters.insert("tls_libraries_probed".to_owned(), probed as u64);
            counters.insert("kernel_records_undecodable".to_owned(), state.undecodable);
            counters.insert("recording_events_unwritten".to_owned(), state.unrecorded);
            counters.insert("batches_unbuilt".to_owned(), batches.unbuilt);
            facts.lock().counters = counters;
        }
        drop(state);
        if last {
            return;
        }
        std::thread::sleep(RingReader::pause(records));
    }
}

/// When finished spans go out.
#[derive(Default)]
struct Batches {
    oldest: Option<Instant>,
    unbuilt: u64,
}

impl Batches {
    fn gather(
        &mut self,
        tracer: &mut Tracer,
        deliver: &mut Box<dyn FnMut(RecordBatch) + Send>,
        now: bool,
    ) {
        if tracer.finished() == 0 {
            return;
        }
        let oldest = *self.oldest.get_or_insert_with(Instant::now);
        if now || tracer.finished() >= BATCH_SPANS || oldest.elapsed() >= DELIVER_EVERY {
            self.oldest = None;
            match tracer.take() {
                Ok(batch) => deliver(batch),
                Err(_) => self.unbuilt += 1,
            }
        }
    }
}

fn clock_nano(clock: rustix::time::ClockId) -> i64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

fn monotonic_nano() -> u64 {
    u64::try_from(clock_nano(rustix::time::ClockId::Monotonic)).unwrap_or(0)
}

/// What to add to a monotonic time to get the time since 1970. Read anew all
/// the time, for the wall clock may be set.
fn unix_minus_monotonic_nano() -> i64 {
    let unix = clock_nano(rustix::time::ClockId::Realtime);
    unix.saturating_sub(clock_nano(rustix::time::ClockId::Monotonic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Closed, Opened, Role};

    #[test]
    fn the_server_and_connections_to_it_are_left_out() {
        let server: SocketAddr = "127.0.0.1:4317".parse().expect("an address");
        let mut ignored = Ignored { endpoints: vec![server], ..Ignored::default() };
        let end = |port| Endpoint { address: server.ip(), port };
        let opened = |connection, process, local, remote| {
            Event::Opened(Opened {
                time_nano: 1,
                connection,
                process,
                thread: process,
                role: Role::Unknown,
                local: end(local),
                remote: end(remote),
                network_namespace: 1,
                connect_nano: None,
                command: crate::event::Command::default(),
            })
        };
        assert!(ignored.covers(&opened(1, 10, 5000, 4317)), "a client of the server");
        assert!(!ignored.covers(&opened(2, 10, 5001, 80)), "the same process elsewhere");
        assert!(!ignored.covers(&opened(3, 20, 7070, 5002)), "not yet known as the server");
        assert!(ignored.covers(&opened(4, 20, 4317, 5000)), "the server");
        assert!(ignored.covers(&opened(5, 20, 7070, 5003)), "the server's other ports");
        let closed = Closed { time_nano: 2, connection: 1, reset: false, retransmits: 0 };
        assert!(ignored.covers(&Event::Closed(closed)));
        assert!(!ignored.covers(&Event::Closed(closed)), "forgotten");
    }
}
