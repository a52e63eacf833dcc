//! The kernel side against real sockets: every call with every hook.
//!
//! These tests load BPF programs, so they need the rights for that and fail without. A test that is
//! skipped would prove nothing.

mod support;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use spanwise_capture_ebpf::kernel::{
    HookChoice, Kernel, KernelConfig, KernelFigures, KernelLosses, ProcessFigures, RingReader,
    decode,
};
use spanwise_capture_tracer::event::{Direction, Event, Opened, Role};
use spanwise_capture_tracer::recording::{RecordedDatagram, RecordedEvent};
use support::agents::{at_sockets, best_way, ways};

/// Held by tests that use the same port.
static PORT: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[derive(Debug, Clone)]
struct Transfer {
    connection: u64,
    direction: Direction,
    seq: u32,
    length: u32,
    bytes: Vec<u8>,
    time_nano: u64,
}

#[derive(Default)]
struct Seen {
    opened: HashMap<u64, Opened>,
    transfers: Vec<Transfer>,
    closed: Vec<u64>,
}

/// Runs `work` with the hook. Returns what was captured of this process on connections with this
/// server port.
fn watch(hook: impl Into<HookChoice>, port: u16, work: impl FnOnce()) -> Seen {
    let config = KernelConfig { hook: hook.into(), ..KernelConfig::default() };
    let kernel = Kernel::attach(&config).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(kernel.tls_refusal(), None);
    let mut seen = Seen::default();
    let me = std::process::id();
    work();
    {
        let events = kernel.events();
        let reader = kernel
            .reader(&events, |record| match decode(record).expect("our own records decode") {
                Event::Opened(opened)
                    if opened.process == me
                        && (opened.local.port == port || opened.remote.port == port) =>
                {
                    seen.opened.insert(opened.connection, opened);
                }
                Event::Data(data) if seen.opened.contains_key(&data.connection) => {
                    seen.transfers.push(Transfer {
                        connection: data.connection,
                        direction: data.direction,
                        seq: data.seq,
                        length: data.length,
                        bytes: data.bytes.to_vec(),
                        time_nano: data.time_nano,
                    });
                }
                Event::Closed(closed) if seen.opened.contains_key(&closed.connection) => {
                    seen.closed.push(closed.connection);
                }
                _ => {}
            })
            .expect("the ring can be mapped");
        while reader.consume() == RingReader::MOST_RECORDS {}
    }
    // The count of unseen connections covers the whole host.
    let KernelLosses { data, lifecycle, tls_unbound, .. } = kernel.losses();
    assert_eq!([data, lifecycle, tls_unbound], [0; 3]);
    seen
}

fn pair() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

fn check(call: i64) -> usize {
    assert!(call > 0, "{}", std::io::Error::last_os_error());
    usize::try_from(call).expect("positive")
}

/// Sends and receives `payload` once with each pair of calls. Returns the number of messages.
fn exchange(client: &TcpStream, server: &TcpStream, payload: &[u8]) -> usize {
    let (c, s) = (client.as_raw_fd(), server.as_raw_fd());
    let mut buffer = vec![0u8; payload.len()];
    let send = payload.as_ptr().cast::<libc::c_void>();
    let length = payload.len();
    let mut vector = libc::iovec { iov_base: send.cast_mut(), iov_len: length };
    let mut into = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: length };
    // SAFETY: every pointer refers to `payload` or `buffer` of `length` bytes, or to a structure on
    // this stack, and outlives the call.
    unsafe {
        let mut out: libc::mmsghdr = std::mem::zeroed();
        out.msg_hdr.msg_iov = &raw mut vector;
        out.msg_hdr.msg_iovlen = 1;
        let mut inward: libc::mmsghdr = std::mem::zeroed();
        inward.msg_hdr.msg_iov = &raw mut into;
        inward.msg_hdr.msg_iovlen = 1;
        let null = std::ptr::null_mut::<libc::c_void>();
        check(libc::write(c, send, length) as i64);
        check(libc::read(s, into.iov_base, length) as i64);
        check(libc::sendto(c, send, length, 0, null.cast(), 0) as i64);
        check(libc::recvfrom(s, into.iov_base, length, libc::MSG_PEEK, null.cast(), null.cast())
            as i64);
        check(libc::recvfrom(s, into.iov_base, length, 0, null.cast(), null.cast()) as i64);
        check(libc::writev(c, &raw const vector, 1) as i64);
        check(libc::readv(s, &raw const into, 1) as i64);
        check(libc::sendmsg(c, &raw const out.msg_hdr, 0) as i64);
        check(libc::recvmsg(s, &raw mut inward.msg_hdr, 0) as i64);
        check(i64::from(libc::sendmmsg(c, &raw mut out, 1, 0)));
        check(i64::from(libc::recvmmsg(s, &raw mut inward, 1, 0, null.cast())));
    }
    5
}

