//! For which request of a server a call was made, if one thread serves many: real Python and Java
//! servers under load, and a running agent. The truth is in the paths: a call has the token of its
//! request.
//!
//! These tests load BPF programs, so they need the rights for that and fail without.

mod support;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use spanwise_capture_agent::{Agent, AgentConfig};
use spanwise_model::{AttributeValue, Capture, Evidence, Span, SpanBatch};
use support::programs::{Running, free_port, wait_for};

/// Python packages of the servers, from PyPI.
const PACKAGES: &[&str] = &[
    "uvicorn==0.54.0",
    "httptools==0.9.0",
    "starlette==1.10.0",
    "httpx==0.28.1",
    "uvloop==0.23.0",
    "aiohttp==3.14.5",
    "gevent==26.9.0",
];
/// Calls of each request.
const CALLS: usize = 6;

/// The directory of the packages, which are installed once.
fn packages() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-packages");
    let done = directory.join(PACKAGES.join(","));
    if done.exists() {
        return directory;
    }
    let installed = Command::new("python3")
        .args(["-m", "pip", "install", "-q", "--upgrade", "--target"])
        .arg(&directory)
        .args(PACKAGES)
        .output()
        .expect("python3 runs");
    assert!(installed.status.success(), "{installed:?}");
    std::fs::write(done, "").expect("a file");
    directory
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtimes")
}

/// A Python test server. For checks of the version tables, `SPANWISE_PYTHON` names another
/// interpreter that has the server's packages.
fn server(packages: &Path, script: &str, arguments: &[String]) -> Command {
    let Some(interpreter) = std::env::var_os("SPANWISE_PYTHON") else {
        return python(packages, script, arguments);
    };
    let mut command = Command::new(interpreter);
    command.arg(scripts().join(script)).args(arguments).stdout(Stdio::null());
    command
}

fn python(packages: &Path, script: &str, arguments: &[String]) -> Command {
    let mut command = Command::new("python3");
    command.arg(scripts().join(script)).args(arguments).env("PYTHONPATH", packages);
    command.stdout(Stdio::null());
    command
}

/// A server under load.
struct Load<'a> {
    /// A script, or the path of a `java` for the Java program.
    program: &'a str,
    arguments: &'a [&'a str],
    concurrency: usize,
    requests: usize,
    pooled: bool,
}

/// How calls were linked.
#[derive(Debug, Default)]
struct Found {
    requests: usize,
    calls: usize,
    /// Certain links by task to the right request,
    right: usize,
    /// and to a wrong one.
    wrong: usize,
    /// Likely links by the creator of the task or thread, right and wrong.
    guessed: usize,
    guessed_wrong: usize,
    others: HashMap<String, usize>,
}

