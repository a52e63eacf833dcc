//! Unusual uses of sockets and processes, beyond one request after the other on one connection.
//! With every set of hooks, each span must exist, have the right process, and agree with the other
//! side's.
//!
//! These tests load BPF programs and create network namespaces, so they need the rights for that
//! and fail without.

mod support;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use spanwise_capture_agent::AgentConfig;
use spanwise_capture_ebpf::kernel::{HookChoice, Kernel, KernelConfig, decode};
use spanwise_capture_tracer::event::Event;
use spanwise_capture_tracer::{Tracer, TracerConfig};
use spanwise_model::{Capture, Span};
use support::agents::{Traced, compile, trace, ways, with};
use support::programs::{Directory, free_port};
use support::recorded::Everyone;

const BOTH: [Capture; 2] = [Capture::ClientProcess, Capture::ServerProcess];

fn script(name: &str) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fire").join(name);
    let mut command = Command::new("python3");
    command.arg(path).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    command
}

/// Runs a script to its end. Returns the numbers that it printed.
fn run(command: &mut Command) -> Vec<u16> {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

/// Starts a script that prints its port and waits for a signal to continue.
fn waiting(name: &str) -> (Child, BufReader<ChildStdout>, u16) {
    let program = script(name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut program = program.expect("it runs");
    let mut line = String::new();
    let mut told = BufReader::new(program.stdout.take().expect("piped"));
    told.read_line(&mut line).expect("a line");
    (program, told, line.trim().parse().expect("a port"))
}

/// Runs a script with an agent. Returns the spans, and the ports that the script used.
fn traced(config: AgentConfig, name: &str) -> (Traced, Vec<u16>) {
    let mut ports = Vec::new();
    let traced = trace(config, |_| ports = run(&mut script(name)));
    (traced, ports)
}

/// The request's path.
fn path(span: &Span) -> &str {
    let path = span.attribute("url.path").and_then(|path| path.as_str());
    path.unwrap_or_else(|| panic!("{span:#?}"))
}

/// The status that the path requests.
fn wanted(span: &Span) -> i32 {
    let (_, status) = path(span).rsplit_once('/').expect("a path");
    status.parse().unwrap_or_else(|_| panic!("{span:#?}"))
}

type Places = BTreeSet<(Option<u32>, Option<u32>)>;

fn places(spans: &[&Span]) -> Places {
    spans.iter().map(|span| (span.request_tcp_seq, span.response_tcp_seq)).collect()
}

/// Checks that every span has the response that its path requests, and the process that sent it.
fn answers_are_right(hook: HookChoice, traced: &Traced, port: u16) {
    for span in traced.of_port(port) {
        assert_eq!(span.status_code, Some(wanted(span)), "{hook}: {span:#?}");
        assert_eq!(span.error, None, "{hook}: {span:#?}");
        if span.capture == Capture::ServerProcess {
            let process = span.process_id.map(|process| process.to_string());
            assert_eq!(span.x_request_id, process, "{hook}: {span:#?}");
        }
    }
}

/// Checks that both sides have this many correct spans with the same sequence numbers.
fn both_sides_agree(hook: HookChoice, traced: &Traced, port: u16, count: usize) {
    answers_are_right(hook, traced, port);
    let sides = BOTH.map(|capture| traced.side(port, capture));
    for side in &sides {
        assert_eq!(side.len(), count, "{hook}: {:#?}", paths(side));
        assert!(side.iter().all(|span| span.request_tcp_seq.is_some()));
        assert_eq!(places(side).len(), count, "{hook}: two spans of one place");
    }
    let [client, server] = sides.map(|side| places(&side));
    assert_eq!(client, server, "{hook}");
}

fn paths<'a>(spans: &[&'a Span]) -> Vec<&'a str> {
    spans.iter().map(|span| path(span)).collect()
}

#[test]
fn threads_and_forked_processes_share_a_connection() {
    for hook in ways() {
        let (traced, ports) = traced(with(hook), "writers.py");
        both_sides_agree(hook, &traced, ports[0], 40 + 10 + 1);
    }
}