fn sees_every_call(hook: HookChoice) {
    let (listener, port) = pair();
    let payload = b"GET /every-call HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut messages = 0;
    let seen = watch(hook, port, || {
        let client = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let (server, _) = listener.accept().expect("accepts");
        messages = exchange(&client, &server, payload);
        drop(client);
        drop(server);
    });
    let side = |role| {
        let (id, opened) =
            seen.opened.iter().find(|(_, o)| o.role == role).unwrap_or_else(|| panic!("{role:?}"));
        let transfers: Vec<_> = seen.transfers.iter().filter(|t| t.connection == *id).collect();
        (opened, transfers)
    };
    let (client, sent) = side(Role::Client);
    let (server, received) = side(Role::Server);
    assert_eq!((sent.len(), received.len()), (messages, messages), "{hook}");
    assert!(client.connect_nano.is_some_and(|nano| nano < 1_000_000_000));
    assert_eq!((client.local, client.remote), (server.remote, server.local));
    assert_eq!(client.network_namespace, server.network_namespace);
    for (out, into) in sent.iter().zip(&received) {
        assert_eq!(out.direction, Direction::Sent);
        assert_eq!(into.direction, Direction::Received);
        assert_eq!((out.seq, out.length), (into.seq, into.length), "both sides agree");
        assert_eq!(out.bytes, payload);
        assert_eq!(into.bytes, payload);
        assert!(out.time_nano <= into.time_nano, "sent before it was read");
    }
    for two in sent.windows(2) {
        assert_eq!(two[1].seq, two[0].seq.wrapping_add(two[0].length), "no gap, no overlap");
    }
    assert_eq!(seen.closed.len(), 2, "both ends closed");
}

#[test]
fn every_call_is_seen() {
    for hook in ways() {
        sees_every_call(hook);
    }
}

#[test]
fn scattered_buffers_and_several_messages_are_put_together() {
    for hook in ways() {
        let (listener, port) = pair();
        let parts: [&[u8]; 3] = [b"GET /scattered ", b"", b"HTTP/1.1\r\n\r\n"];
        let seen = watch(hook, port, || {
            let client = TcpStream::connect(("127.0.0.1", port)).expect("connects");
            let (mut server, _) = listener.accept().expect("accepts");
            let mut vectors = parts.map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            });
            // SAFETY: the vectors refer to static text; headers live on this stack.
            unsafe {
                check(libc::writev(client.as_raw_fd(), vectors.as_ptr(), 3) as i64);
                let mut messages: [libc::mmsghdr; 2] = std::mem::zeroed();
                for (message, vector) in messages.iter_mut().zip([0usize, 2]) {
                    message.msg_hdr.msg_iov = &raw mut vectors[vector];
                    message.msg_hdr.msg_iovlen = 1;
                }
                assert_eq!(libc::sendmmsg(client.as_raw_fd(), messages.as_mut_ptr(), 2, 0), 2);
            }
            let mut buffer = [0; 256];
            let mut read = 0;
            while read < 54 {
                read += server.read(&mut buffer[read..]).expect("reads");
            }
        });
        let sent: Vec<_> =
            seen.transfers.iter().filter(|t| t.direction == Direction::Sent).collect();
        assert_eq!(sent.len(), 3, "{hook}");
        assert_eq!(sent[0].bytes, parts.concat(), "{hook}");
        assert_eq!((sent[1].bytes.as_slice(), sent[2].bytes.as_slice()), (parts[0], parts[2]));
        assert_eq!(sent[2].seq, sent[1].seq.wrapping_add(sent[1].length));
    }
}

