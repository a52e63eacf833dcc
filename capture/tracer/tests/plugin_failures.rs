//! Plugins that are none, and plugins that misbehave: the first are refused with
//! what to do, the second harm nothing but what they read.

mod support;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use spanwise_capture_protocols::plugins::Plugin;
use spanwise_capture_tracer::Tracer;
use spanwise_capture_tracer::event::Direction::{self, Received, Sent};
use spanwise_capture_tracer::event::{Closed, Endpoint, Opened, Role};
use spanwise_capture_tracer::recording::{RecordedData, RecordedEvent};
use spanwise_model::Span;
use support::data;
use support::plugins::{built, example, file, loaded, of_tests, tracer_with};

/// `hostile.c` has what each number does.
const TRAP_IN_RECOGNISE: u32 = 1;
const TRAP_IN_DECODE: u32 = 3;
const LOOP_IN_RECOGNISE: u32 = 4;
const LOOP_IN_MEASURE: u32 = 5;
const LOOP_IN_DECODE: u32 = 6;
const FILL_FOR_EVER: u32 = 7;
const RECURSION: u32 = 8;
const GROWTH: u32 = 9;
const WRITE_OUTSIDE: u32 = 10;
const LAST_OF_NONSENSE: u32 = 16;
const LIKENESS_OF_NOTHING: u32 = 17;
const SHRINKING: u32 = 18;
const HUGE_LENGTH: u32 = 19;
const MINUS_LENGTH: u32 = 20;
const SLOW: u32 = 21;
const LOOP_AT_START: u32 = 22;
const TRAP_AT_START: u32 = 23;
const AREA_OUTSIDE: u32 = 24;
const NAME_OUTSIDE: u32 = 25;
const NAME_TAKEN: u32 = 26;
const TOO_MUCH_MEMORY: u32 = 27;
const RIGHT: u32 = 28;
const TRAP_AT_X: u32 = 29;

/// Failures after which a plugin is switched off.
const MAX_FAILURES: u64 = 10;

fn hostile(how: u32) -> PathBuf {
    let how_flag = format!("-DHOW={how}");
    let mut flags = vec![how_flag.as_str()];
    if how == TOO_MUCH_MEMORY {
        flags.push("-DHUGE_MEMORY");
    }
    of_tests("hostile.c", &flags)
}

/// What loading a file of this content is refused with.
fn refusal(content: &[u8]) -> String {
    let file = file("refused");
    std::fs::write(&file, content).unwrap();
    let refused = Plugin::load(&file).map(|plugin| plugin.name());
    std::fs::remove_file(&file).unwrap();
    let error = refused.expect_err("no plugin").to_string();
    assert!(error.starts_with(&format!("the plugin {}: ", file.display())), "{error}");
    error
}

fn refusal_of(file: &PathBuf) -> String {
    let content = std::fs::read(file).unwrap();
    std::fs::remove_file(file).unwrap();
    refusal(&content)
}

static STASH: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let file = built(&example().join("stash.c"), &[]);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    bytes
});