#[test]
fn a_descriptor_that_is_used_again_is_another_connection() {
    for hook in ways() {
        let (traced, ports) = traced(with(hook), "reuse.py");
        for (port, asked) in [(ports[0], "/a/200"), (ports[1], "/b/201")] {
            both_sides_agree(hook, &traced, port, 30);
            let spans = traced.of_port(port);
            assert!(spans.iter().all(|span| path(span) == asked), "{hook} {spans:#?}");
        }
    }
}

#[test]
fn of_processes_that_share_a_port_each_has_the_spans_that_it_served() {
    for hook in ways() {
        let (traced, ports) = traced(with(hook), "shared.py");
        both_sides_agree(hook, &traced, ports[0], 60);
        let served: BTreeSet<_> = traced
            .side(ports[0], Capture::ServerProcess)
            .iter()
            .map(|span| span.process_id)
            .collect();
        assert!(served.len() > 1, "{hook}");
    }
}

#[test]
fn a_connection_that_is_handed_on_belongs_to_who_serves_it() {
    for hook in ways() {
        let (traced, ports) = traced(with(hook), "handed.py");
        both_sides_agree(hook, &traced, ports[0], 15);
    }
}

#[test]
fn a_connection_older_than_the_agent_is_read_from_the_next_request_on() {
    for hook in ways() {
        let (mut program, _told, port) = waiting("older.py");
        let traced = trace(with(hook), |_| {
            writeln!(program.stdin.take().expect("piped")).expect("it listens");
            assert!(program.wait().expect("it ends").success());
        });
        both_sides_agree(hook, &traced, port, 5);
    }
}

#[test]
fn both_families_and_ipv4_in_ipv6_have_the_same_address_on_both_sides() {
    for hook in ways() {
        let (traced, ports) = traced(with(hook), "families.py");
        both_sides_agree(hook, &traced, ports[0], 3);
        let mut seen: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for span in traced.of_port(ports[0]) {
            let ends = (span.flow.client_address.as_deref(), span.flow.server_address.as_deref());
            seen.entry(path(span)).or_default().push(ends);
        }
        let (v4, v6) = (Some("127.0.0.1"), Some("::1"));
        let expected = [
            ("/0/200", vec![(v4, v4); 2]),
            ("/2/200", vec![(v6, v6); 2]),
            ("/3/200", vec![(v4, v4); 2]),
        ];
        assert_eq!(seen, BTreeMap::from(expected), "{hook}");
    }
}

#[test]
fn two_processors_report_in_any_order() {
    for hook in ways() {
        let (traced, ports) = traced(with(hook), "across.py");
        assert_eq!(traced.counters["kernel_events_lost_ring_full"], 0, "{hook}");
        both_sides_agree(hook, &traced, ports[0], 2000);
    }
}

/// The kernel side and a tracer, with a reader that can pause.
struct Reading {
    tracer: Tracer,
    port: u16,
    connections: BTreeSet<u64>,
}

impl Reading {
    fn take(&mut self, record: &[u8]) {
        let event = decode(record).expect("our own records decode");
        let connection = match &event {
            Event::Opened(opened)
                if [opened.local.port, opened.remote.port].contains(&self.port) =>
            {
                self.connections.insert(opened.connection);
                opened.connection
            }
            Event::Data(data) => data.connection,
            Event::Closed(closed) => closed.connection,
            _ => return,
        };
        if self.connections.contains(&connection) {
            self.tracer.event(&event);
        }
    }
}