impl Load<'_> {
    fn is_java(&self) -> bool {
        !self.program.ends_with(".py")
    }

    fn run(&self) -> Found {
        let packages = packages();
        let (port, backend) = (free_port(), free_port());
        let _backend = Running(
            python(&packages, "backend.py", &[backend.to_string()]).spawn().expect("it runs"),
        );
        wait_for(backend);
        let (send, batches) = channel();
        let deliver = Box::new(move |batch| {
            let _ = send.send(batch);
        });
        let agent = Agent::start(AgentConfig::default(), deliver).expect("BPF is allowed here");
        let mut arguments = vec![port.to_string(), backend.to_string()];
        arguments.extend(self.arguments.iter().map(ToString::to_string));
        let mut command = if self.is_java() {
            let source = scripts().join("Server.java");
            let mut command = Command::new(self.program);
            command.arg(source).args(&arguments).stdout(Stdio::null());
            command
        } else {
            server(&packages, self.program, &arguments)
        };
        let server = Running(command.spawn().expect("it runs"));
        wait_for(port);
        wait_until_followed(&agent, self.is_java());
        // Python may have loaded uvloop since it was examined.
        std::thread::sleep(Duration::from_millis(1500));
        let way = if self.pooled { "pooled" } else { "fresh" };
        let load = [port.to_string(), self.concurrency.to_string(), self.requests.to_string()];
        let load = [&load[..], &[way.to_owned(), "in".to_owned()]].concat();
        let asked = python(&packages, "load.py", &load).status().expect("it runs");
        assert!(asked.success(), "{asked}");
        // Some calls are made after the last response.
        std::thread::sleep(Duration::from_millis(500));
        let counters = agent.facts().counters;
        let process = server.0.id();
        agent.stop();
        let spans: Vec<Span> = batches
            .try_iter()
            .flat_map(|batch| {
                let batch = SpanBatch::try_from(batch).expect("the span schema");
                batch.spans().map(|span| span.expect("a span")).collect::<Vec<_>>()
            })
            .collect();
        let lost = counters["kernel_events_lost_ring_full"];
        let found = found(&spans, port, backend, process);
        eprintln!(
            "{} {:?} {} pooled {}, {lost} events lost: {found:?}",
            self.program, self.arguments, self.concurrency, self.pooled
        );
        // A slow host loses events. The links must be right anyway.
        if lost == 0 {
            assert_eq!(found.requests, self.concurrency * self.requests, "{found:?}");
            assert_eq!(found.calls, found.requests * CALLS, "{found:?}");
        }
        found
    }
}

