//! Bytes that pass through a socket without a visible buffer of the call. They are counted, and no
//! other bytes are taken for them.
//!
//! These tests load BPF programs, so they need the rights for that and fail without.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use spanwise_capture_ebpf::kernel::{Hook, Kernel, KernelConfig, decode};
use spanwise_capture_tracer::event::{Direction, Unread};
use spanwise_capture_tracer::recording::{RecordedData, RecordedEvent};
use spanwise_model::{Capture, Span};
use support::agents::{at_sockets, compile, python, trace, ways, with};
use support::programs::{Directory, Running, free_port, wait_for};

/// Answers each message with the same number of bytes, one connection after the other.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepts");
            let mut buffer = [0; 256];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
        }
    });
    port
}

/// Runs the io_uring program and returns its process id; nothing if the kernel has no io_uring.
fn uses_io_uring(program: &std::path::Path, port: u16, only: bool) -> Option<u32> {
    let child = Command::new(program)
        .arg(port.to_string())
        .args(only.then_some("only"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let process = child.id();
    let output = child.wait_with_output().expect("it ends");
    if output.status.code() == Some(77) {
        eprintln!("skipped, no io_uring here: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some(process)
}

#[test]
fn what_io_uring_moves_is_counted_and_no_other_memory_is_taken_for_it() {
    let directory = Directory::new("io-uring");
    let program = compile("unread/io_uring.c", directory.path());
    for hook in ways() {
        let config = KernelConfig { hook, ..KernelConfig::default() };
        let kernel = Kernel::attach(&config).unwrap_or_else(|error| panic!("{error}"));
        let Some(process) = uses_io_uring(&program, echo(), false) else { return };
        let mut seen: Vec<RecordedData> = Vec::new();
        {
            let events = kernel.events();
            let reader = kernel
                .reader(&events, |record| {
                    let event = decode(record).expect("our own records decode");
                    if let RecordedEvent::Data(data) = RecordedEvent::from(&event)
                        && data.process == process
                    {
                        seen.push(data);
                    }
                })
                .expect("the ring can be mapped");
            reader.consume();
        }
        let told = |data: &RecordedData| {
            (data.direction, data.length, data.unread, String::from_utf8_lossy(&data.bytes).into())
        };
        let told: Vec<(Direction, u32, Option<Unread>, String)> = seen.iter().map(told).collect();
        let (sent, received, uring) = (Direction::Sent, Direction::Received, Some(Unread::IoUring));
        let plain = (sent, 5, None, "plain".to_owned());
        let unread = |direction, length| (direction, length, uring, String::new());
        if at_sockets(hook) {
            let pair = [unread(sent, 6), unread(received, 6)];
            let [a, b] = pair.clone();
            let [c, d] = pair.clone();
            let [e, f] = pair;
            assert_eq!(told, [a, b, c, d, plain, unread(received, 5), e, f], "{hook}");
        } else {
            // Only system calls other than socket calls are seen.
            assert_eq!(told, [plain], "{hook}");
            let before = kernel.losses();
            assert!(before.io_uring_calls >= 6, "{hook}");
            uses_io_uring(&program, echo(), true);
            // io_uring closes its files some time after the process has ended.
            let end = Instant::now() + Duration::from_secs(10);
            while kernel.losses().connections_unseen == before.connections_unseen {
                assert!(Instant::now() < end, "{hook}: the connection was not missed");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn a_connection_that_io_uring_serves_says_so() {
    let directory = Directory::new("io-uring-span");
    let program = compile("unread/io_uring.c", directory.path());
    let port = echo();
    let mut ran = true;
    let traced =
        trace(with(Hook::SockLength), |_| ran = uses_io_uring(&program, port, false).is_some());
    if !ran {
        return;
    }
    let [span] = traced.side(port, Capture::ClientProcess)[..] else {
        panic!("{:#?}", traced.of_port(port))
    };
    assert_eq!(span.operation, "TCP");
    assert_eq!(attribute(span, "spanwise.connection.unread").as_deref(), Some("io_uring"));
    let network = &span.network;
    assert_eq!((network.request_bytes, network.response_bytes), (Some(23), Some(23)));
    assert!(traced.counters["bytes_moved_by_io_uring"] >= 41, "{:?}", traced.counters);
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    span.attribute(key).map(ToString::to_string)
}

const FILE_BYTES: u64 = 20_000_000;

fn nginx(directory: &std::path::Path, port: u16) -> Running {
    std::fs::write(directory.join("large"), vec![b'x'; FILE_BYTES as usize]).expect("a file");
    std::fs::write(directory.join("small"), b"GET /not-a-request HTTP/1.1\r\n\r\n")
        .expect("a file");
    let config = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log; user root;
         events {{ worker_connections 64; }}
         http {{
            access_log off; sendfile on; tcp_nopush on; client_body_temp_path {0}/body;
            server {{ listen 127.0.0.1:{port}; root {0}; }}
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

#[test]
fn files_that_nginx_sends_by_sendfile_are_responses_of_their_length() {
    let directory = Directory::new("sendfile");
    for hook in ways() {
        let port = free_port();
        let _nginx = nginx(directory.path(), port);
        let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
        let traced = trace(with(hook), |_| {
            // One connection.
            let asked = Command::new("curl")
                .args(["-sS", "--limit-rate", "40M", "-o", "/dev/null", "-o", "/dev/null"])
                .args(["-o", "/dev/null", &url("large"), &url("small"), &url("large")])
                .status();
            assert!(asked.expect("curl runs").success());
        });
        let client = traced.side(port, Capture::ClientProcess);
        let server = traced.side(port, Capture::ServerProcess);
        let names = |spans: &[&Span]| -> Vec<(String, Option<i32>)> {
            spans.iter().map(|span| (span.operation.clone(), span.status_code)).collect()
        };
        let expected =
            ["GET /large", "GET /small", "GET /large"].map(|n| (n.to_owned(), Some(200)));
        assert_eq!(names(&server), expected, "{hook}");
        assert_eq!(names(&client), expected, "{hook}");
        for (asked, served) in client.iter().zip(&server) {
            assert_eq!(asked.request_tcp_seq, served.request_tcp_seq, "{hook}");
            assert_eq!(asked.response_tcp_seq, served.response_tcp_seq, "{hook}");
            let bytes = |span: &Span| span.network.response_bytes;
            assert_eq!(bytes(asked), bytes(served), "{hook}");
            assert_eq!(attribute(served, "spanwise.response_end"), None, "{hook}");
            // The last byte is passed to the network before it is read.
            let end = |span: &Span| span.start_unix_nano + span.duration_nano;
            assert!(end(served) <= end(asked) + 1_000_000, "{hook}");
        }
        let large = server[0].network.response_bytes.expect("counted");
        assert!((FILE_BYTES + 100..FILE_BYTES + 1000).contains(&large), "{hook}: {large}");
        assert!(server[0].duration_nano > 100_000_000, "{hook}: sent in pieces");
        assert!(traced.counters["bytes_moved_by_sendfile"] >= 2 * FILE_BYTES, "{hook}");
    }
}

/// A proxy that forwards bodies with `splice`, like Go's and HAProxy: heads are read and written,
/// but the rest is never in its memory.
const SPLICING: &str = "
import os, socket, sys, threading, time
backend_port = int(sys.argv[1])
listener = socket.create_server(('127.0.0.1', 0))
def head(sock):
    text = b''
    while not text.endswith(b'\\r\\n\\r\\n'):
        got = sock.recv(1)
        if not got:
            return None
        text += got
    return text
def backend():
    server = socket.create_server(('127.0.0.1', backend_port))
    sock, _ = server.accept()
    for _ in range(2):
        head(sock)
        sock.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 100000\\r\\n\\r\\n')
        time.sleep(0.05)
        sock.sendall(b'x' * 100000)
    sock.recv(1)
def proxy():
    front, _ = listener.accept()
    back = socket.create_connection(('127.0.0.1', backend_port))
    reader, writer = os.pipe()
    while request := head(front):
        back.sendall(request)
        front.sendall(head(back))
        left = 100000
        while left:
            count = os.splice(back.fileno(), writer, min(left, 65536))
            left -= count
            while count:
                count -= os.splice(reader, front.fileno(), count)
    back.close()
served = threading.Thread(target=backend)
served.start()
time.sleep(0.2)
passing = threading.Thread(target=proxy)
passing.start()
sock = socket.create_connection(listener.getsockname())
for path in (b'/first', b'/last'):
    sock.sendall(b'GET ' + path + b' HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
    head(sock)
    left = 100000
    while left:
        left -= len(sock.recv(65536))
    time.sleep(0.4)
sock.close()
passing.join()
served.join()
print(listener.getsockname()[1])
";

#[test]
fn bodies_that_a_proxy_splices_end_its_spans_all_the_same() {
    for hook in ways() {
        let back = free_port();
        let mut front = 0;
        let traced = trace(with(hook), |_| {
            front = python(SPLICING, &[&back.to_string()]).trim().parse().expect("a port");
        });
        for (port, capture) in [
            (front, Capture::ClientProcess),
            (front, Capture::ServerProcess),
            (back, Capture::ClientProcess),
            (back, Capture::ServerProcess),
        ] {
            let spans = traced.side(port, capture);
            let names: Vec<_> = spans.iter().map(|span| span.operation.as_str()).collect();
            assert_eq!(names, ["GET /first", "GET /last"], "{hook} {capture}");
            for span in spans {
                assert_eq!(span.error, None, "{hook} {capture}");
                assert_eq!(span.status_code, Some(200));
                assert_eq!(span.network.response_bytes, Some(100_043), "{hook} {capture}");
                // With the hooks on socket calls, data spliced from a socket is only noticed when
                // later data arrives. The span says that its end is uncertain.
                let unseen = at_sockets(hook) && (port, capture) == (back, Capture::ClientProcess);
                let said = attribute(span, "spanwise.response_end");
                assert_eq!(said.as_deref(), unseen.then_some("unseen"), "{hook} {capture}");
                assert!(span.duration_nano < 350_000_000, "{hook} {capture}: {span:#?}");
            }
        }
    }
}
