//! Runs an agent and collects its spans.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use spanwise_capture_agent::{Agent, AgentConfig};
use spanwise_capture_ebpf::kernel::{Hook, HookChoice};
use spanwise_model::{Capture, Span, SpanBatch, SpanRows};

/// What an agent captured on the whole host.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) spans: Vec<Span>,
    pub(crate) counters: BTreeMap<String, u64>,
}

impl Traced {
    /// Spans of connections to this port, sorted by start.
    pub(crate) fn of_port(&self, port: u16) -> Vec<&Span> {
        let of_port = |span: &&Span| span.flow.server_port == Some(port);
        self.spans.iter().filter(of_port).collect()
    }

    /// The spans of one side.
    pub(crate) fn side(&self, port: u16, capture: Capture) -> Vec<&Span> {
        self.of_port(port).into_iter().filter(|span| span.capture == capture).collect()
    }
}

/// All hooks to test. On kernels before Linux 6.4, those in `SPANWISE_TEST_HOOKS`, separated by
/// commas.
pub(crate) fn ways() -> Vec<HookChoice> {
    match std::env::var("SPANWISE_TEST_HOOKS") {
        Ok(names) => names.split(',').map(|name| name.parse().expect("a hook")).collect(),
        Err(_) => vec![
            HookChoice::Only(Hook::SockLength),
            HookChoice::Only(Hook::SysExitBtf),
            HookChoice::Only(Hook::SysExitRaw),
            HookChoice::Older(Hook::SysExitBtf),
            HookChoice::Older(Hook::SysExitRaw),
        ],
    }
}

/// The first one, which the agent would choose.
pub(crate) fn best_way() -> HookChoice {
    ways()[0]
}

/// Whether these hooks are on socket calls, not at the end of each system call.
pub(crate) fn at_sockets(hook: HookChoice) -> bool {
    matches!(hook, HookChoice::Only(Hook::SockLength | Hook::InetFexit))
}

/// A configuration with these hooks.
pub(crate) fn with(hook: impl Into<HookChoice>) -> AgentConfig {
    // Room for the other events of a busy host.
    let ring_bytes = 64 << 20;
    AgentConfig { hook: hook.into(), tls: false, ring_bytes, ..AgentConfig::default() }
}

/// Runs `work` with an agent. The agent's own process is not traced, so the traffic must be in
/// other processes.
pub(crate) fn trace(config: AgentConfig, work: impl FnOnce(&Agent)) -> Traced {
    let (send, batches) = channel::<SpanRows>();
    let deliver = Box::new(move |batch| {
        let _ = send.send(batch);
    });
    let agent = Agent::start(config, deliver).unwrap_or_else(|error| panic!("{error}"));
    work(&agent);
    // For responses that end by silence.
    std::thread::sleep(Duration::from_millis(300));
    let counters = agent.stop().counters;
    let mut spans: Vec<Span> = batches
        .try_iter()
        .flat_map(|batch| {
            let batch = SpanBatch::try_from(batch).expect("the span schema");
            batch.spans().map(|span| span.expect("a span")).collect::<Vec<_>>()
        })
        .collect();
    spans.sort_by_key(|span| span.start_unix_nano);
    Traced { spans, counters }
}

/// Compiles a test's C program.
pub(crate) fn compile(source: &str, directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let program = directory.join(source.file_stem().expect("a file's name"));
    let made = Command::new("cc")
        .args(["-O1", "-Wall", "-pthread", "-o"])
        .args([&program, &source])
        .status()
        .expect("a C compiler runs");
    assert!(made.success(), "{} does not compile", source.display());
    program
}

/// Runs a Python script to its end. Returns its output.
pub(crate) fn python(script: &str, arguments: &[&str]) -> String {
    let output = Command::new("python3")
        .args(["-c", script])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("python3 runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}