fn vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// What was captured of each call that sent data.
fn sent(hook: HookChoice, send: impl Fn(RawFd)) -> Vec<Vec<u8>> {
    sent_on_each(hook, 1, |socket, _| send(socket)).remove(0)
}

/// The same on so many connections, one after the other.
fn sent_on_each(
    hook: HookChoice,
    connections: usize,
    send: impl Fn(RawFd, usize),
) -> Vec<Vec<Vec<u8>>> {
    let (listener, port) = pair();
    let seen = watch(hook, port, || {
        for number in 0..connections {
            let client = TcpStream::connect(("127.0.0.1", port)).expect("connects");
            let (mut server, _) = listener.accept().expect("accepts");
            let reader = std::thread::spawn(move || server.read_to_end(&mut Vec::new()));
            send(client.as_raw_fd(), number);
            drop(client);
            reader.join().expect("ends").expect("reads");
        }
    });
    let mut sent: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut last = None;
    for transfer in seen.transfers.into_iter().filter(|t| t.direction == Direction::Sent) {
        if last.replace(transfer.connection) != Some(transfer.connection) {
            sent.push(Vec::new());
        }
        if let Some(calls) = sent.last_mut() {
            calls.push(transfer.bytes);
        }
    }
    assert_eq!(sent.len(), connections, "{hook}");
    sent
}

