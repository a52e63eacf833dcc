//! An S3 server for tests: the Versity gateway over a directory, in a separate process.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use spanwise_store::embedded::ObjectStorageConfig;

const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw";
/// Go verifies this version against its public checksum database.
const VERSION: &str = "v1.8.0";
const BUCKET: &str = "traces";
const USER: &str = "tester";
const PASSWORD: &str = "secret/with+signs";

/// A running server. It is killed when dropped.
pub(crate) struct S3 {
    child: Option<Child>,
    pub(crate) port: u16,
    directory: PathBuf,
}

/// The gateway, which is installed if it is missing.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(directory).expect("a directory");
        // Only one of several parallel test programs installs it.
        let lock = File::create(directory.join("versitygw.lock")).expect("a lock");
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
        let into = directory.join(format!("versitygw-{VERSION}"));
        let program = into.join("versitygw");
        if !program.exists() {
            let install = format!("{MODULE}@{VERSION}");
            let output = Command::new("go")
                .args(["install", &install])
                .env("GOBIN", &into)
                .env("GOFLAGS", "-mod=mod")
                .output()
                .unwrap_or_else(|error| {
                    panic!("go: {error}. The tests of object storage need Go 1.26 or newer")
                });
            assert!(
                output.status.success(),
                "go install {install} failed. The tests of object storage need Go 1.26 or newer, \
                 and its module proxy to be reachable:\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        program
    })
}

impl S3 {
    /// Starts a server with its buckets in this directory and creates one bucket.
    pub(crate) fn start(directory: &Path) -> Self {
        std::fs::create_dir_all(directory.join(BUCKET)).expect("a bucket");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let mut server = Self { child: None, port, directory: directory.to_owned() };
        server.start_again();
        server
    }

    /// Restarts it with the same buckets and port.
    pub(crate) fn start_again(&mut self) {
        let child = Command::new(program())
            .args(["--quiet", "--access", USER, "--secret", PASSWORD])
            .args(["--port", &format!("127.0.0.1:{}", self.port), "posix"])
            .arg(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the gateway starts");
        self.child = Some(child);
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "the gateway does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    }

    /// The store's configuration: upload at once and keep no copies.
    pub(crate) fn config(&self, prefix: &str) -> ObjectStorageConfig {
        config(self.port, prefix, PASSWORD)
    }

    /// The directory of a prefix's objects.
    pub(crate) fn objects(&self, prefix: &str) -> PathBuf {
        self.directory.join(BUCKET).join(prefix)
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn config(port: u16, prefix: &str, password: &str) -> ObjectStorageConfig {
    let options = [
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
        ("AWS_ACCESS_KEY_ID", USER.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", password.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ];
    ObjectStorageConfig {
        cache_max_bytes: 0,
        upload_after: Duration::ZERO,
        options: options.map(|(name, value)| (name.to_owned(), value)).into(),
        ..ObjectStorageConfig::new(format!("s3://{BUCKET}/{prefix}"))
    }
}
