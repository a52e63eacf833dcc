//! Unix sockets, with the hooks on socket calls.
//!
//! These tests load BPF programs, so they need the rights for that and fail without.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use spanwise_capture_ebpf::kernel::{Hook, HookChoice, Kernel, KernelConfig, decode};
use spanwise_capture_tracer::event::Event;
use spanwise_model::{Capture, Span};
use support::agents::{Traced, trace, with};
use support::programs::{Directory, Running, free_port, wait_for};

fn script(arguments: &[&str]) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fire/unix.py");
    let mut command = Command::new("python3");
    command.arg(path).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Starts a script and waits until it is ready.
fn started(arguments: &[&str]) -> Child {
    let mut child = script(arguments).spawn().expect("python3 runs");
    let mut line = String::new();
    let mut told = BufReader::new(child.stdout.take().expect("piped"));
    told.read_line(&mut line).expect("a line");
    assert_eq!(line, "0\n");
    child
}

fn text(span: &Span, key: &str) -> String {
    span.attribute(key).map(ToString::to_string).unwrap_or_default()
}

/// The spans of one side of connections to this path.
fn side<'a>(traced: &'a Traced, path: &str, capture: Capture) -> Vec<&'a Span> {
    let wanted =
        |span: &&Span| span.flow.server_address.as_deref() == Some(path) && span.capture == capture;
    traced.spans.iter().filter(wanted).collect()
}

/// Checks that both sides have these requests with the same sequence numbers.
fn both_sides_agree(traced: &Traced, path: &str, expected: &[String], attribute: &str) {
    let sides = [Capture::ClientProcess, Capture::ServerProcess].map(|capture| {
        let mut spans = side(traced, path, capture);
        spans.sort_by_key(|span| text(span, attribute));
        spans
    });
    for spans in &sides {
        let names: Vec<String> = spans.iter().map(|span| text(span, attribute)).collect();
        assert_eq!(names, expected, "{spans:#?}");
        for span in spans {
            assert_eq!(text(span, "network.transport"), "unix");
            assert_eq!((span.flow.server_port, span.flow.client_port), (None, None));
            assert_eq!(span.error, None, "{span:#?}");
        }
    }
    for (asked, served) in sides[0].iter().zip(&sides[1]) {
        assert_eq!(asked.request_tcp_seq, served.request_tcp_seq);
        assert_eq!(asked.response_tcp_seq, served.response_tcp_seq);
        assert!(asked.request_tcp_seq.is_some() && asked.response_tcp_seq.is_some());
        assert_eq!(asked.status_code, served.status_code);
        assert_ne!(asked.process_id, served.process_id);
    }
}

#[test]
fn http_over_unix_sockets_is_seen_on_both_sides_which_agree() {
    let directory = Directory::new("unix-http");
    let path = directory.path().join("app.sock").display().to_string();
    let _server = Running(started(&["serve", &path]));
    let mut client = started(&["talk", &path]);
    let traced = trace(with(Hook::SockLength), |_| {
        writeln!(client.stdin.take().expect("piped")).expect("it listens");
        assert!(client.wait().expect("it ends").success());
    });
    let of = |name: String| (0..5).map(move |index| format!("{name}/{index}/{}", 200 + index % 3));
    let mut expected: Vec<String> = of("/older".into()).chain(of("/new/0".into())).collect();
    expected.extend(of("/new/1".into()));
    expected.sort();
    both_sides_agree(&traced, &path, &expected, "url.path");
    for span in side(&traced, &path, Capture::ServerProcess) {
        assert_eq!(span.x_request_id, span.process_id.map(|process| process.to_string()));
        assert_eq!(
            span.status_code.map(|code| code.to_string()).as_deref(),
            text(span, "url.path").rsplit('/').next()
        );
    }
}