#[test]
fn of_a_response_in_two_buffers_the_head_is_captured() {
    let head = |length: usize, end: &str| {
        let begin = "HTTP/1.1 200 OK\r\nServer: ";
        format!("{begin}{}{end}", "x".repeat(length - begin.len() - end.len())).into_bytes()
    };
    let end = "\r\n\r\n";
    let body = &b"<html></html>"[..];
    let cases = [
        (head(64, end), body, true),
        (head(256, end), body, true),
        (head(257, end), body, true),
        (head(1023, end), b"body", true),
        (head(63, end), body, false),
        (head(100, "\r\n\r."), body, false),
        (b"SELECT ".repeat(20), body, false),
        ([&b"SELECT "[..], &head(100, end)].concat(), body, false),
        // Followed by another head, or by almost nothing.
        (head(100, end), b"HTTP/1.1 304 Not Modified", false),
        (head(100, end), b"<a>", false),
    ];
    for hook in ways() {
        let captured = sent(hook, |socket| {
            for (first, second, _) in &cases {
                let vectors = [vector(first), vector(second)];
                // SAFETY: The vectors refer to memory that outlives the call.
                check(unsafe { libc::writev(socket, vectors.as_ptr(), 2) } as i64);
            }
        });
        for ((first, second, is_head), captured) in cases.iter().zip(&captured) {
            let expected = if *is_head { first.clone() } else { [first, *second].concat() };
            assert_eq!(captured.escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
        assert_eq!(captured.len(), cases.len(), "{hook}");
    }
}

/// What begins HTTP/2, on which many messages go out together.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[test]
fn of_many_small_buffers_all_is_captured_whatever_their_number() {
    // By how many buffers, of how many bytes each, behind how many empty ones; what nobody asked
    // for more of is short.
    let cases =
        [(75, 10, 0), (300, 3, 0), (1000, 1, 20), (1024, 1, 0), (2, 1023, 3), (3, 300, 256)];
    let text: Vec<u8> = (0..64_u32 * 1024).map(|n| b'a' + (n * 7 % 26) as u8).collect();
    let vectors = |count: usize, bytes: usize, empty: usize| -> Vec<libc::iovec> {
        let full = text.chunks(bytes).take(count - empty).map(vector);
        std::iter::repeat_n(vector(b""), empty).chain(full).collect()
    };
    let long = [(1000, 30), (1024, 2), (600, 9), (20, 1500)];
    // SAFETY: The vectors refer to memory that outlives the call.
    let write = |socket, vectors: &[libc::iovec]| unsafe {
        check(libc::writev(socket, vectors.as_ptr(), vectors.len() as i32) as i64);
    };
    for hook in ways() {
        let captured = sent_on_each(hook, cases.len() + long.len(), |socket, number| {
            if let Some((count, bytes, empty)) = cases.get(number) {
                return write(socket, &vectors(count + empty, *bytes, *empty));
            }
            let (count, bytes) = long[number - cases.len()];
            write(socket, &[vector(PREFACE)]);
            write(socket, &vectors(count, bytes, 0));
        });
        let captured = captured.into_iter().map(|calls| calls.concat());
        let expected =
            cases.iter().map(|(count, bytes, _)| text[..(count * bytes).min(1024)].to_vec());
        let long = long.iter().map(|(count, bytes)| [PREFACE, &text[..count * bytes]].concat());
        for (number, (captured, expected)) in captured.zip(expected.chain(long)).enumerate() {
            assert_eq!(captured.len(), expected.len(), "{hook}: {number}");
            assert!(captured == expected, "{hook}: {number}");
        }
    }
}

#[test]
fn of_a_burst_on_http2_all_is_captured_and_of_a_body_little() {
    let frame = |kind: u8, length: usize| {
        let mut frame = (length as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, 4, 0, 0, 0, 1]);
        frame.resize(9 + length, b'x');
        frame
    };
    // Heads and short messages, many times what is captured of a turn.
    let burst: Vec<Vec<u8>> =
        (0..30).map(|_| [frame(1, 40), frame(0, 60)].concat().repeat(40)).collect();
    let body: Vec<Vec<u8>> = (0..30).map(|_| frame(0, 8000)).collect();
    for hook in ways() {
        let cases = [(&burst, true), (&body, false)];
        let captured = sent_on_each(hook, cases.len(), |socket, number| {
            for call in std::iter::once(PREFACE).chain(cases[number].0.iter().map(Vec::as_slice)) {
                // SAFETY: The bytes outlive the call.
                check(unsafe { libc::write(socket, call.as_ptr().cast(), call.len()) } as i64);
            }
        });
        for ((calls, whole), captured) in cases.into_iter().zip(captured) {
            let captured: usize = captured.iter().map(Vec::len).sum();
            let all: usize = PREFACE.len() + calls.iter().map(Vec::len).sum::<usize>();
            assert_eq!(captured == all, whole, "{hook}: {captured} of {all}");
            assert!(whole || captured < 64 * 1024, "{hook}: {captured} of {all}");
        }
    }
}

#[test]
fn of_the_head_of_a_request_more_is_captured() {
    let head = |line: &str, bytes: usize| {
        let begin = format!("{line} HTTP/1.1\r\nCookie: ");
        format!("{begin}{}\r\nTraceparent: 00\r\n\r\n", "c".repeat(bytes)).into_bytes()
    };
    let get = head("GET /", 7000);
    let (first, second) = get.split_at(4096);
    let post = [head("POST /", 1100), b"b".repeat(40_000)].concat();
    let cases: [(Vec<&[u8]>, usize); 5] = [
        (vec![&get], get.len()),
        (vec![first, second], get.len()),
        // Of what may be a body, a little.
        (vec![&post], 4096),
        (vec![&get[1..]], 1024),
        (vec![b"GET / HTTP/1.1\r\n\r\n"], 18),
    ];
    for hook in ways() {
        let captured = sent_on_each(hook, cases.len(), |socket, number| {
            for call in &cases[number].0 {
                // SAFETY: The bytes outlive the call.
                check(unsafe { libc::write(socket, call.as_ptr().cast(), call.len()) } as i64);
            }
        });
        for ((calls, expected), captured) in cases.iter().zip(captured) {
            let captured = captured.concat();
            assert_eq!(captured.len(), *expected, "{hook}: {}", calls[0][..8].escape_ascii());
            assert!(calls.concat().starts_with(&captured), "{hook}");
        }
    }
}

/// A page between two that nobody may touch.
struct LonelyPage(*mut u8);

const PAGE: usize = 4096;

impl LonelyPage {
    fn new() -> Self {
        let (none, all) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: The mapping is new, and its middle page is inside it.
        unsafe {
            let pages = libc::mmap(std::ptr::null_mut(), 3 * PAGE, none, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            let middle = pages.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(middle.cast(), PAGE, all), 0);
            Self(middle)
        }
    }

    /// Puts a value this many bytes after the page's start.
    fn put<T>(&self, at: usize, value: T) -> *mut T {
        assert!(at.is_multiple_of(align_of::<T>()) && at + size_of::<T>() <= PAGE);
        // SAFETY: It is aligned and inside the page, which is not shared.
        unsafe {
            let place = self.0.add(at).cast::<T>();
            place.write(value);
            place
        }
    }
}

impl Drop for LonelyPage {
    fn drop(&mut self) {
        // SAFETY: These are the pages of `new`.
        unsafe { libc::munmap(self.0.sub(PAGE).cast(), 3 * PAGE) };
    }
}

#[test]
fn a_message_is_read_wherever_its_header_and_its_vectors_lie() {
    let text: [&[u8]; 2] = [b"GET /anywhere HTTP/1.1\r\n", b"Host: x\r\n\r\n"];
    let end = PAGE - size_of::<libc::msghdr>();
    // The offsets of the header and of the vectors.
    let places = [
        (1024, 1024 - 16),
        (1024, 1024 - 48),
        (1024, 1024 - 56),
        (1024, 1024 + 56),
        (1024, 1024 + 64),
        (1024, 1024 + 72),
        (1024, 2048),
        (0, 56),
        (0, 2048),
        (40, 0),
        (48, 0),
        (end, end - 16),
        (end, 0),
        (end - 16, end + 40),
        (end - 24, end - 40),
    ];
    let overlaps = |header: usize, at: usize, end: usize| {
        header < end && at < header + size_of::<libc::msghdr>() || end > PAGE
    };
    let cases: Vec<_> = places
        .iter()
        .flat_map(|(header, at)| [1, 2].map(|count| (*header, *at, count)))
        .filter(|(header, at, count)| !overlaps(*header, *at, at + 16 * count))
        .collect();
    assert!(cases.len() > places.len());
    for hook in ways() {
        let captured = sent(hook, |socket| {
            for (header, at, count) in &cases {
                let page = LonelyPage::new();
                for (index, text) in text[..*count].iter().enumerate() {
                    page.put(at + 16 * index, vector(text));
                }
                // SAFETY: A header of zeros is valid, and everything that this one points to lives.
                unsafe {
                    let mut message: libc::msghdr = std::mem::zeroed();
                    message.msg_iov = page.0.add(*at).cast();
                    message.msg_iovlen = *count as _;
                    check(libc::sendmsg(socket, page.put(*header, message), 0) as i64);
                }
            }
        });
        for ((header, at, count), captured) in cases.iter().zip(&captured) {
            assert_eq!(*captured, text[..*count].concat(), "{hook}: {header}, {at}, {count}");
        }
        assert_eq!(captured.len(), cases.len(), "{hook}");
    }
}

#[test]
fn a_long_message_is_captured_in_part_and_counted_whole() {
    let (listener, port) = pair();
    let payload = vec![b'x'; 200_000];
    let seen = watch(best_way(), port, || {
        let mut client = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let (mut server, _) = listener.accept().expect("accepts");
        let writer = std::thread::spawn({
            let payload = payload.clone();
            move || client.write_all(&payload).map(|()| client)
        });
        let mut total = 0;
        let mut buffer = [0; 10_000];
        while total < payload.len() {
            total += server.read(&mut buffer).expect("reads");
        }
        drop(writer.join().expect("no panic"));
    });
    let received: Vec<_> =
        seen.transfers.iter().filter(|t| t.direction == Direction::Received).collect();
    assert_eq!(received.iter().map(|t| t.length as usize).sum::<usize>(), payload.len());
    assert_eq!(received[0].bytes.len(), 1024);
    assert_eq!(received.last().expect("some").bytes.len(), 64, "a body passes by");
}

#[test]
fn ipv6_is_traced_and_a_process_can_be_left_out() {
    let listener = TcpListener::bind("[::1]:0").expect("IPv6 loopback");
    let port = listener.local_addr().expect("bound").port();
    let talk = || {
        let mut client = TcpStream::connect(("::1", port)).expect("connects");
        let (mut server, _) = listener.accept().expect("accepts");
        client.write_all(b"PING\r\n").expect("writes");
        assert_eq!(server.read(&mut [0; 64]).expect("reads"), 6);
    };
    let seen = watch(best_way(), port, talk);
    let expected: IpAddr = "::1".parse().expect("an address");
    assert_eq!(seen.opened.len(), 2);
    assert!(seen.opened.values().all(|opened| opened.local.address == expected));

    let config =
        KernelConfig { ignored_processes: vec![std::process::id()], ..KernelConfig::default() };
    let kernel = Kernel::attach(&config).expect("attaches");
    talk();
    let mut mine = 0;
    let events = kernel.events();
    let reader = kernel
        .reader(&events, |record| {
            if let Ok(Event::Opened(opened)) = decode(record) {
                mine += usize::from(opened.process == std::process::id());
            }
        })
        .expect("the ring can be mapped");
    while reader.consume() == RingReader::MOST_RECORDS {}
    drop(reader);
    assert_eq!(mine, 0, "an ignored process is not announced");
}

#[test]
fn the_read_that_takes_the_last_bytes_before_a_fin_counts_bytes_only() {
    for hook in ways() {
        let (listener, port) = pair();
        let seen = watch(hook, port, || {
            let mut client = TcpStream::connect(("127.0.0.1", port)).expect("connects");
            let (mut server, _) = listener.accept().expect("accepts");
            client.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("writes");
            client.shutdown(std::net::Shutdown::Write).expect("a connected socket");
            // The FIN arrives before the read.
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(server.read(&mut [0; 256]).expect("reads"), 18);
        });
        let of = |direction| {
            let found = seen.transfers.iter().find(|t| t.direction == direction);
            found.map(|transfer| (transfer.seq, transfer.length))
        };
        assert!(of(Direction::Sent).is_some(), "{hook}");
        assert_eq!(of(Direction::Sent), of(Direction::Received), "{hook}");
    }
}

/// Closes a socket so that its peer receives a reset.
fn reset(socket: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the option's value is a structure on this stack, of this length.
    let set = unsafe {
        let value = (&raw const linger).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, length)
    };
    assert_eq!(set, 0);
}

