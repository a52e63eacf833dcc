//! A ClickHouse for tests: chDB behind a small HTTP server, in a separate process.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A running ClickHouse. It is killed when dropped, or when the test process ends.
pub(crate) struct ClickHouse {
    child: Child,
    /// Closing it ends the server.
    _alive: Option<ChildStdin>,
    pub(crate) port: u16,
    data: PathBuf,
}

pub(crate) fn here(name: &str) -> PathBuf {
    // The tests of `spanwise` use this file, too.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/clickhouse").join(name)
}

/// A Python with chDB, which is installed if it is missing.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let requirements = here("requirements.txt");
        let pinned = std::fs::read_to_string(&requirements).expect("the requirements");
        let version = pinned.split("==").nth(1).and_then(|rest| rest.split_whitespace().next());
        let name = format!("chdb-{}", version.expect("a pinned version"));
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(directory).expect("a directory");
        // Only one of several parallel test programs installs it.
        let lock = File::create(directory.join("chdb.lock")).expect("a lock");
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
        let (venv, ready) = (directory.join(&name), directory.join(format!("{name}.ready")));
        let python = venv.join("bin/python3");
        if !ready.exists() {
            let _ = std::fs::remove_dir_all(&venv);
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
            run(Command::new(&python)
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .args(["--no-deps", "--require-hashes", "--requirement"])
                .arg(&requirements));
            File::create(&ready).expect("noted");
        }
        python
    })
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| {
        panic!(
            "{command:?}: {error}. The ClickHouse tests need python3 with venv; `make setup` \
             installs them"
        )
    });
    assert!(
        output.status.success(),
        "{command:?} failed. The ClickHouse tests need python3 with venv (`make setup`) and PyPI \
         to be reachable:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

impl ClickHouse {
    /// Starts a server with its data in this directory, on this port, or on any port if 0.
    pub(crate) fn start(data: &Path, port: u16) -> Self {
        let mut child = Command::new(python())
            .arg(here("shim.py"))
            .arg("--data")
            .arg(data)
            .args(["--port", &port.to_string(), "--user", USER, "--password", PASSWORD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the shim starts");
        let alive = child.stdin.take();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut line).expect("a line");
        let port = line.trim().strip_prefix("listening on ").and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("the shim did not start; it said `{line}`"));
        Self { child, _alive: alive, port, data: data.to_owned() }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }

    /// Restarts it with the same data and port.
    pub(crate) fn start_again(&mut self) {
        *self = Self::start(&self.data, self.port);
    }

    /// The address of one of its databases, for the store.
    pub(crate) fn address(&self, database: &str) -> String {
        address(self.port, database)
    }

    /// Runs a statement and returns the answer.
    pub(crate) fn ask(&self, statement: &str) -> String {
        ask(self.port, statement)
    }

    /// Creates a new database.
    pub(crate) fn new_database(&self) -> String {
        let name = new_name();
        self.ask(&format!("CREATE DATABASE {name}"));
        name
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) const USER: &str = "spanwise";
/// Contains characters that must be escaped in URLs and in statements.
pub(crate) const PASSWORD: &str = "p@ss/w%rd'";

/// Runs a statement on the server at this port and returns the answer.
pub(crate) fn ask(port: u16, statement: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-ClickHouse-User: {USER}\r\n\
         X-ClickHouse-Key: {PASSWORD}\r\nContent-Length: {}\r\n\r\n{statement}",
        statement.len()
    )
    .expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    // Plans contain raw bytes of ids.
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200"), "{statement}: {body}");
    body.trim_end().to_owned()
}

/// A new database name.
pub(crate) fn new_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn address(port: u16, database: &str) -> String {
    format!("clickhouse://{USER}:p%40ss%2Fw%25rd'@127.0.0.1:{port}/{database}")
}

/// The server that tests share. Each test has its own database.
pub(crate) fn shared() -> &'static ClickHouse {
    static SHARED: OnceLock<(ClickHouse, tempfile::TempDir)> = OnceLock::new();
    let (server, _) = SHARED.get_or_init(|| {
        let data = tempfile::tempdir().expect("a directory");
        (ClickHouse::start(data.path(), 0), data)
    });
    server
}
