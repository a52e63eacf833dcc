//! Programs that tests run, and their environment.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use spanwise_capture_agent::Agent;

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory that is removed with the test. It is unique, because tests with the same name may
/// run in parallel.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("spanwise-{name}-{}-{made}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A self-signed certificate with its key.
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

/// A free port that no other test uses. It is below the range from which the kernel assigns ports
/// to clients. Otherwise, another test's connection could take it before the server does.
pub(crate) fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    loop {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        assert!(given < COUNT, "no port is free");
        let port = FIRST + std::process::id().wrapping_mul(97).wrapping_add(given) % COUNT;
        let port = u16::try_from(port).expect("within the range");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Waits until a server listens.
pub(crate) fn wait_for(port: u16) {
    let end = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "nothing listens on port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the agent has probes in this many files.
pub(crate) fn wait_until_probed(agent: &Agent, count: u64) {
    let end = Instant::now() + Duration::from_secs(20);
    while agent.facts().counters.get("tls_libraries_probed").is_none_or(|found| *found < count) {
        assert!(Instant::now() < end, "no TLS library is found: {:?}", agent.facts().counters);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the agent has examined all known processes, including those that have just started
/// or used TLS.
pub(crate) fn wait_until_looked_at(agent: &Agent) {
    // By then, earlier events are in the ring, and facts are up to a second old.
    std::thread::sleep(Duration::from_millis(1500));
    let asked = agent.facts().counters["tls_looks_at_processes_asked"];
    let end = Instant::now() + Duration::from_secs(60);
    while agent.facts().counters["tls_looks_at_processes_done"] < asked {
        assert!(Instant::now() < end, "{:?}", agent.facts().counters);
        std::thread::sleep(Duration::from_millis(20));
    }
    // Then waits for the probes of what was found.
    std::thread::sleep(Duration::from_millis(200));
}
