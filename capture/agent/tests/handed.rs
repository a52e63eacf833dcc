//! Work that a JVM hands between its threads, with the helper (`agents/jvm`): real servers under
//! load, and a running agent. The truth is in the paths: a call has the token of its request, and
//! background calls have another one.
//!
//! These tests load BPF programs, so they need the rights for that and fail without.

mod support;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use spanwise_capture_agent::{Agent, AgentConfig};
use spanwise_model::{AttributeValue, Capture, Span, SpanBatch};
use support::programs::{Running, free_port, wait_for};

/// Calls of each request.
const CALLS: usize = 6;
/// The token of background calls.
const NOBODY: &str = "none";

/// The JDKs of this host on which the server runs, with their versions: the oldest and the newest.
fn jdks() -> Vec<(u32, PathBuf)> {
    let homes = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let homes = homes.map(|home| home.path()).chain(std::env::var_os("JAVA_HOME").map(Into::into));
    let version = |home: PathBuf| {
        let told = Command::new(home.join("bin/java")).arg("-version").output().ok()?;
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        let version = told.split('"').nth(1)?.split('.').next()?.parse::<u32>().ok()?;
        // Only JDKs with a compiler, because others may be incomplete.
        home.join("bin/javac").exists().then_some((version, home.join("bin/java")))
    };
    let mut found: Vec<_> = homes.filter_map(version).filter(|(major, _)| *major >= 17).collect();
    found.sort();
    found.dedup_by_key(|(major, _)| *major);
    let last = found.len().saturating_sub(1);
    found
        .into_iter()
        .enumerate()
        .filter(|(at, _)| [0, last].contains(at))
        .map(|(_, jdk)| jdk)
        .collect()
}

fn directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn helper() -> PathBuf {
    let jar = directory().join("../../target/java-helper/spanwise-java-helper.jar");
    assert!(jar.exists(), "{} is not there: `make java-helper` builds it", jar.display());
    jar
}

/// The server, compiled once.
fn classes() -> &'static Path {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("handed-classes");
        let javac = jdks().first().expect("a JDK").1.with_file_name("javac");
        let mut command = Command::new(javac);
        command.args(["--release", "17", "-d"]).arg(&classes);
        let done = command.arg(directory().join("tests/runtimes/Handed.java")).status();
        assert!(done.expect("it runs").success());
        classes
    })
}

fn python(script: &str, arguments: &[String]) -> Command {
    let mut command = Command::new("python3");
    command.arg(directory().join("tests/runtimes").join(script)).args(arguments);
    command.stdout(Stdio::null());
    command
}

/// How calls were linked.
#[derive(Debug, Default)]
struct Found {
    requests: usize,
    calls: usize,
    /// Certain links to the right request,
    right: usize,
    /// and to a wrong one.
    wrong: usize,
    others: HashMap<String, usize>,
}

/// Runs the server by this command.
fn run(java: &[&str], how: &str, concurrency: usize, requests: usize) -> Found {
    // Held by each test, because an agent counts the virtual machines of all tests.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (port, backend) = (free_port(), free_port());
    let served = python("backend.py", &[backend.to_string()]).spawn().expect("it runs");
    let _backend = Running(served);
    wait_for(backend);
    let (send, batches) = channel();
    let deliver = Box::new(move |batch| {
        let _ = send.send(batch);
    });
    let agent = Agent::start(AgentConfig::default(), deliver).expect("BPF is allowed here");
    let mut command = Command::new(java[0]);
    command
        .args(&java[1..])
        .arg(format!("-javaagent:{}", helper().display()))
        .arg("-Dhttp.maxConnections=64");
    command.arg("-cp").arg(classes()).arg("Handed");
    command.args([&port.to_string(), &backend.to_string(), how]).stdout(Stdio::null());
    let _server = Running(command.spawn().expect("it runs"));
    wait_for(port);
    let end = Instant::now() + Duration::from_secs(20);
    while agent
        .facts()
        .counters
        .get("processes_with_handed_work_followed")
        .is_none_or(|count| *count < 1)
    {
        assert!(Instant::now() < end, "{:?}", agent.facts().counters);
        std::thread::sleep(Duration::from_millis(20));
    }
    let words =
        [&port.to_string(), &concurrency.to_string(), &requests.to_string(), "pooled", "in"];
    let asked = python("load.py", &words.map(str::to_owned)).status().expect("it runs");
    assert!(asked.success(), "{asked}");
    std::thread::sleep(Duration::from_millis(500));
    let lost = agent.facts().counters["kernel_events_lost_ring_full"];
    agent.stop();
    let mut spans: Vec<Span> = Vec::new();
    for batch in batches.try_iter() {
        let batch = SpanBatch::try_from(batch).expect("the span schema");
        spans.extend(batch.spans().map(|span| span.expect("a span")));
    }
    let found = found(&spans, port, backend);
    eprintln!("{java:?} {how} {concurrency}, {lost} events lost: {found:?}");
    // A slow host loses events. The links must be right anyway.
    if lost == 0 {
        assert_eq!(found.requests, concurrency * requests, "{found:?}");
        assert_eq!(found.calls, found.requests * CALLS, "{found:?}");
    }
    found
}