#[test]
fn a_connection_that_is_first_read_after_its_reset_is_closed_with_that() {
    for hook in ways() {
        let (listener, port) = pair();
        let seen = watch(hook, port, || {
            let mut client = TcpStream::connect(("127.0.0.1", port)).expect("connects");
            client.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("writes");
            reset(client);
            let (mut server, _) = listener.accept().expect("accepts");
            assert_eq!(server.read(&mut [0; 10]).expect("it was received before"), 10);
            assert_eq!(server.read(&mut [0; 10]).expect("it was received before"), 8);
        });
        let server: Vec<_> =
            seen.opened.values().filter(|opened| opened.local.port == port).collect();
        assert_eq!(server.len(), 1, "{hook}");
        let received = seen.transfers.iter().filter(|t| t.connection == server[0].connection);
        assert_eq!(received.map(|t| t.length).collect::<Vec<_>>(), [10], "{hook}");
        let mut closed = seen.closed.clone();
        closed.sort_unstable();
        let mut opened: Vec<u64> = seen.opened.keys().copied().collect();
        opened.sort_unstable();
        assert_eq!(closed, opened, "{hook}: each is closed, once");
    }
}

/// Datagrams of this process during `work`.
fn watch_datagrams(hook: HookChoice, work: impl FnOnce()) -> Vec<RecordedDatagram> {
    let config = KernelConfig { hook, ..KernelConfig::default() };
    let kernel = Kernel::attach(&config).unwrap_or_else(|error| panic!("{error}"));
    work();
    let mut seen = Vec::new();
    {
        let events = kernel.events();
        let reader = kernel
            .reader(&events, |record| {
                let event = decode(record).expect("our own records decode");
                if let RecordedEvent::Datagram(datagram) = RecordedEvent::from(&event)
                    && datagram.process == std::process::id()
                {
                    seen.push(datagram);
                }
            })
            .expect("the ring can be mapped");
        while reader.consume() == RingReader::MOST_RECORDS {}
    }
    seen
}

