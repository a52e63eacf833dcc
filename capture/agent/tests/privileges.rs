//! The agent with exactly the rights of its systemd unit must capture the same as with root's
//! rights.
//!
//! Needs root, to drop rights, and fails without.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use spanwise_capture_agent::{Agent, AgentConfig};
use spanwise_model::SpanBatch;
use support::programs::{Directory, Running, free_port, wait_for, wait_until_probed};

/// Set for the process that runs the agent: the number of files to probe.
const AS_AGENT: &str = "SPANWISE_TEST_AS_AGENT";
const NAME: &str = "with_the_rights_of_its_unit_the_agent_sees_all";

/// A setting of the unit.
fn setting(key: &str) -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/systemd/spanwise-agent.service");
    let text = std::fs::read_to_string(unit).expect("the unit is there");
    let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("the unit says nothing of {key}")).to_owned()
}

/// A list of capabilities in setpriv's format.
fn capabilities(key: &str) -> String {
    let list = std::env::var("SPANWISE_TEST_CAPABILITIES").unwrap_or_else(|_| setting(key));
    let each = list.split_whitespace().map(|name| {
        let name = name.strip_prefix("CAP_").expect("a capability").to_lowercase();
        format!(",+{name}")
    });
    format!("-all{}", each.collect::<String>())
}