fn path(span: &Span) -> Option<&str> {
    span.attributes.iter().find_map(|(key, value)| match value {
        AttributeValue::String(path) if key == "url.path" => Some(path.as_str()),
        _ => None,
    })
}

fn found(spans: &[Span], port: u16, backend: u16) -> Found {
    let to = |port: u16, capture: Capture| {
        let wanted =
            move |span: &&Span| span.flow.server_port == Some(port) && span.capture == capture;
        spans.iter().filter(wanted)
    };
    let requests: HashMap<u64, &str> = to(port, Capture::ServerProcess)
        .filter_map(|span| Some((span.fragment_id?, path(span)?.rsplit('/').next()?)))
        .collect();
    let mut found = Found { requests: requests.len(), ..Found::default() };
    for call in to(backend, Capture::ClientProcess) {
        let Some(token) = path(call).and_then(|path| path.split('/').nth(2)) else { continue };
        found.calls += usize::from(token != NOBODY);
        let request = call.fragment_id.and_then(|fragment| requests.get(&fragment));
        let certain = call.confidence.is_some_and(|confidence| confidence >= 0.999);
        match request {
            Some(request) if certain && *request == token => found.right += 1,
            Some(_) if certain => found.wrong += 1,
            Some(request) => {
                let right = if *request == token { "right" } else { "wrong" };
                let which = format!("{:?} {:?} {right}", call.evidence, call.confidence);
                *found.others.entry(which).or_default() += 1;
            }
            None if token == NOBODY => {}
            None => *found.others.entry(format!("{:?}", call.evidence)).or_default() += 1,
        }
    }
    found
}

/// Each way on each JDK: no certain link is wrong, and nearly every call has one.
fn is_followed(how: &str, from: u32) {
    let jdks: Vec<_> = jdks().into_iter().filter(|(major, _)| *major >= from).collect();
    if jdks.is_empty() {
        eprintln!("not tested: there is no JDK of version {from} or newer below /usr/lib/jvm");
    }
    for (_, java) in jdks {
        let found = run(&[&java.to_string_lossy()], how, 32, 8);
        assert_eq!(found.wrong, 0, "{found:?}");
        assert!(found.right * 100 >= found.calls * 99, "{found:?}");
    }
}

#[test]
fn work_in_a_fixed_pool() {
    is_followed("pool", 17);
}

#[test]
fn chains_of_futures() {
    is_followed("futures", 17);
}

#[test]
fn requests_that_the_jdks_client_sends() {
    is_followed("client", 17);
}

#[test]
fn calls_at_once_from_a_pool() {
    is_followed("parallel", 17);
}

#[test]
fn parallel_streams() {
    is_followed("stream", 17);
}

#[test]
fn scheduled_work() {
    is_followed("later", 17);
}

#[test]
fn children_of_virtual_threads() {
    is_followed("virtual", 24);
}

/// A started thread may later work for others, so its calls are guesses, which should be right.
#[test]
fn threads_that_requests_start() {
    for (_, java) in jdks() {
        let found = run(&[&java.to_string_lossy()], "thread", 16, 8);
        assert_eq!(found.wrong, 0, "{found:?}");
        let likely = found.others.get("Some(Task) Some(0.95) right").copied().unwrap_or_default();
        assert!((found.right + likely) * 100 >= found.calls * 99, "{found:?}");
    }
}

/// In a namespace where thread ids differ from those that the kernel side sees.
#[test]
fn in_a_namespace_of_its_own() {
    let jdks = jdks();
    let Some((_, java)) = jdks.first() else {
        eprintln!("not tested: there is no JDK below /usr/lib/jvm");
        return;
    };
    let java = java.to_string_lossy();
    let inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", &java];
    let found = run(&inside, "pool", 16, 4);
    assert_eq!(found.wrong, 0, "{found:?}");
    assert!(found.right * 100 >= found.calls * 99, "{found:?}");
}

/// From hundreds of concurrent requests down to one.
#[test]
#[ignore = "takes minutes"]
fn any_number_at_once() {
    for (_, java) in jdks() {
        for how in ["pool", "futures", "client", "parallel", "stream", "later"] {
            for (concurrency, requests) in [(256, 4), (64, 10), (8, 20), (1, 40)] {
                let found = run(&[&java.to_string_lossy()], how, concurrency, requests);
                assert_eq!(found.wrong, 0, "{found:?}");
                assert!(found.right * 100 >= found.calls * 99, "{found:?}");
            }
        }
    }
}
