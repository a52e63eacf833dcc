//! Runs the program and communicates with it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The program, without the developer's own settings.
pub(crate) fn spanwise(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.current_dir(directory).env_clear().env("HOME", directory).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    spanwise(directory).args(arguments).output().expect("the program runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Flags for free ports.
pub(crate) const PORTS: [&str; 16] = [
    "--http",
    "0",
    "--otlp-grpc",
    "0",
    "--otlp-http",
    "0",
    "--zipkin",
    "0",
    "--jaeger-grpc",
    "0",
    "--jaeger-http",
    "0",
    "--jaeger-udp-compact",
    "0",
    "--jaeger-udp-binary",
    "off",
];

/// A running server. It is killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Its output at startup.
    pub(crate) banner: String,
    pub(crate) http: SocketAddr,
    pub(crate) otlp_http: SocketAddr,
    pub(crate) otlp_grpc: SocketAddr,
}

impl Server {
    /// Starts `spanwise SUBCOMMAND` on free ports with its data in `directory`. `more` may name
    /// other ports.
    pub(crate) fn start(directory: &Path, subcommand: &str, more: &[&str]) -> Self {
        let ports = PORTS.chunks(2).filter(|pair| !more.contains(&pair[0])).flatten();
        let mut child = spanwise(directory)
            .arg(subcommand)
            .args(ports)
            .args(["--data", "data"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut banner = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            let end = line.trim().is_empty();
            banner.push_str(&line);
            banner.push('\n');
            if end {
                break;
            }
        }
        let address = |name: &str| -> Option<SocketAddr> {
            let line = banner.lines().find(|line| line.trim_start().starts_with(name))?;
            let word = line.split_whitespace().find(|word| word.contains("127.0.0.1:"))?;
            word.trim_start_matches("http://").split('/').next()?.parse().ok()
        };
        let found = (address("UI and API"), address("OTLP gRPC"), address("OTLP HTTP"));
        let (Some(http), Some(otlp_grpc), Some(otlp_http)) = found else {
            let _ = child.kill();
            let mut log = String::new();
            let _ = child.stderr.take().expect("piped").read_to_string(&mut log);
            panic!("the server did not come up; it printed:\n{banner}{log}");
        };
        // The log must be read, because a full pipe would block the program.
        let mut log = child.stderr.take().expect("piped");
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::stderr()));
        Self { child, banner, http, otlp_http, otlp_grpc }
    }

    /// Runs a subcommand against the server. It must succeed.
    pub(crate) fn ask(&self, directory: &Path, arguments: &[&str]) -> String {
        let url = format!("http://{}", self.http);
        let output =
            spanwise(directory).args(arguments).args(["--url", &url]).output().expect("it runs");
        assert!(
            output.status.success(),
            "spanwise {arguments:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Repeats a query until the answer contains `wanted`.
    pub(crate) fn ask_until(&self, directory: &Path, arguments: &[&str], wanted: &str) -> String {
        let began = Instant::now();
        loop {
            let answer = self.ask(directory, arguments);
            if answer.contains(wanted) {
                return answer;
            }
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{arguments:?} never answered `{wanted}`, but:\n{answer}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signalled");
    }

    /// Waits for the server to end, with a timeout.
    pub(crate) fn wait(&mut self, at_most: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < at_most {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends an HTTP request. Returns the status code and the body.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> (u16, String) {
    request(address, "POST", path, body)
}

fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
    (code, body)
}

/// Gets a path. Returns the status code and the body.
pub(crate) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    request(address, "GET", path, "")
}

/// An OTLP/JSON request with a server span and a failed child that begin now.
pub(crate) fn otlp(trace_id: &str, service: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("1970");
    let begin = now.as_nanos();
    let parent = &trace_id[..16];
    let child = &trace_id[16..];
    serde_json::json!({"resourceSpans": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
        "scopeSpans": [{"spans": [
            {
                "traceId": trace_id, "spanId": parent, "name": "GET /cart", "kind": 2,
                "startTimeUnixNano": begin.to_string(),
                "endTimeUnixNano": (begin + 25_000_000).to_string(),
                "attributes": [{"key": "http.response.status_code", "value": {"intValue": "500"}}],
                "status": {"code": 2},
            },
            {
                "traceId": trace_id, "spanId": child, "parentSpanId": parent, "name": "price",
                "kind": 1, "startTimeUnixNano": (begin + 5_000_000).to_string(),
                "endTimeUnixNano": (begin + 15_000_000).to_string(),
                "status": {"code": 2, "message": "no price"},
            },
        ]}],
    }]})
    .to_string()
}
