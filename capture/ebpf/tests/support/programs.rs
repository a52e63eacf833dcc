//! Programs that tests run, and where.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use spanwise_capture_ebpf::agent::Agent;

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory that goes with the test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("spanwise-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A key and a certificate that nobody trusts.
    pub(crate) fn certificate(&self) {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(&self.0)
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("openssl runs").success());
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    listener.local_addr().expect("bound").port()
}

/// Waits until somebody listens.
pub(crate) fn wait_for(port: u16) {
    let end = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "nothing listens on port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the agent has set probes in as many files.
pub(crate) fn wait_until_probed(agent: &Agent, count: u64) {
    let end = Instant::now() + Duration::from_secs(20);
    while agent.facts().counters.get("tls_libraries_probed").is_none_or(|found| *found < count) {
        assert!(Instant::now() < end, "no TLS library is found: {:?}", agent.facts().counters);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the agent has looked at all processes that it knows of, also those
/// that have just started or spoken.
pub(crate) fn wait_until_looked_at(agent: &Agent) {
    // What has happened by now is in the ring; facts are a second old.
    std::thread::sleep(Duration::from_millis(1500));
    let asked = agent.facts().counters["tls_looks_at_processes_asked"];
    let end = Instant::now() + Duration::from_secs(60);
    while agent.facts().counters["tls_looks_at_processes_done"] < asked {
        assert!(Instant::now() < end, "{:?}", agent.facts().counters);
        std::thread::sleep(Duration::from_millis(20));
    }
    // And until what was found has its probes.
    std::thread::sleep(Duration::from_millis(200));
}