/// The example with the bytes of one of its names changed to others as long.
fn renamed(from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = STASH.clone();
    let at = bytes.windows(from.len()).position(|window| window == from).expect("its name");
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

#[test]
fn what_is_no_plugin_is_refused_with_what_to_do() {
    let folder = std::env::temp_dir();
    for (path, reason) in
        [(PathBuf::from("/no/such.wasm"), "No such file"), (folder, "Is a directory")]
    {
        let error = Plugin::load(&path).expect_err("no file").to_string();
        assert!(error.starts_with(&format!("cannot read the plugin {}", path.display())));
        assert!(error.contains(reason) && error.contains("agent.plugins (--plugin)"), "{error}");
    }
    for (content, reason) in [
        (&b""[..], "it is no WebAssembly module; build one"),
        (b"#!/bin/sh\n", "it is no WebAssembly module; build one"),
        (b"\0asm\x0d\0\x01\0", "it is a WebAssembly component"),
        (b"\0asm\x01\0\0\0", "it exports no function `spanwise_plugin_1`"),
        (&STASH[..1000], "that this program cannot take"),
        (&vec![0; (4 << 20) + 1], "it has more than 4194304 bytes; strip it"),
        (
            &renamed(b"spanwise_plugin_1", b"spanwise_plugin_2"),
            "it is made for interface 2, and this program has interface 1; build it",
        ),
        (
            &renamed(b"recognise", b"recognize"),
            "it does not export `recognise` as a function (i32, i32) -> i32; export",
        ),
        (&renamed(b"memory", b"mempry"), "it does not export `memory` as its memory"),
        (&renamed(b"stash.bucket", b"stash.Bucket"), "its attribute key `stash.Bucket` is none"),
        (&renamed(b"stash.bucket", b"spanwise.key"), "its attribute key `spanwise.key` is none"),
    ] {
        let error = refusal(content);
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_module_that_wants_something_from_outside_is_refused() {
    let source = file("import").with_extension("c");
    std::fs::write(
        &source,
        "__attribute__((import_module(\"wasi_snapshot_preview1\"), import_name(\"fd_write\")))
         int fd_write(int);
         __attribute__((import_module(\"env\"), import_name(\"time\"))) int now(void);
         __attribute__((export_name(\"spanwise_plugin_1\"))) int about(void);
         int about(void) { return fd_write(now()); }",
    )
    .unwrap();
    let error = refusal_of(&built(&source, &[]));
    std::fs::remove_file(source).unwrap();
    let reason = "it wants the function `wasi_snapshot_preview1.fd_write` and 1 more from outside, \
                  and plugins get nothing; build it without WASI";
    assert!(error.contains(reason) || error.contains("`env.time` and 1 more"), "{error}");
}

#[test]
fn a_plugin_that_does_not_start_is_refused() {
    for (how, reason) in [
        (LOOP_AT_START, "it does not start: it ran for too long"),
        (TRAP_AT_START, "it does not start: it trapped: wasm `unreachable`"),
        (TOO_MUCH_MEMORY, "it does not start: it wanted more than 4194304 bytes of memory"),
        (AREA_OUTSIDE, "and behind that its memory ends too soon"),
        (NAME_OUTSIDE, "its name lies outside its memory"),
        (NAME_TAKEN, "its protocol is called `redis`, as one that is read without plugins"),
    ] {
        let error = refusal_of(&hostile(how));
        assert!(error.contains(reason), "{how}: {error}");
    }
}

#[test]
fn several_plugins_are_loaded_in_order_and_have_names_of_their_own() {
    let stash = built(&example().join("stash.c"), &[]);
    let lines = of_tests("lines.c", &[]);
    let all = Plugin::load_all(&[stash.clone(), lines.clone()]).unwrap();
    let names: Vec<&str> = all.iter().map(Plugin::name).collect();
    assert_eq!(names, ["stash", "lines"]);
    let error = Plugin::load_all(&[stash.clone(), stash.clone()]).expect_err("twice").to_string();
    assert!(error.contains("its protocol is called `stash`, as that of"), "{error}");
    std::fs::remove_file(stash).unwrap();
    std::fs::remove_file(lines).unwrap();
}

/// A conversation of a plugin's protocol, and one of HTTP meanwhile, each on many
/// connections one after the other.
struct Traffic {
    events: Vec<RecordedEvent>,
    time_nano: u64,
}

impl Traffic {
    fn new() -> Self {
        Self { events: Vec::new(), time_nano: 1_000_000_000 }
    }

    fn open(&mut self, connection: u64) {
        let endpoint = |port| Endpoint { address: [127, 0, 0, 1].into(), port };
        self.time_nano += 1_000_000;
        self.events.push(RecordedEvent::Opened(Opened {
            time_nano: self.time_nano,
            connection,
            process: 1,
            thread: 1,
            sleeps: 0,
            role: Role::Server,
            local: endpoint(9999),
            remote: endpoint(40_000),
            network_namespace: 0,
            connect_nano: None,
            command: Default::default(),
            first_seqs: None,
            unix: None,
        }));
    }

    fn say(&mut self, connection: u64, direction: Direction, seq: u32, bytes: &[u8]) {
        let RecordedEvent::Data(event) = data(connection, direction, seq, bytes) else {
            unreachable!("data makes data")
        };
        self.time_nano += 1_000_000;
        self.events.push(RecordedEvent::Data(RecordedData { time_nano: self.time_nano, ..event }));
    }

    fn close(&mut self, connection: u64) {
        self.time_nano += 1_000_000;
        let (time_nano, reset, retransmits) = (self.time_nano, false, 0);
        self.events.push(RecordedEvent::Closed(Closed {
            time_nano,
            connection,
            reset,
            retransmits,
            received_up_to: None,
        }));
    }

    /// On so many connections.
    fn of(count: u64) -> Self {
        let mut traffic = Self::new();
        for number in 0..count {
            let (odd, plain) = (2 * number + 1, 2 * number + 2);
            traffic.open(odd);
            traffic.open(plain);
            traffic.say(odd, Received, 100, b"!1234567!1234567");
            traffic.say(plain, Received, 100, b"GET /a HTTP/1.1\r\n\r\n");
            traffic.say(odd, Sent, 900, b"!7654321");
            let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            traffic.say(plain, Sent, 900, ok);
            traffic.say(odd, Received, 116, b"!12345");
            traffic.say(odd, Received, 122, b"67");
            traffic.say(odd, Sent, 908, b"!7654321!7654321");
            traffic.close(odd);
            traffic.close(plain);
        }
        traffic
    }
}

/// Spans by their protocol, and counters.
fn outcome(
    tracer: &mut Tracer,
    traffic: &Traffic,
) -> (HashMap<String, u64>, HashMap<&'static str, u64>) {
    let mut found: Vec<Span> = Vec::new();
    for event in &traffic.events {
        tracer.event(&event.event());
    }
    tracer.tick(traffic.time_nano + 1_000_000_000);
    tracer.drain(&mut found).unwrap();
    let mut spans = HashMap::new();
    for span in &found {
        *spans.entry(span.protocol.clone().unwrap()).or_insert(0) += 1;
    }
    (spans, tracer.counters().into_iter().filter(|(_, count)| *count > 0).collect())
}

const CONNECTIONS: u64 = 40;

#[test]
fn what_a_failing_plugin_reads_is_opaque_and_nothing_else_suffers() {
    let hows = (TRAP_IN_RECOGNISE..=SHRINKING).chain([HUGE_LENGTH, MINUS_LENGTH, RIGHT]);
    for how in hows {
        let counter = match how {
            LOOP_IN_RECOGNISE | LOOP_IN_MEASURE | LOOP_IN_DECODE | FILL_FOR_EVER => {
                "plugin_calls_without_end"
            }
            TRAP_IN_RECOGNISE..=TRAP_IN_DECODE | RECURSION | WRITE_OUTSIDE => "plugin_traps",
            GROWTH => "plugin_memory_refused",
            ..=LAST_OF_NONSENSE | LIKENESS_OF_NOTHING | SHRINKING => "plugin_answers_invalid",
            // What peers send may be as wrong.
            HUGE_LENGTH | MINUS_LENGTH => "malformed_messages",
            _ => "spans",
        };
        let mut tracer = tracer_with(&[loaded(&hostile(how))]);
        let began = Instant::now();
        let (spans, counters) = outcome(&mut tracer, &Traffic::of(CONNECTIONS));
        assert!(began.elapsed() < Duration::from_secs(60), "{how}: {:?}", began.elapsed());
        assert_eq!(spans.get("http"), Some(&CONNECTIONS), "{how}: {spans:?} {counters:?}");
        let facts = &tracer.plugins()[0];
        if how == RIGHT {
            assert_eq!(spans["hostile"], 3 * CONNECTIONS, "{spans:?}");
            assert_eq!((facts.failures, facts.switched_off), (0, false));
            continue;
        }
        assert_eq!(spans.get("hostile"), None, "{how}: {spans:?}");
        let failures = counters.get(counter).copied().unwrap_or(0);
        if counter == "malformed_messages" {
            assert!(failures > 0 && !facts.switched_off, "{how}: {counters:?}");
            continue;
        }
        // With its addresses and its close each connection is worth a span.
        assert_eq!(spans.get("tcp"), Some(&CONNECTIONS), "{how}: {spans:?} {counters:?}");
        assert_eq!(failures, MAX_FAILURES, "{how}: {counters:?}");
        assert_eq!((facts.failures, facts.switched_off), (MAX_FAILURES, true), "{how}");
        assert_eq!(counters["plugins_switched_off"], 1, "{how}");
        assert_eq!(tracer.held_bytes(), 0, "{how}");
    }
}

#[test]
fn a_plugin_that_makes_up_for_its_failures_stays() {
    let failures = 2 * MAX_FAILURES;
    for (right_messages, stays) in [(20, true), (0, false)] {
        let mut tracer = tracer_with(&[loaded(&hostile(TRAP_AT_X))]);
        let mut traffic = Traffic::new();
        for number in 0..failures {
            let (wrong, right) = (2 * number + 1, 2 * number + 2);
            traffic.say(wrong, Received, 100, b"!x345678");
            let mut seq = 100;
            for _ in 0..right_messages {
                traffic.say(right, Received, seq, &b"!1234567".repeat(100));
                seq += 800;
            }
        }
        let (_, counters) = outcome(&mut tracer, &traffic);
        let facts = &tracer.plugins()[0];
        assert_eq!(facts.switched_off, !stays, "{facts:?} {counters:?}");
        let told = if stays { failures } else { MAX_FAILURES };
        assert_eq!(counters["plugin_traps"], told, "{counters:?}");
    }
}

#[test]
fn a_slow_plugin_has_a_share_of_time_and_no_more() {
    let mut tracer = tracer_with(&[loaded(&hostile(SLOW))]);
    let mut traffic = Traffic::new();
    traffic.open(1);
    // Some 80,000 units of fuel for each of 20,000 messages within a second.
    traffic.say(1, Received, 100, b"!1234567");
    let first = traffic.time_nano;
    let mut seq = 108;
    for _ in 0..200 {
        traffic.say(1, Received, seq, &b"!1234567".repeat(100));
        seq += 800;
    }
    for event in &mut traffic.events {
        if let RecordedEvent::Data(data) = event {
            data.time_nano = first;
        }
    }
    let began = Instant::now();
    let (_, counters) = outcome(&mut tracer, &traffic);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(counters["plugin_calls_over_budget"] > 0, "{counters:?}");
    assert_eq!(counters["framing_lost"], 1, "{counters:?}");
    let facts = &tracer.plugins()[0];
    assert_eq!((facts.failures, facts.switched_off), (0, false));
    // A second later it is asked again.
    let mut later = Traffic { events: Vec::new(), time_nano: first + 2_000_000_000 };
    later.say(1, Sent, 900, b"!7654321");
    later.say(1, Received, seq, b"!1234567");
    later.say(1, Sent, 908, b"!7654321");
    let (spans, _) = outcome(&mut tracer, &later);
    assert_eq!(spans["hostile"], 1, "{spans:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is behind `--plugin` is taken or refused, and what is taken harms
    /// nothing.
    #[test]
    fn a_plugin_of_random_bytes_never_harms(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        tail in prop::option::weighted(0.2, prop::collection::vec(any::<u8>(), 0..300)),
    ) {
        let mut bytes = STASH.clone();
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend(tail.unwrap_or_default());
        let file = file("random");
        std::fs::write(&file, &bytes).unwrap();
        let plugin = Plugin::load(&file);
        std::fs::remove_file(&file).unwrap();
        if let Ok(plugin) = plugin {
            let mut traffic = Traffic::new();
            traffic.open(1);
            for seq in [100, 134] {
                traffic.say(1, Received, seq, b"ST\x01\x01\0\0\0\x01\0\0\0\x16\x03get\x06apples\0          ");
                traffic.say(1, Sent, seq, b"ST\x01\x02\0\0\0\x01\0\0\0\x03\0\0\0");
            }
            traffic.close(1);
            let mut tracer = tracer_with(&[plugin]);
            outcome(&mut tracer, &traffic);
            prop_assert_eq!(tracer.held_bytes(), 0);
        }
    }
}