/// Runs this program again as another user with the rights of the unit.
fn agent(directory: &Path) -> Child {
    let program = directory.join("agent");
    std::fs::copy(std::env::current_exe().expect("this program"), &program).expect("a copy");
    assert_eq!(setting("NoNewPrivileges"), "yes");
    let ambient = capabilities("AmbientCapabilities");
    Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"])
        .arg(format!("--bounding-set={}", capabilities("CapabilityBoundingSet")))
        .args([format!("--inh-caps={ambient}"), format!("--ambient-caps={ambient}")])
        .arg(program)
        .args(["--exact", NAME, "--nocapture"])
        .env(AS_AGENT, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("setpriv runs")
}

/// The agent's process: reports when it is ready, and prints its spans at the end.
fn run_agent() {
    let (send, batches) = channel();
    let deliver = Box::new(move |batch| {
        let _ = send.send(batch);
    });
    // Room for the other events of a busy host.
    let config = AgentConfig { ring_bytes: 64 << 20, ..AgentConfig::default() };
    let agent = Agent::start(config, deliver);
    let agent = agent.unwrap_or_else(|error| panic!("{error}"));
    if std::env::var("SPANWISE_TEST_CAPABILITIES").is_err() {
        wait_until_probed(&agent, 1);
    } else {
        std::thread::sleep(Duration::from_secs(3));
    }
    println!("\nready");
    let _ = std::io::stdin().read(&mut [0]);
    std::thread::sleep(Duration::from_millis(500));
    println!("counters {:?}", agent.stop().counters);
    for batch in batches.try_iter() {
        let batch = SpanBatch::try_from(batch).expect("the span schema");
        for span in batch.spans().map(|span| span.expect("a span")) {
            println!("span {} {} {}", span.capture, span.service, span.operation);
        }
    }
}

const SERVER: &str = "
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
";

/// A server run by root, optionally with a service name in its environment.
fn named(port: u16, name: Option<&str>) -> Running {
    let mut server = Command::new("python3");
    server.args(["-c", SERVER, &port.to_string()]).stdin(Stdio::null());
    if let Some(name) = name {
        server.env("OTEL_SERVICE_NAME", name);
    }
    let server = Running(server.spawn().expect("setpriv runs"));
    wait_for(port);
    server
}

fn nginx(directory: &Path, port: u16) -> Running {
    let config = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log; user root;
         events {{ worker_connections 64; }}
         http {{
            access_log off; client_body_temp_path {0}/body;
            server {{
                listen 127.0.0.1:{port} ssl;
                ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem;
                location / {{ return 200 \"one\\n\"; }}
            }}
         }}",
        directory.display()
    );
    std::fs::write(directory.join("nginx.conf"), config).expect("a configuration");
    let started = Command::new("nginx")
        .args(["-p".as_ref(), directory.as_os_str()])
        .args(["-c".as_ref(), directory.join("nginx.conf").as_os_str()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let running = Running(started.expect("nginx runs"));
    wait_for(port);
    running
}

/// curl's TLS library in a directory that only its owner can access.
fn private_copy(directory: &Path) -> PathBuf {
    let private = directory.join("private");
    std::fs::create_dir(&private).expect("a directory");
    let curl = Command::new("sh")
        .args(["-c", "ldd $(command -v curl) | grep -o '/[^ ]*libssl[^ ]*'"])
        .output()
        .expect("sh runs");
    let library = PathBuf::from(String::from_utf8(curl.stdout).expect("a path").trim());
    std::fs::copy(&library, private.join(library.file_name().expect("a name"))).expect("a copy");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&private, mode).expect("its owner may");
    private
}

#[test]
fn systemd_takes_the_unit() {
    let directory = Directory::new("unit");
    let path = directory.path().join("spanwise-agent.service");
    let unit = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/systemd/spanwise-agent.service");
    let unit = std::fs::read_to_string(unit).expect("the unit is there");
    // The program need not be installed on the test host.
    std::fs::write(&path, unit.replace("/usr/bin/spanwise", "/bin/true")).expect("a copy");
    let Ok(checked) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        eprintln!("skipped, no systemd-analyze here");
        return;
    };
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && !said.contains("spanwise-agent.service:"), "{said}");
}

#[test]
fn with_the_rights_of_its_unit_the_agent_sees_all() {
    if std::env::var_os(AS_AGENT).is_some() {
        return run_agent();
    }
    let directory = Directory::new("privileges");
    directory.certificate();
    let [secret, plain, other] = [free_port(), free_port(), free_port()];
    let _nginx = nginx(directory.path(), secret);
    let _named = named(plain, Some("a-name-of-its-own"));
    let _unnamed = named(other, None);
    let private = private_copy(directory.path());
    let mut agent = agent(directory.path());
    let mut lines = BufReader::new(agent.stdout.take().expect("piped")).lines();
    let ready = lines.by_ref().map(|line| line.expect("text")).find(|line| line == "ready");
    assert!(ready.is_some(), "the agent does not start: {:?}", agent.wait());
    let ask = |url: String, libraries: Option<&Path>| {
        let mut curl = Command::new("curl");
        if let Some(libraries) = libraries {
            // No other process uses these libraries. curl sends two requests, and is still running
            // when it is examined.
            curl.env("LD_LIBRARY_PATH", libraries).args(["--rate", "2/s", &url]);
        }
        let asked = curl.args(["-sSk", "--http1.1", &url]).stdout(Stdio::null()).status();
        assert!(asked.expect("curl runs").success());
    };
    ask(format!("http://127.0.0.1:{plain}/named"), None);
    ask(format!("http://127.0.0.1:{other}/unnamed"), None);
    // The agent may discover a library through the first run.
    for _ in 0..5 {
        ask(format!("https://127.0.0.1:{secret}/hidden"), None);
        ask(format!("https://127.0.0.1:{secret}/private"), Some(&private));
        std::thread::sleep(Duration::from_millis(700));
    }
    agent.stdin.take().expect("piped").write_all(b"\n").expect("it listens");
    let told: Vec<String> = lines.map(|line| line.expect("text")).collect();
    assert!(agent.wait().expect("it ends").success(), "{told:#?}");
    for expected in [
        format!("span server-process nginx:{secret} GET /hidden"),
        "span client-process curl GET /hidden".to_owned(),
        "span server-process a-name-of-its-own GET /named".to_owned(),
        format!(":{other} GET /unnamed"),
        "span client-process curl GET /private".to_owned(),
    ] {
        let seen = told.iter().any(|line| line.contains(&expected));
        assert!(seen, "{expected} is missing: {told:#?}");
    }
}

#[test]
fn as_root_the_reading_thread_takes_precedence_but_interrupts_nobody() {
    let agent = Agent::start(AgentConfig::default(), Box::new(|_| {})).expect("root");
    let scheduled = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("own threads");
        tasks.filter_map(Result::ok).find_map(|task| {
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            // Fields 19 and 41, counted from after the name (proc_pid_stat(5)).
            let mut fields = stat.rsplit(')').next()?.split_whitespace();
            let niceness = fields.nth(16)?.parse::<i32>().ok()?;
            let policy = fields.nth(21)?.parse::<i32>().ok()?;
            (name.trim() == "agent").then_some((niceness, policy))
        })
    };
    // The thread does this first, once it runs.
    let end = Instant::now() + Duration::from_secs(20);
    let expected = Some((-5, libc::SCHED_BATCH));
    while scheduled() != expected && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let scheduled = scheduled();
    agent.stop();
    assert_eq!(scheduled, expected);
}
