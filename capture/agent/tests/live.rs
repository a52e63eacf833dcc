//! Changes of the filter and the sampling while the agent runs and connections stay open.
//!
//! These tests load BPF programs, so they need the rights for that and fail without.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use spanwise_capture_agent::budget::Budget;
use spanwise_capture_agent::{Agent, AgentConfig, LiveConfig};
use spanwise_capture_ebpf::kernel::HookChoice;
use spanwise_capture_host::filter::Filter;
use spanwise_capture_tracer::sampling::Sampling;
use spanwise_model::{AttributeValue, Capture, Span, SpanBatch, SpanRows};
use support::agents::ways;
use support::programs::{Running, free_port, wait_for};

/// One process that serves on two ports. Paths that begin with `/slow` take 2.2 s, and paths that
/// begin with `/gone` fail.
const SERVER: &str = "
import http.server, sys, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        if self.path.startswith('/slow'):
            time.sleep(2.2)
        self.send_response(503 if self.path.startswith('/gone') else 200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'ok')
    def log_message(self, *_):
        pass
servers = [http.server.ThreadingHTTPServer(('127.0.0.1', int(p)), Handler) for p in sys.argv[1:]]
for server in servers[1:]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
servers[0].serve_forever()
";

/// Keeps one connection to each port, sends the requests that it is told to, and reports each
/// response.
const CLIENT: &str = "
import http.client, sys
connections = {p: http.client.HTTPConnection('127.0.0.1', int(p)) for p in sys.argv[1:]}
for line in sys.stdin:
    port, path, times = line.split()
    for _ in range(int(times)):
        connections[port].request('GET', path)
        connections[port].getresponse().read()
    print('done', flush=True)
";

struct Pair {
    ports: [u16; 2],
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
    _programs: [Running; 2],
}

impl Pair {
    fn start() -> Self {
        let ports = [free_port(), free_port()];
        let python = |program: &str| {
            let mut command = Command::new("python3");
            command.args(["-c", program]).args(ports.map(|port| port.to_string()));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command.spawn().expect("python3 runs")
        };
        let server = Running(python(SERVER));
        ports.iter().for_each(|port| wait_for(*port));
        let mut client = python(CLIENT);
        let ask = client.stdin.take().expect("piped");
        let answers = BufReader::new(client.stdout.take().expect("piped"));
        Self { ports, ask, answers, _programs: [server, Running(client)] }
    }

    fn request(&mut self, port: usize, path: &str, times: usize) {
        writeln!(self.ask, "{} {path} {times}", self.ports[port]).expect("the client lives");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the client answers");
        assert_eq!(answer, "done\n");
    }
}

struct Traced {
    agent: Agent,
    batches: Receiver<SpanRows>,
}

impl Traced {
    fn start(config: AgentConfig) -> Self {
        let (send, batches) = channel();
        let deliver = Box::new(move |batch| {
            let _ = send.send(batch);
        });
        let agent = Agent::start(config, deliver).expect("BPF is allowed here");
        Self { agent, batches }
    }