/// A socket at one of the watched ports; another process may have the usual one.
fn watched_port(address: &str) -> UdpSocket {
    for port in [5353, 53] {
        if let Ok(socket) = UdpSocket::bind((address, port)) {
            return socket;
        }
    }
    panic!("both port 53 and port 5353 of {address} are taken");
}

#[test]
fn datagrams_to_watched_ports_are_seen_whoever_sends_them_how() {
    let _one_at_a_time = PORT.lock();
    for (hook, address) in ways().into_iter().flat_map(|hook| [(hook, "127.0.0.7"), (hook, "::1")])
    {
        let server = watched_port(address);
        let port = server.local_addr().expect("bound").port();
        let other = UdpSocket::bind((address, 0)).expect("a loopback port");
        let client = UdpSocket::bind((address, 0)).expect("a loopback port");
        let mine = client.local_addr().expect("bound").port();
        let mut buffer = [0; 2048];
        let seen = watch_datagrams(hook, || {
            // Neither socket is connected.
            client.send_to(b"query", (address, port)).expect("sends");
            let (_, from) = server.recv_from(&mut buffer).expect("receives");
            server.send_to(b"answer", from).expect("sends");
            client.recv_from(&mut buffer).expect("receives");
            // The client is connected, and messages are longer than captured.
            client.connect((address, port)).expect("connects");
            client.send(&[b'q'; 1500]).expect("sends");
            server.recv_from(&mut buffer).expect("receives");
            // Ports that are not watched.
            client.connect(other.local_addr().expect("bound")).expect("connects");
            client.send(b"unwatched").expect("sends");
            other.recv_from(&mut buffer).expect("receives");
        });
        let told: Vec<_> = seen.iter().map(|d| (d.direction, d.length, d.bytes.len())).collect();
        let (sent, received) = (Direction::Sent, Direction::Received);
        let expected = [
            (sent, 5, 5),
            (received, 5, 5),
            (sent, 6, 6),
            (received, 6, 6),
            (sent, 1500, 1024),
            (received, 1500, 1024),
        ];
        assert_eq!(told, expected, "{hook} {address}");
        let remote = |at: usize| seen[at].remote.map(|end| (end.address.to_string(), end.port));
        assert_eq!(remote(0), Some((address.to_owned(), port)), "{hook}");
        assert_eq!(remote(2), Some((address.to_owned(), mine)), "{hook}");
        assert_eq!(remote(4), Some((address.to_owned(), port)), "{hook}");
        let knows_sender = !at_sockets(hook);
        assert_eq!(remote(1), knows_sender.then(|| (address.to_owned(), mine)), "{hook}");
        assert_eq!((seen[0].local.port, seen[1].local.port), (mine, port));
        assert_eq!(seen[0].bytes, b"query");
        assert!(seen.iter().all(|d| d.network_namespace > 0 && d.time_nano > 0));
    }
}