/// Waits until the agent can read the tasks of the servers.
fn wait_until_followed(agent: &Agent, java: bool) {
    let end = Instant::now() + Duration::from_secs(20);
    let (name, servers) = match java {
        true => ("processes_with_virtual_threads_followed", 1),
        false => ("processes_with_python_contexts_followed", 2),
    };
    while agent.facts().counters.get(name).is_none_or(|count| *count < servers) {
        assert!(Instant::now() < end, "{:?}", agent.facts().counters);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn path(span: &Span) -> Option<&str> {
    span.attributes.iter().find_map(|(key, value)| match value {
        AttributeValue::String(path) if key == "url.path" => Some(path.as_str()),
        _ => None,
    })
}

fn found(spans: &[Span], port: u16, backend: u16, process: u32) -> Found {
    let to = |port: u16, capture: Capture| {
        spans
            .iter()
            .filter(move |span| span.flow.server_port == Some(port) && span.capture == capture)
    };
    let requests: HashMap<u64, &str> = to(port, Capture::ServerProcess)
        .filter_map(|span| Some((span.fragment_id?, path(span)?.rsplit('/').next()?)))
        .collect();
    let mut found = Found { requests: requests.len(), ..Found::default() };
    for call in to(backend, Capture::ClientProcess) {
        if call.process_id != Some(process) {
            continue;
        }
        let Some(token) = path(call).and_then(|path| path.split('/').nth(2)) else { continue };
        found.calls += 1;
        let request = call.fragment_id.and_then(|fragment| requests.get(&fragment));
        let certain = call.confidence.is_some_and(|confidence| confidence >= 0.999);
        match request {
            Some(request) if certain && *request == token => found.right += 1,
            Some(_) if certain => {
                found.wrong += 1;
                let number = path(call).and_then(|path| path.rsplit('/').next());
                let which = format!("wrong: {number:?} {:?}", call.evidence);
                *found.others.entry(which).or_default() += 1;
            }
            Some(request) if matches!(call.evidence, Some(Evidence::Task | Evidence::Thread)) => {
                let right = *request == token;
                found.guessed += usize::from(right);
                found.guessed_wrong += usize::from(!right);
            }
            Some(request) => {
                let right = if *request == token { "right" } else { "wrong" };
                let which = format!("{:?} {:?} {right}", call.evidence, call.confidence);
                *found.others.entry(which).or_default() += 1;
            }
            None => *found.others.entry(format!("{:?}", call.evidence)).or_default() += 1,
        }
    }
    found
}

/// No link is wrong, and nearly every call has one. How many are certain depends on the moment:
/// links of tasks that a request starts become so when enough of them were seen to end with it.
fn is_followed(load: &Load<'_>) {
    let found = load.run();
    assert_eq!((found.wrong, found.guessed_wrong), (0, 0), "{found:?}");
    assert!((found.right + found.guessed) * 100 >= found.calls * 95, "{found:?}");
}

fn both_ways(program: &str, arguments: &[&str]) {
    for pooled in [true, false] {
        is_followed(&Load { program, arguments, concurrency: 32, requests: 8, pooled });
    }
}

#[test]
fn asyncio_streams() {
    both_ways("streams_app.py", &[]);
}

#[test]
fn asyncio_protocols() {
    both_ways("protocol_app.py", &[]);
}

#[test]
fn uvicorn_on_asyncio() {
    both_ways("uvicorn_app.py", &["asyncio", "h11"]);
    both_ways("uvicorn_app.py", &["asyncio", "httptools"]);
}

#[test]
fn uvicorn_on_uvloop() {
    both_ways("uvicorn_app.py", &["uvloop", "httptools"]);
}

#[test]
fn aiohttp() {
    both_ways("aiohttp_app.py", &[]);
}

/// A JDK with supported virtual threads: 24 and newer.
fn jdk() -> Option<String> {
    let homes = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let homes = homes.map(|home| home.path()).chain(std::env::var_os("JAVA_HOME").map(Into::into));
    homes.map(|home| home.join("bin/java").to_string_lossy().into_owned()).find(|java| {
        let Ok(told) = Command::new(java).arg("-version").output() else { return false };
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        let version = told.split('"').nth(1).and_then(|version| version.split('.').next());
        version.and_then(|version| version.parse::<u32>().ok()).is_some_and(|major| major >= 24)
    })
}

#[test]
fn virtual_threads() {
    let Some(java) = jdk() else {
        eprintln!("not tested: there is no JDK of version 24 or newer below /usr/lib/jvm");
        return;
    };
    both_ways(&java, &["url"]);
}

/// The JDK's HTTP client passes requests to its own threads. Calls may remain unlinked, but must
/// not have a wrong link.
#[test]
fn calls_that_other_threads_write_are_not_linked_to_a_wrong_request() {
    let Some(java) = jdk() else {
        eprintln!("not tested: there is no JDK of version 24 or newer below /usr/lib/jvm");
        return;
    };
    let load =
        Load { program: &java, arguments: &["client"], concurrency: 32, requests: 8, pooled: true };
    assert_eq!(load.run().wrong, 0);
}

/// Three of six calls are made by the greenlet or thread that serves the request, and are certain.
/// The other three are made by greenlets or threads that it starts. These are likely, because they
/// might belong to a pool.
fn is_followed_by_halves(program: &str, arguments: &[&str], pooled: bool) {
    let found = Load { program, arguments, concurrency: 32, requests: 20, pooled }.run();
    assert_eq!(found.wrong, 0, "{found:?}");
    assert_eq!(found.guessed_wrong, 0, "{found:?}");
    // Threads of requests, and those that they start, must first be observed. The slower the host,
    // the more calls are made before that.
    assert!(found.right * 100 >= found.calls * 40, "{found:?}");
    assert!((found.right + found.guessed) * 100 >= found.calls * 60, "{found:?}");
}

#[test]
fn greenlets() {
    for pooled in [true, false] {
        is_followed_by_halves("gevent_app.py", &["spawn"], pooled);
    }
}

/// With gevent, threads are greenlets, and so are those of a pool that requests share.
#[test]
fn a_pool_of_greenlets_is_nobodys_for_certain() {
    let arguments = &["pool"];
    let program = "gevent_app.py";
    let found = Load { program, arguments, concurrency: 32, requests: 10, pooled: true }.run();
    assert_eq!(found.wrong, 0, "{found:?}");
    assert!(found.right * 100 >= found.calls * 47, "{found:?}");
    assert_eq!(found.guessed_wrong, 0, "{found:?}");
}

#[test]
fn threads_that_requests_start() {
    is_followed_by_halves("threads_app.py", &["thread"], true);
    is_followed_by_halves("threads_app.py", &["thread"], false);
    is_followed_by_halves("threads_app.py", &["pool"], true);
}

#[test]
fn threads_that_requests_start_in_java() {
    let Some(java) = jdk() else {
        eprintln!("not tested: there is no JDK of version 24 or newer below /usr/lib/jvm");
        return;
    };
    is_followed_by_halves(&java, &["threads"], true);
}

#[test]
fn a_pool_of_threads_is_nobodys_for_certain() {
    let arguments = &["shared"];
    let program = "threads_app.py";
    let found = Load { program, arguments, concurrency: 32, requests: 10, pooled: true }.run();
    assert_eq!(found.wrong, 0, "{found:?}");
    assert!(found.right * 100 >= found.calls * 40, "{found:?}");
    assert_eq!(found.guessed_wrong, 0, "{found:?}");
}

/// Calls of workers belong to no request, and those of tasks that outlive their request do not
/// belong to the next one.
#[test]
fn hard_cases_are_linked_rightly_or_not() {
    for arguments in [&["asyncio"], &["uvloop"]] {
        let program = "hard_app.py";
        let load = Load { program, arguments, concurrency: 16, requests: 10, pooled: true };
        let found = load.run();
        assert_eq!((found.wrong, found.guessed_wrong), (0, 0), "{found:?}");
        assert!((found.right + found.guessed) * 3 >= found.calls, "{found:?}");
    }
}

/// From hundreds of concurrent requests down to one.
#[test]
#[ignore = "takes minutes"]
fn any_number_at_once() {
    for (concurrency, requests) in [(256, 3), (64, 5), (8, 10), (1, 40)] {
        for arguments in [&["asyncio", "h11"], &["uvloop", "httptools"]] {
            for pooled in [true, false] {
                let program = "uvicorn_app.py";
                is_followed(&Load { program, arguments, concurrency, requests, pooled });
            }
        }
    }
}

/// Processor time of a process in microseconds.
fn cpu_micros(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives");
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks * 10_000
}

/// The cost of following contexts for a server that does almost nothing.
#[test]
#[ignore = "a measurement: run it alone, with --release"]
fn what_following_costs() {
    const REQUESTS: u64 = 8 * 600;
    let packages = packages();
    for (event_loop, parser) in
        [("asyncio", "h11"), ("asyncio", "httptools"), ("uvloop", "httptools")]
    {
        let mut micros: HashMap<&str, Vec<u64>> = HashMap::new();
        for way in ["unseen", "threads", "contexts"].repeat(3) {
            let port = free_port();
            let arguments = [&port.to_string(), "1", event_loop, parser].map(ToString::to_string);
            let mut server = python(&packages, "uvicorn_app.py", &arguments);
            server.env("SPANWISE_TASKS", if way == "contexts" { "on" } else { "off" });
            let server = Running(server.spawn().expect("it runs"));
            wait_for(port);
            let agent = (way != "unseen").then(|| {
                Agent::start(AgentConfig::default(), Box::new(|_| {})).expect("BPF is allowed here")
            });
            std::thread::sleep(Duration::from_millis(1500));
            let before = cpu_micros(server.0.id());
            let load = [&port.to_string(), "8", "600", "pooled", "plain"].map(ToString::to_string);
            let asked = python(&packages, "load.py", &load).status().expect("it runs");
            assert!(asked.success(), "{asked}");
            micros
                .entry(way)
                .or_default()
                .push((cpu_micros(server.0.id()) - before) * 10 / REQUESTS);
            drop(agent);
        }
        eprintln!(
            "{event_loop} {parser}, tenths of a microsecond of the server a request: {micros:?}"
        );
    }
}
