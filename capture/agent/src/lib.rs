//! The agent: kernel side, tracer and delivery on one thread.

mod applied_filter;
pub mod budget;
pub mod doctor;
mod running;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use serde::Serialize;
pub use spanwise_capture_ebpf::kernel::{
    FiguresLost, Hook, HookChoice, KernelFigures, LoadError, ProcessFigures,
};
use spanwise_capture_ebpf::kernel::{Kernel, KernelConfig};
pub use spanwise_capture_host::filter;
use spanwise_capture_host::filter::Filter;
use spanwise_capture_host::processes::Processes;
pub use spanwise_capture_host::processes::ServiceRule;
pub use spanwise_capture_protocols::plugins;
use spanwise_capture_protocols::plugins::{Plugin, PluginFacts};
pub use spanwise_capture_protocols::process::LabelRule;
pub use spanwise_capture_protocols::redaction::Hidden;
pub use spanwise_capture_tracer::ServiceUnknown;
pub use spanwise_capture_tracer::sampling::Sampling;
use spanwise_keys::KeyRules;
use spanwise_model::SpanRows;

use crate::budget::Budget;

/// The agent's settings.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Which hooks to use.
    pub hook: HookChoice,
    /// Bytes of the ring buffer between the kernel and the agent.
    pub ring_bytes: u32,
    /// Bytes of payload to capture of each call, at most 1024.
    pub payload_bytes: u32,
    /// The operator's rules for service names.
    pub service_rules: Vec<ServiceRule>,
    /// Host name to report. `None` means the system's own.
    pub host: Option<String>,
    /// Processes that are never traced, besides the agent's own.
    pub ignored_processes: Vec<u32>,
    /// Connections to these endpoints are never traced: the server that receives the spans.
    pub ignored_endpoints: Vec<SocketAddr>,
    /// Settings that can change at runtime.
    pub live: LiveConfig,
    /// The agent's limits.
    pub budget: Budget,
    /// Whether the process contains only the agent. Then the budget applies to the process, else to
    /// one thread.
    pub owns_process: bool,
    /// Whether to read the plaintext of TLS libraries.
    pub tls: bool,
    /// What to remove from spans besides secrets.
    pub hide: Hidden,
    /// A file to record every event, for tests and bug reports.
    pub record: Option<PathBuf>,
    /// Parsers of the operator's own protocols.
    pub plugins: Vec<Plugin>,
    /// Rules of business keys.
    pub keys: Arc<KeyRules>,
}

/// Settings that can change while the agent runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveConfig {
    /// Which processes and connections are traced.
    pub filter: Filter,
    /// Which spans are kept.
    pub sampling: Sampling,
    /// Rules for labels of processes.
    pub labels: Vec<LabelRule>,
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
            live: LiveConfig::default(),
            budget: Budget::default(),
            owns_process: false,
            tls: kernel.tls,
            hide: Hidden::default(),
            record: None,
            plugins: Vec::new(),
            keys: Arc::default(),
        }
    }
}

/// Why the agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The kernel side cannot run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The recording cannot be written.
    #[error("cannot write events to {}: {source}", path.display())]
    Record {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system refused to create a thread.
    #[error("cannot start the agent's thread: {0}")]
    Thread(std::io::Error),
}

/// The system's name of this machine.
pub fn host_name() -> String {
    Processes::host_name()
}

/// Facts about a running agent.
#[derive(Debug, Clone, Serialize)]
pub struct AgentFacts {
    /// The reported host name.
    pub host: String,
    /// The hooks in use.
    pub hook: Hook,
    /// The filter, as text.
    pub filter: String,
    /// The level of detail, as text. It is reduced if the operator samples or the budget requires
    /// it.
    pub detail: String,
    /// Counters by name: what was captured, lost or left out.
    pub counters: BTreeMap<String, u64>,
    /// The loaded plugins and their state.
    pub plugins: Vec<PluginFacts>,
    /// Of which services how much is not known, of late.
    pub unknown: Vec<ServiceUnknown>,
}

/// State that the agent's thread shares with its handle.
struct Shared {
    facts: Arc<Mutex<AgentFacts>>,
    /// New settings that are not applied yet.
    live: Arc<Mutex<Option<LiveConfig>>>,
    stopping: Arc<AtomicBool>,
}

/// A running agent. [`Agent::stop`] detaches it from the kernel.
pub struct Agent {
    facts: Arc<Mutex<AgentFacts>>,
    live: Arc<Mutex<Option<LiveConfig>>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Attaches to the kernel and starts tracing. Finished spans are passed in batches to
    /// `deliver`, which must not block.
    ///
    /// # Errors
    /// If the kernel accepts no hooks, or the recording cannot be written.
    pub fn start(
        config: AgentConfig,
        deliver: Box<dyn FnMut(SpanRows) + Send>,
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
        let live = Arc::new(Mutex::new(None));
        let (started, attached) = mpsc::channel();
        let thread = {
            let stopping = Arc::clone(&stopping);
            let live = Arc::clone(&live);
            let host = host.clone();
            std::thread::Builder::new()
                .name("agent".to_owned())
                .spawn(move || {
                    // The kernel side must stay on the thread that created it.
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
                        filter: config.live.filter.to_string(),
                        detail: String::new(),
                        counters: BTreeMap::new(),
                        plugins: config.plugins.iter().map(Plugin::facts).collect(),
                        unknown: Vec::new(),
                    }));
                    let shared = Shared { facts, live, stopping };
                    let _ = started.send(Ok(Arc::clone(&shared.facts)));
                    running::run(&kernel, config, host, recorder, deliver, &shared);
                })
                .map_err(AgentError::Thread)?
        };
        let facts = attached.recv().map_err(|_| {
            AgentError::Thread(std::io::Error::other("it ended before it was attached"))
        })??;
        Ok(Self { facts, live, stopping, thread: Some(thread) })
    }

    /// The facts, at most about a second old.
    pub fn facts(&self) -> AgentFacts {
        self.facts.lock().clone()
    }

    /// Applies new settings within about 20 ms.
    pub fn reconfigure(&self, live: LiveConfig) {
        *self.live.lock() = Some(live);
    }

    /// Detaches from the kernel, delivers finished spans, and ends. Returns the final facts.
    pub fn stop(mut self) -> AgentFacts {
        self.end();
        self.facts()
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