#[test]
fn several_datagrams_of_one_call_are_seen_each() {
    let _one_at_a_time = PORT.lock();
    for hook in ways() {
        let server = watched_port("127.0.0.7");
        let client = UdpSocket::bind("127.0.0.7:0").expect("a loopback port");
        client.connect(server.local_addr().expect("bound")).expect("connects");
        let mut parts: [Vec<u8>; 2] = [b"first".to_vec(), b"the second".to_vec()];
        let mut into = [[0u8; 64]; 2];
        let seen = watch_datagrams(hook, || {
            // SAFETY: the vectors refer to buffers that outlive the calls; headers live on this
            // stack.
            unsafe {
                let mut vectors = parts.each_mut().map(|part| libc::iovec {
                    iov_base: part.as_mut_ptr().cast(),
                    iov_len: part.len(),
                });
                let mut out: [libc::mmsghdr; 2] = std::mem::zeroed();
                let mut inward = out;
                let mut rooms = into
                    .each_mut()
                    .map(|room| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: 64 });
                for index in 0..2 {
                    out[index].msg_hdr.msg_iov = &raw mut vectors[index];
                    out[index].msg_hdr.msg_iovlen = 1;
                    inward[index].msg_hdr.msg_iov = &raw mut rooms[index];
                    inward[index].msg_hdr.msg_iovlen = 1;
                }
                assert_eq!(libc::sendmmsg(client.as_raw_fd(), out.as_mut_ptr(), 2, 0), 2);
                let null = std::ptr::null_mut();
                assert_eq!(libc::recvmmsg(server.as_raw_fd(), inward.as_mut_ptr(), 2, 0, null), 2);
            }
        });
        let bytes: Vec<_> = seen.iter().map(|datagram| datagram.bytes.as_slice()).collect();
        assert_eq!(bytes, [parts[0].as_slice(), &parts[1], &parts[0], &parts[1]], "{hook}");
    }
}