#[test]
fn what_a_request_to_nginx_makes_it_ask_over_a_unix_socket_belongs_to_it() {
    let directory = Directory::new("unix-nginx");
    let path = directory.path().join("app.sock").display().to_string();
    let _server = Running(started(&["serve", &path]));
    let port = free_port();
    let config = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log; user root;
         events {{ worker_connections 64; }}
         http {{
            access_log off; client_body_temp_path {0}/body;
            server {{
                listen 127.0.0.1:{port};
                location / {{ proxy_pass http://unix:{path}; proxy_http_version 1.1; }}
            }}
         }}",
        directory.path().display()
    );
    std::fs::write(directory.path().join("nginx.conf"), config).expect("a configuration");
    let started = Command::new("nginx")
        .args(["-p".as_ref(), directory.path().as_os_str()])
        .args(["-c".as_ref(), directory.path().join("nginx.conf").as_os_str()])
        .stderr(Stdio::null())
        .spawn();
    let _nginx = Running(started.expect("nginx runs"));
    wait_for(port);
    let traced = trace(with(Hook::SockLength), |_| {
        for number in 0..5 {
            let url = format!("http://127.0.0.1:{port}/{number}/201");
            let asked = Command::new("curl").args(["-sS", &url]).stdout(Stdio::null()).status();
            assert!(asked.expect("curl runs").success());
        }
    });
    let expected: Vec<String> = (0..5).map(|number| format!("/{number}/201")).collect();
    both_sides_agree(&traced, &path, &expected, "url.path");
    for asked in side(&traced, &path, Capture::ClientProcess) {
        let serving = traced.side(port, Capture::ServerProcess).into_iter();
        let mut within = serving.filter(|span| span.fragment_id == asked.fragment_id);
        let parent = within.next().unwrap_or_else(|| panic!("no request made it: {asked:#?}"));
        assert_eq!(text(parent, "url.path"), text(asked, "url.path"));
    }
}

#[test]
fn redis_over_a_unix_socket_is_read() {
    let directory = Directory::new("unix-redis");
    let path = directory.path().join("redis.sock").display().to_string();
    let server = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--unixsocket", &path])
        .stdout(Stdio::null())
        .spawn();
    let _server = Running(server.expect("redis-server runs"));
    let end = Instant::now() + Duration::from_secs(20);
    while !Path::new(&path).exists() {
        assert!(Instant::now() < end, "redis-server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let traced = trace(with(Hook::SockLength), |_| {
        for command in [["set", "a", "1"].as_slice(), &["get", "a"]] {
            let asked = Command::new("redis-cli").args(["-s", &path]).args(command).output();
            assert!(asked.expect("redis-cli runs").status.success());
        }
    });
    both_sides_agree(&traced, &path, &["GET".into(), "SET".into()], "db.operation.name");
}

#[test]
fn what_is_not_read_on_unix_sockets_makes_no_spans() {
    let mut process = 0;
    let traced = trace(with(Hook::SockLength), |_| process = noise());
    let of_noise = |span: &&Span| span.process_id == Some(process);
    assert_eq!(traced.spans.iter().filter(of_noise).count(), 0);
}

/// Runs for seven seconds. Returns its process id.
fn noise() -> u32 {
    let child = script(&["noise"]).spawn().expect("python3 runs");
    let process = child.id();
    assert!(child.wait_with_output().expect("it ends").status.success());
    process
}

#[test]
fn what_nobody_asks_for_is_left_alone_after_a_while() {
    let config = KernelConfig { hook: HookChoice::Only(Hook::SockLength), ..Default::default() };
    let kernel = Kernel::attach(&config).unwrap_or_else(|error| panic!("{error}"));
    let process = noise();
    let (mut opened, mut moved, mut closed) = (Vec::new(), Vec::new(), Vec::new());
    let events = kernel.events();
    let reader =
        kernel.reader(&events, |record| match decode(record).expect("our own records decode") {
            Event::Opened(one) if one.process == process => opened.push(one),
            Event::Data(data) if data.process == process => moved.push(data.time_nano),
            Event::Closed(one) => closed.push(one.connection),
            _ => {}
        });
    let reader = reader.expect("the ring can be mapped");
    // Includes the traffic of the rest of the host.
    while reader.consume() > 0 {}
    drop(reader);
    assert_eq!(opened.len(), 2, "both ends of the pair");
    for one in &opened {
        assert_eq!(one.unix.map(|path| path.text().into_owned()).as_deref(), Some(""));
        assert!(closed.contains(&one.connection), "user space may forget it");
    }
    let lasted = moved.last().expect("some") - moved[0];
    assert!((4_000_000_000..5_500_000_000).contains(&lasted), "{lasted} ns");
}