#[test]
fn after_events_were_lost_no_answer_is_given_to_another_request() {
    for hook in ways() {
        let ring_bytes = 1 << 20;
        let config = KernelConfig { hook, ring_bytes, ..Default::default() };
        let kernel = Kernel::attach(&config).unwrap_or_else(|error| panic!("{error}"));
        let (mut program, mut told, port) = waiting("flood.py");
        let tracer = Tracer::new(TracerConfig::default(), Box::new(Everyone));
        let reading = RefCell::new(Reading { tracer, port, connections: BTreeSet::new() });
        let events = kernel.events();
        let reader = kernel.reader(&events, |record| reading.borrow_mut().take(record));
        let reader = reader.expect("the ring can be mapped");
        let (send, phases) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while told.read_line(&mut line).is_ok_and(|count| count > 0) && send.send(()).is_ok() {}
        });
        let mut go_on = program.stdin.take().expect("piped");
        for reads in [true, false, true] {
            go_on.write_all(b"\n").expect("it listens");
            while phases.try_recv().is_err() {
                if reads {
                    reader.consume();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            while reader.consume() > 0 {}
        }
        assert!(program.wait().expect("it ends").success());
        while reader.consume() > 0 {}
        drop(reader);
        assert!(kernel.losses().data > 0, "{hook}: nothing was lost");
        let mut spans = Vec::new();
        reading.borrow_mut().tracer.drain(&mut spans).expect("valid rows");
        let counters: BTreeMap<_, _> = reading
            .borrow()
            .tracer
            .counters()
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect();
        assert!(counters["gap_bytes"] > 0, "{hook}: {counters:?}");
        let traced = Traced { spans, counters };
        answers_are_right(hook, &traced, port);
        for capture in BOTH {
            let spans = traced.side(port, capture);
            let count =
                |name: &str| paths(&spans).iter().filter(|path| path.contains(name)).count();
            let found =
                ["/turns-before/", "/many-before/", "/turns-after/", "/many-after/"].map(count);
            // The first span after the loss shows it.
            let said = format!("{hook} {capture}: {found:?} {:?}", traced.counters);
            assert!(matches!(found, [20, 20, 19..=20, 20]), "{said}");
        }
    }
}

/// Names of processes that live for one request, each a separate program.
fn short_clients(directory: &Path) -> (PathBuf, Vec<PathBuf>) {
    let program = compile("fire/short.c", directory);
    let names: Vec<PathBuf> =
        (0..20).map(|number| directory.join(format!("client-{number}"))).collect();
    for name in &names {
        std::fs::copy(&program, name).expect("a copy");
    }
    (program, names)
}

#[test]
fn thousands_of_processes_that_live_for_a_request_keep_their_names() {
    const CLIENTS: usize = 2000;
    let directory = Directory::new("short");
    let (program, names) = short_clients(directory.path());
    for hook in ways() {
        let port = free_port();
        let _server = Server::start(port);
        let mut known_before = 0;
        let traced = trace(with(hook), |agent| {
            known_before = agent.facts().counters.get("processes_known").copied().unwrap_or(0);
            run(Command::new(&program).args([port.to_string(), CLIENTS.to_string()]).args(&names));
        });
        both_sides_agree(hook, &traced, port, CLIENTS);
        let clients = traced.side(port, Capture::ClientProcess);
        for span in &clients {
            let name = path(span).trim_start_matches('/').trim_end_matches("/204");
            assert_eq!(span.service, name, "{hook}: {span:#?}");
        }
        let processes: BTreeSet<_> = clients.iter().map(|span| span.process_id).collect();
        assert_eq!(processes.len(), CLIENTS, "{hook}");
        // Running processes of the whole host.
        let known = traced.counters["processes_known"];
        assert!(known < known_before + 200, "{hook}: {known_before} before, {known} after");
    }
}

/// Answers the requests of one connection after the other.
struct Server(Child);