    fn filter(&self, only: &str, except: &str) {
        let filter = Filter {
            only: only.parse().expect("selectors"),
            except: except.parse().expect("selectors"),
        };
        let wanted = filter.to_string();
        self.agent.reconfigure(LiveConfig { filter, ..LiveConfig::default() });
        let end = Instant::now() + Duration::from_secs(10);
        while self.agent.facts().filter != wanted {
            assert!(Instant::now() < end, "the filter is not taken");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn spans(self, ports: [u16; 2]) -> Vec<Span> {
        std::thread::sleep(Duration::from_millis(200));
        self.agent.stop();
        self.batches
            .try_iter()
            .flat_map(|batch| {
                let batch = SpanBatch::try_from(batch).expect("the span schema");
                batch.spans().map(|span| span.expect("a span")).collect::<Vec<_>>()
            })
            .filter(|span| span.flow.server_port.is_some_and(|port| ports.contains(&port)))
            .collect()
    }
}

/// Which paths were seen on which port, and by which side.
fn seen(spans: &[Span]) -> BTreeSet<(String, u16, bool)> {
    spans
        .iter()
        .map(|span| {
            let path = span.attributes.iter().find(|(key, _)| key == "url.path");
            let Some((_, AttributeValue::String(path))) = path else {
                panic!("{span:?} has no path")
            };
            let port = span.flow.server_port.expect("filtered by it");
            (path.clone(), port, span.capture == Capture::ServerProcess)
        })
        .collect()
}

fn follows_the_filter(hook: HookChoice) {
    let mut pair = Pair::start();
    let config = AgentConfig { hook, ..AgentConfig::default() };
    let traced = Traced::start(config);
    let namespace = std::fs::read_link("/proc/self/ns/net").expect("a network namespace");
    let namespace = namespace.to_string_lossy().replace("net:[", "netns=").replace(']', "");
    let [first, second] = pair.ports;
    // Each request, and for each of the two connections whether client and server must be seen.
    let steps: Vec<(String, String, [[bool; 2]; 2])> = vec![
        (String::new(), String::new(), [[true; 2]; 2]),
        (String::new(), format!("port={second}"), [[true; 2], [false; 2]]),
        (format!("port={second}-{second}"), String::new(), [[false; 2], [true; 2]]),
        (namespace.clone(), String::new(), [[true; 2]; 2]),
        (String::new(), namespace, [[false; 2]; 2]),
        ("netns=there-is-none".to_owned(), String::new(), [[false; 2]; 2]),
        // The server's process is one service, which has the name of its first port.
        (String::new(), format!("service=python*:{first}"), [[true, false]; 2]),
        (format!("service=python*:{second}"), String::new(), [[false; 2]; 2]),
        (format!("service=python*:{first}"), String::new(), [[false, true]; 2]),
        (String::new(), "service=python*".to_owned(), [[false; 2]; 2]),
        (String::new(), String::new(), [[true; 2]; 2]),
    ];
    let mut expected = BTreeSet::new();
    for (index, (only, except, wanted)) in steps.iter().enumerate() {
        traced.filter(only, except);
        let path = format!("/step-{index}");
        for (connection, sides) in wanted.iter().enumerate() {
            pair.request(connection, &path, 3);
            for (serving, wanted) in [false, true].into_iter().zip(sides) {
                if *wanted {
                    expected.insert((path.clone(), pair.ports[connection], serving));
                }
            }
        }
        std::thread::sleep(Duration::from_millis(60));
    }
    let spans = traced.spans(pair.ports);
    assert!(spans.iter().all(|span| span.error.is_none()), "what is left out has not failed");
    assert_eq!(seen(&spans), expected);
}

#[test]
fn open_connections_follow_the_filter() {
    for hook in ways() {
        follows_the_filter(hook);
    }
}

#[test]
fn failures_and_slow_requests_are_kept_whatever_the_share() {
    let mut pair = Pair::start();
    let sampling = Sampling { share: 0.0, slow_nano: 2_000_000_000 };
    let live = LiveConfig { sampling, ..LiveConfig::default() };
    let traced = Traced::start(AgentConfig { live, ..AgentConfig::default() });
    for (path, times) in [("/fast", 20), ("/slow", 1), ("/gone", 4)] {
        pair.request(0, path, times);
    }
    let counted = |traced: &Traced, name: &str| {
        traced.agent.facts().counters.get(name).copied().unwrap_or_default()
    };
    let end = Instant::now() + Duration::from_secs(10);
    while counted(&traced, "spans_sampled_out") < 40 {
        assert!(Instant::now() < end, "what was left out is counted");
        std::thread::sleep(Duration::from_millis(20));
    }
    let spans = traced.spans(pair.ports);
    let times = |path: &str| {
        let is_path = |value: &AttributeValue| *value == AttributeValue::String(path.to_owned());
        let has =
            |span: &&Span| span.attributes.iter().any(|(key, v)| key == "url.path" && is_path(v));
        spans.iter().filter(has).count()
    };
    assert_eq!([times("/fast"), times("/slow"), times("/gone")], [0, 2, 8]);
}

#[test]
fn a_budget_is_kept_by_giving_up_detail_and_that_is_said() {
    let mut pair = Pair::start();
    let budget = Budget { cpu_cores: Some(0.000_01), memory_bytes: None };
    let traced = Traced::start(AgentConfig { budget, ..AgentConfig::default() });
    let end = Instant::now() + Duration::from_secs(20);
    while !traced.agent.facts().detail.contains("connections") {
        assert!(Instant::now() < end, "{}", traced.agent.facts().detail);
        pair.request(0, "/load", 200);
    }
    let facts = traced.agent.facts();
    assert!(facts.detail.starts_with("1 of 16 fast successes, 1 of "), "{}", facts.detail);
    traced.agent.stop();
}

/// Requests a hundred values at once. The calls have 4,000 bytes and more, with one buffer and with
/// many.
const PIPELINES: &str = "
import socket, sys, time
connection = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
command = b'*2\\r\\n$4\\r\\nECHO\\r\\n$30\\r\\n' + b'x' * 30 + b'\\r\\n'
for batch in range(11):
    if batch % 2:
        connection.sendall(command * 100)
    else:
        connection.sendmsg([command] * 60)
        connection.sendmsg([command] * 40)
    got = 0
    while got < 100 * 37:
        got += len(connection.recv(65536))
    time.sleep(0.1)
";

fn more_is_captured_where_messages_go_out_together(hook: HookChoice) {
    let port = free_port();
    let mut redis = Command::new("redis-server");
    redis.args(["--port", &port.to_string(), "--save", "", "--bind", "127.0.0.1"]);
    let _redis = Running(redis.stdout(Stdio::null()).spawn().expect("redis-server runs"));
    wait_for(port);
    let config = AgentConfig { hook, ..AgentConfig::default() };
    let traced = Traced::start(config);
    let client = Command::new("python3").args(["-c", PIPELINES, &port.to_string()]).status();
    assert!(client.expect("python3 runs").success());
    let spans = traced.spans([port, port]);
    for capture in [Capture::ClientProcess, Capture::ServerProcess] {
        let seen = spans.iter().filter(|span| span.capture == capture).count();
        // Only some of the first hundred: user space had not requested more data yet.
        assert!((1000..=1100).contains(&seen), "{hook}: {seen} as {capture:?}");
    }
    assert!(spans.iter().all(|span| span.error.is_none() && span.operation == "ECHO"));
}

#[test]
fn more_is_captured_where_it_is_found_that_messages_go_out_together() {
    for hook in ways() {
        more_is_captured_where_messages_go_out_together(hook);
    }
}
