//! Programs that tests run, and where.

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

/// A directory that goes with the test, and that no other test has: tests of one name
/// run side by side.
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

/// A port that nobody listens on, and that no test has been given. It lies below those
/// that the kernel gives to clients: another test's connection could take one of them
/// before the server does.
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
