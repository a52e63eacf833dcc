//! Calls of programs that serve many concurrent requests belong to the right request: every request
//! has a token in its path, and its calls have the same one.
//!
//! These tests load BPF programs, so they need the rights for that and fail without. They need Go.

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use spanwise_capture_agent::{Agent, AgentConfig};
use spanwise_capture_ebpf::kernel::{Hook, HookChoice};
use spanwise_model::Capture;
use spanwise_model::unknown::{OPERATION, STATUS};
use support::agents::{trace, with};
use support::links::{Links, links};
use support::programs::{Directory, Running, free_port, wait_for, wait_until_looked_at};

/// Calls that the programs make for each request.
const CALLS: usize = 3;

/// A test program, built once with these flags.
fn built(module: &str, flags: &[&str]) -> PathBuf {
    static BUILDING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _building = BUILDING.lock();
    let name = format!("{module}-{}", flags.join("").replace(['=', ' '], ""));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tasks-{name}"));
    let made = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .args(flags)
        .arg(".")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tasks").join(module))
        .status();
    assert!(made.expect("go runs").success(), "the program of {module} is built");
    program
}

fn grpc() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("grpc", &[]))
}

fn http() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("go", &[]))
}

/// Waits until this many Go processes are followed.
fn wait_until_followed(agent: &Agent, count: u64) {
    let end = Instant::now() + Duration::from_secs(20);
    let name = "processes_with_goroutines_followed";
    while agent.facts().counters.get(name).is_none_or(|found| *found < count) {
        assert!(Instant::now() < end, "not followed: {:?}", agent.facts().counters);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The protocols between the programs.
#[derive(Clone, Copy)]
struct Kinds {
    program: &'static Path,
    /// Of the front, and of the load generator that calls it.
    front: [&'static str; 2],
    /// Of the backend, and of the front that calls it.
    backend: [&'static str; 2],
}

const CONCURRENCY: usize = 32;
const REQUESTS: usize = 640;

fn run(hook: HookChoice, kinds: Kinds, way: &str, concurrency: usize, requests: usize) -> Links {
    let directory = Directory::new(&format!("tasks-{way}"));
    directory.certificate();
    let ports = [free_port(), free_port()];
    let [front, backend] = ports.map(|port| port.to_string());
    let url = |kind: &str, port: u16| {
        let scheme = if kind.contains("tls") { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{port}")
    };
    let start = |arguments: &[&str]| {
        let mut command = Command::new(kinds.program);
        command.args(arguments).current_dir(directory.path()).stdin(Stdio::null());
        Running(command.spawn().expect("it was built"))
    };
    let record = std::env::var_os("SPANWISE_RECORD").map(PathBuf::from);
    let config = AgentConfig { tls: true, record, ..with(hook) };
    let traced = trace(config, |agent| {
        let _backend = start(&["backend", &backend, kinds.backend[0]]);
        wait_for(ports[1]);
        let behind = url(kinds.backend[0], ports[1]);
        let _front = start(&["front", &front, kinds.front[0], &behind, kinds.backend[1]]);
        wait_for(ports[0]);
        wait_until_looked_at(agent);
        wait_until_followed(agent, 2);
        let asked = url(kinds.front[0], ports[0]);
        let load = |letter: &str, concurrency: usize, requests: usize| {
            let done = Command::new(kinds.program)
                .args(["load", &asked, kinds.front[1], way, letter])
                .args([concurrency.to_string(), requests.to_string()])
                .status();
            assert!(done.expect("it was built").success());
        };
        // The creation of goroutines is observed only after it was needed once. The requests of
        // this load are not counted.
        load("u", 4, 40);
        std::thread::sleep(Duration::from_secs(2));
        load("t", 1, 20);
        load("t", concurrency, requests);
    });
    assert_eq!(traced.counters.get("kernel_events_lost_ring_full"), Some(&0));
    if std::env::var_os("SPANWISE_SAY").is_some() {
        for (name, value) in traced.counters.iter().filter(|(_, value)| **value > 0) {
            println!("{name} {value}");
        }
    }
    links(&traced, ports[0], ports[1])
}

/// Every linked call is right, and nearly all are linked.
fn check(hook: impl Into<HookChoice>, kinds: Kinds, way: &str) {
    check_at(hook, kinds, way, CONCURRENCY, REQUESTS);
}

fn check_at(
    hook: impl Into<HookChoice>,
    kinds: Kinds,
    way: &str,
    concurrency: usize,
    requests: usize,
) {
    let hook = hook.into();
    let links = run(hook, kinds, way, concurrency, requests);
    let Kinds { front, backend, .. } = kinds;
    println!("{hook}, {concurrency} at once, {way}, {front:?}, {backend:?}: {links:?}");
    let made = CALLS * (requests + 20);
    assert!(links.calls * 100 >= made * 99, "of {made} calls: {links:?}");
    assert_eq!(links.wrong, 0, "{links:?}");
    assert!(links.right * 100 >= links.calls * 99, "{links:?}");
}

fn plain() -> Kinds {
    Kinds { program: http(), front: ["plain", "pooled"], backend: ["plain", "pooled"] }
}

#[test]
fn a_shared_client_calls_for_the_goroutine_that_asks_it() {
    check(Hook::SockLength, plain(), "sequential");
    check(Hook::SockLength, plain(), "parallel");
}

#[test]
fn sys_exit_hooks_tell_goroutines_apart_too() {
    check(Hook::SysExitBtf, plain(), "parallel");
    check(Hook::SysExitRaw, plain(), "sequential");
    check(HookChoice::Older(Hook::SysExitBtf), plain(), "parallel");
}

#[test]
fn connections_for_one_call_each_are_followed() {
    let kinds = Kinds { backend: ["plain", "fresh"], front: ["plain", "fresh"], ..plain() };
    check(Hook::SockLength, kinds, "parallel");
}

#[test]
fn goroutines_of_goroutines_are_followed() {
    check(Hook::SockLength, plain(), "deep");
}

#[test]
fn encrypted_calls_are_followed() {
    let tls = Kinds { backend: ["tls", "pooled"], front: ["tls", "pooled"], ..plain() };
    check(Hook::SockLength, tls, "sequential");
    check(Hook::SysExitRaw, Kinds { backend: ["tls", "fresh"], ..tls }, "parallel");
    check(HookChoice::Older(Hook::SysExitRaw), tls, "sequential");
}

fn over_grpc() -> Kinds {
    Kinds { program: grpc(), front: ["plain", ""], backend: ["plain", "unary"] }
}

#[test]
fn calls_of_grpc_on_one_connection_are_told_apart() {
    check(Hook::SockLength, over_grpc(), "sequential");
    check(Hook::SockLength, over_grpc(), "parallel");
    check(Hook::SysExitBtf, over_grpc(), "deep");
}

#[test]
fn streams_of_grpc_are_told_apart() {
    let kinds = Kinds { backend: ["plain", "stream"], ..over_grpc() };
    check(Hook::SockLength, kinds, "parallel");
    let workers = Kinds { front: ["plain workers", ""], ..kinds };
    check(Hook::SysExitRaw, workers, "sequential");
}

#[test]
fn encrypted_grpc_is_told_apart() {
    let kinds = Kinds { front: ["tls", ""], backend: ["tls", "unary"], ..over_grpc() };
    check(Hook::SockLength, kinds, "parallel");
}

#[test]
fn programs_without_symbols_are_followed() {
    let stripped = ["-ldflags=-s -w", "-trimpath"];
    let program: &'static Path = Box::leak(built("go", &stripped).into_boxed_path());
    check(Hook::SockLength, Kinds { program, ..plain() }, "parallel");
    let program: &'static Path = Box::leak(built("go", &["-buildmode=pie"]).into_boxed_path());
    check(Hook::SockLength, Kinds { program, ..plain() }, "sequential");
}

/// What HPACK has stored before the agent came is known to the programs only. They tell the names;
/// where a span's name or status is not known, it says so, and no failure looks like success.
#[test]
fn calls_on_connections_older_than_the_agent_are_named_by_the_program() {
    const ROUND: usize = 120;
    let directory = Directory::new("tasks-late");
    let ports = [free_port(), free_port()];
    let [front, backend] = ports.map(|port| port.to_string());
    let start = |arguments: &[&str]| {
        let mut command = Command::new(grpc());
        command.args(arguments).current_dir(directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Running(command.spawn().expect("it was built"))
    };
    let url = |port: &str| format!("http://127.0.0.1:{port}");
    let _backend = start(&["backend", &backend, "plain"]);
    wait_for(ports[1]);
    let _front = start(&["front", &front, "plain", &url(&backend), "unary"]);
    wait_for(ports[0]);
    let mut late = start(&["late", &url(&front), &ROUND.to_string()]);
    let mut lines = BufReader::new(late.0.stdout.take().expect("its output")).lines();
    let mut input = late.0.stdin.take().expect("its input");
    lines.next().expect("a round").expect("text");
    let traced = trace(AgentConfig { record: None, ..with(Hook::SockLength) }, |agent| {
        wait_until_looked_at(agent);
        wait_until_followed(agent, 2);
        for _ in 0..2 {
            writeln!(input, "again").expect("it reads");
            lines.next().expect("a round").expect("text");
        }
    });
    let sides = [
        (ports[0], Capture::ClientProcess),
        (ports[0], Capture::ServerProcess),
        (ports[1], Capture::ClientProcess),
        (ports[1], Capture::ServerProcess),
    ];
    for (port, side) in sides {
        let (mut calls, mut named, mut failed) = (0, 0, 0);
        for span in traced.side(port, side) {
            let unknown =
                |key| span.attribute(key).is_some_and(|value| value.as_str() == Some("unknown"));
            calls += 1;
            let name = span.operation.rsplit('/').next().unwrap_or_default();
            if ["fails", "works", "does"].contains(&name) {
                named += 1;
                assert!(!unknown(OPERATION), "{span:?}");
                let as_it_was = span.error.is_some() == (name == "fails");
                assert!(as_it_was || unknown(STATUS), "{span:?}");
                failed += usize::from(name == "fails");
            } else {
                assert!(unknown(OPERATION), "{span:?}");
            }
        }
        println!("{side:?} at {port}: {named} of {calls} named, {failed} failed");
        assert!(calls >= 2 * ROUND - 2, "{side:?}: {calls}");
        assert!(named * 100 >= calls * 98, "{side:?}: {named} of {calls} named");
        assert!(failed * 3 >= named - 6, "{side:?}: {failed} of {named} failed");
    }
}

/// For checks of the layout tables: programs of other versions, built manually.
#[test]
#[ignore = "needs SPANWISE_TASKS_PROGRAM, a build of tests/tasks/go or tests/tasks/grpc"]
fn a_program_of_another_version_is_followed() {
    let program = std::env::var("SPANWISE_TASKS_PROGRAM").expect("SPANWISE_TASKS_PROGRAM");
    let program: &'static Path = Path::new(Box::leak(program.into_boxed_str()));
    check(Hook::SockLength, Kinds { program, ..plain() }, "parallel");
    let tls = Kinds { front: ["tls", "pooled"], backend: ["tls", "pooled"], program };
    check(Hook::SockLength, tls, "deep");
}

/// As many concurrent requests as the host can handle. With a debug build the agent is too slow.
#[test]
#[ignore = "takes long"]
fn hundreds_of_requests_at_once_are_told_apart() {
    let h2 = Kinds { backend: ["tls h2", "h2"], front: ["tls h2", "h2"], ..plain() };
    let tls = Kinds { backend: ["tls", "pooled"], front: ["tls", "fresh"], ..plain() };
    for concurrency in [8, 64, 256] {
        for (kinds, way) in [
            (plain(), "parallel"),
            (tls, "sequential"),
            (h2, "parallel"),
            (over_grpc(), "parallel"),
            (Kinds { backend: ["plain", "stream"], ..over_grpc() }, "deep"),
        ] {
            check_at(Hook::SockLength, kinds, way, concurrency, 2560);
        }
    }
}

#[test]
fn streams_of_http2_are_followed() {
    let kinds = Kinds { backend: ["tls h2", "h2"], front: ["tls h2", "h2"], ..plain() };
    check(Hook::SockLength, kinds, "parallel");
    check(Hook::SockLength, kinds, "sequential");
}