/// Records may arrive as fast as they are read.
#[test]
fn one_turn_of_reading_ends_though_there_is_more() {
    let config = KernelConfig::default();
    let kernel = Kernel::attach(&config).unwrap_or_else(|error| panic!("{error}"));
    let (listener, port) = pair();
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    let (mut server, _) = listener.accept().expect("accepts");
    let calls = RingReader::MOST_RECORDS + 1000;
    for _ in 0..calls {
        client.write_all(b"x").expect("writes");
        server.read_exact(&mut [0]).expect("reads");
    }
    let mut taken = 0;
    let events = kernel.events();
    let reader = kernel.reader(&events, |_| taken += 1).expect("the ring can be mapped");
    let first = reader.consume();
    let mut all = first;
    loop {
        let more = reader.consume();
        all += more;
        if more < RingReader::MOST_RECORDS {
            break;
        }
    }
    drop(reader);
    assert_eq!(first, RingReader::MOST_RECORDS);
    assert_eq!(all, taken);
    assert!(all as u64 + kernel.losses().data >= calls as u64, "{all} of {calls}");
}

/// How long the living threads of this process waited for a processor, as the kernel counts it.
fn run_delay_nano() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    let of = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    threads.filter_map(of).sum()
}

fn own(figures: &KernelFigures) -> ProcessFigures {
    let me = std::process::id();
    let found = figures.read().into_iter().find(|(process, _)| *process == me);
    found.map(|(_, figures)| figures).unwrap_or_default()
}

#[test]
fn waits_for_a_processor_and_bytes_are_counted_by_process() {
    let figures = KernelFigures::attach().unwrap_or_else(|error| panic!("{error}"));
    let threads = 4 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let barrier = std::sync::Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait(); // it is there
                barrier.wait(); // its figures were read
                let began = std::time::Instant::now();
                while began.elapsed() < std::time::Duration::from_millis(600) {
                    std::hint::black_box(began);
                }
                barrier.wait(); // it has worked
                barrier.wait(); // its figures were read
            });
        }
        barrier.wait();
        let (before, ours_before) = (run_delay_nano(), own(&figures));
        barrier.wait();
        barrier.wait();
        let (after, ours) = (run_delay_nano(), own(&figures));
        barrier.wait();
        let (kernels, counted) = (after - before, ours.waited_nano - ours_before.waited_nano);
        // There are more threads than processors, so each waits for most of the time.
        assert!(counted > 600_000_000, "{counted}");
        let differs = counted.abs_diff(kernels);
        assert!(differs < kernels / 5, "counted {counted}, the kernel {kernels}");
        let waits: u64 = ours.waits.iter().zip(ours_before.waits).map(|(a, b)| a - b).sum();
        assert!(waits > threads as u64, "{ours:?}");
        // No bucket can hold more time than was waited.
        let least: u64 = (ours.waits.iter().zip(ours_before.waits).enumerate())
            .map(|(n, (a, b))| (a - b) * if n == 0 { 0 } else { 1000 << (n - 1) })
            .sum();
        assert!(least <= counted && least * 2 + waits * 1000 >= counted, "{least} {counted}");
    });

    assert_eq!(figures.without_network(), None);
    let before = own(&figures).network_bytes.expect("counted");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    let (mut server, _) = listener.accept().expect("accepted");
    let writer = std::thread::spawn(move || client.write_all(&[7; 1_000_000]).expect("sent"));
    server.read_exact(&mut [0; 1_000_000]).expect("received");
    writer.join().expect("it ends");
    let after = own(&figures).network_bytes.expect("counted");
    for (before, after) in before.into_iter().zip(after) {
        // Other tests of this process may have moved some as well.
        assert!((1_000_000..50_000_000).contains(&(after - before)), "{before} {after}");
    }
    assert_eq!((figures.lost().waits, figures.lost().bytes), (0, 0));
    figures.forget(std::process::id());
    assert!(own(&figures).waited_nano < 600_000_000, "it begins anew");
}