impl Server {
    fn start(port: u16) -> Self {
        let text = "
import sys
sys.path.insert(0, sys.argv[1])
from talk import *
listener, _ = listen(port=int(sys.argv[2]), backlog=1000)
print('ready', flush=True)
while True:
    sock, _ = listener.accept()
    while got := sock.recv(4096):
        sock.sendall(answer(path_of(got)))
    sock.close()
";
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fire");
        let mut server = Command::new("python3")
            .args(["-c", text])
            .arg(scripts)
            .arg(port.to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let mut line = String::new();
        let mut told = BufReader::new(server.stdout.take().expect("piped"));
        told.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two connected network namespaces, which are removed with the test.
struct Namespaces([String; 2]);

const ADDRESSES: [&str; 2] = ["10.213.77.1", "10.213.77.2"];

impl Namespaces {
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|side| format!("fire-{}-{made}-{side}", std::process::id()));
        let made = Self(names);
        let ip = |arguments: &str| {
            let done = Command::new("ip").args(arguments.split_whitespace()).status();
            assert!(done.expect("ip runs").success(), "ip {arguments}");
        };
        let [a, b] = &made.0;
        ip(&format!("netns add {a}"));
        ip(&format!("netns add {b}"));
        ip(&format!("link add fire0 netns {a} type veth peer name fire0 netns {b}"));
        for (name, address) in made.0.iter().zip(ADDRESSES) {
            ip(&format!("-n {name} address add {address}/24 dev fire0"));
            ip(&format!("-n {name} link set fire0 up"));
            ip(&format!("-n {name} link set lo up"));
        }
        made
    }

    /// Runs one side of a conversation in one of them. Its process id is the first line that it
    /// prints.
    fn talk(&self, which: usize, arguments: &[&str]) -> (Child, u32) {
        let inner = script("apart.py");
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.0[which]])
            .arg(inner.get_program())
            .args(inner.get_args())
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("ip runs");
        let mut line = String::new();
        let mut told = BufReader::new(child.stdout.take().expect("piped"));
        told.read_line(&mut line).expect("a line");
        let number = line.trim().parse().expect("a namespace's number");
        (child, number)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

fn wait(children: impl IntoIterator<Item = Child>) {
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
}

#[test]
fn both_sides_of_a_hop_between_network_namespaces_are_seen_and_agree() {
    let namespaces = Namespaces::new();
    for hook in ways() {
        let port = free_port().to_string();
        let mut numbers = [0; 2];
        let traced = trace(with(hook), |_| {
            let (server, served) = namespaces.talk(1, &["server", ADDRESSES[1], &port]);
            let (client, asked) = namespaces.talk(0, &["client", ADDRESSES[1], &port, "202"]);
            numbers = [asked, served];
            wait([client, server]);
        });
        let port = port.parse().expect("a port");
        both_sides_agree(hook, &traced, port, 5);
        assert_ne!(numbers[0], numbers[1]);
        for (capture, number) in BOTH.into_iter().zip(numbers) {
            for span in traced.side(port, capture) {
                assert_eq!(span.flow.network_namespace, Some(number), "{hook}");
                assert_eq!(span.flow.client_address.as_deref(), Some(ADDRESSES[0]), "{hook}");
                assert_eq!(span.flow.server_address.as_deref(), Some(ADDRESSES[1]), "{hook}");
            }
        }
    }
}

#[test]
fn the_same_addresses_and_ports_in_two_namespaces_are_not_confused() {
    let namespaces = Namespaces::new();
    for (round, hook) in ways().into_iter().enumerate() {
        let port = free_port().to_string();
        let own = (20_000 + round).to_string();
        let mut numbers = [0; 2];
        let traced = trace(with(hook), |_| {
            let mut children = Vec::new();
            for (which, number) in numbers.iter_mut().enumerate() {
                let (server, found) = namespaces.talk(which, &["server", "127.0.0.1", &port]);
                *number = found;
                children.push(server);
            }
            for (which, status) in ["201", "202"].into_iter().enumerate() {
                let arguments = ["client", "127.0.0.1", &port, status, &own];
                children.push(namespaces.talk(which, &arguments).0);
            }
            wait(children);
        });
        let port = port.parse().expect("a port");
        both_sides_agree(hook, &traced, port, 10);
        for span in traced.of_port(port) {
            let expected = if span.status_code == Some(201) { numbers[0] } else { numbers[1] };
            assert_eq!(span.flow.network_namespace, Some(expected), "{hook}");
            assert_eq!(span.flow.client_port, own.parse().ok(), "{hook}");
        }
    }
}
