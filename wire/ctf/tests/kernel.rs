//! Metrics of hosts from kernel traces, against figures that were computed by hand. The streams are
//! laid out as LTTng 2.13 lays them out; `recorded/kernel/metadata` describes them.

#[path = "../../native/tests/otlp_metrics/mod.rs"]
mod otlp_metrics;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use otlp_metrics::{ExportMetricsServiceRequest, Metric, attributes};
use prost::Message as _;
use spanwise_ctf::{HostCounts, Spans, Trace};

const OFFSET_NS: u64 = 1_795_900_000_000_000_000;
const MS: u64 = 1_000_000;
/// The values of `prev_state`.
const RUNNABLE: i64 = 0;
const PREEMPTED: i64 = 256;
const ASLEEP: i64 = 1;
const ON_DISK: i64 = 2;
const ZOMBIE: i64 = 32;

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/kernel")
}

/// One packet of a processor's stream.
struct Packet {
    cpu: u32,
    sequence: u64,
    discarded: u64,
    begin_ns: u64,
    last_ns: u64,
    end_ns: u64,
    events: Vec<u8>,
}

fn comm(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

impl Packet {
    fn new(cpu: u32, sequence: u64, begin_ns: u64) -> Self {
        let (discarded, last_ns, end_ns) = (0, begin_ns, begin_ns);
        Self { cpu, sequence, discarded, begin_ns, last_ns, end_ns, events: Vec::new() }
    }

    /// The header has the low 27 bits of the time, or all of it if more have changed.
    fn event(&mut self, at_ns: u64, class: u32, parts: &[&[u8]]) {
        if at_ns - self.last_ns < 1 << 27 {
            let low = at_ns as u32 & ((1 << 27) - 1);
            self.events.extend((class | low << 5).to_le_bytes());
        } else {
            self.events.push(31);
            self.events.extend(class.to_le_bytes());
            self.events.extend(at_ns.to_le_bytes());
        }
        self.last_ns = at_ns;
        parts.iter().for_each(|part| self.events.extend(*part));
    }

    fn switch(&mut self, at_ns: u64, prev: (&str, i32), state: i64, next: (&str, i32)) {
        let prio = 20_i32.to_le_bytes();
        let (prev_tid, next_tid) = (prev.1.to_le_bytes(), next.1.to_le_bytes());
        let (from, to) = (comm(prev.0), comm(next.0));
        let state = state.to_le_bytes();
        self.event(at_ns, 0, &[&from, &prev_tid, &prio, &state, &to, &next_tid, &prio]);
    }

    fn wakeup(&mut self, at_ns: u64, (name, tid): (&str, i32), is_new: bool) {
        let (prio, cpu) = (20_i32.to_le_bytes(), 0_i32.to_le_bytes());
        let class = if is_new { 2 } else { 1 };
        self.event(at_ns, class, &[&comm(name), &tid.to_le_bytes(), &prio, &cpu]);
    }

    fn fork(&mut self, at_ns: u64, parent: (&str, i32, i32), child: (&str, i32, i32)) {
        let number = |number: i32| number.to_le_bytes();
        let namespace = 7_u32.to_le_bytes();
        let (from, to) = (comm(parent.0), comm(child.0));
        let (parent_tid, parent_pid) = (number(parent.1), number(parent.2));
        let (child_tid, child_pid) = (number(child.1), number(child.2));
        let before: [&[u8]; 4] = [&from, &parent_tid, &parent_pid, &namespace];
        // Its number in each of two namespaces.
        let after: [&[u8]; 7] =
            [&to, &child_tid, &[2], &child_tid, &number(1), &child_pid, &namespace];
        self.event(at_ns, 3, &[before.as_slice(), after.as_slice()].concat());
    }

    fn process(&mut self, at_ns: u64, tid: i32, pid: i32, name: &str) {
        let (tid, pid) = (tid.to_le_bytes(), pid.to_le_bytes());
        self.event(at_ns, 4, &[&tid, &pid, &1_i32.to_le_bytes(), &comm(name), &[0; 20]]);
    }

    fn sent(&mut self, at_ns: u64, result: i32, bytes: u32) {
        let (result, bytes) = (result.to_le_bytes(), bytes.to_le_bytes());
        self.event(at_ns, 5, &[&[1; 8], &result, &bytes, b"eth0\0"]);
    }

    fn received(&mut self, at_ns: u64, bytes: u32) {
        self.event(at_ns, 6, &[&[1; 8], &bytes.to_le_bytes(), b"eth0\0"]);
    }

    fn bytes(&self, end_ns: u64) -> Vec<u8> {
        let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
        bytes.extend(b"Spanwise\0\0kernel");
        bytes.extend([0; 4]);
        bytes.extend(u64::from(self.cpu).to_le_bytes());
        let content = 84 + self.events.len() as u64;
        let size = content.next_multiple_of(256);
        let end_ns = end_ns.max(self.end_ns);
        let words = [self.begin_ns, end_ns, content * 8, size * 8, self.sequence, self.discarded];
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(self.cpu.to_le_bytes());
        bytes.extend(&self.events);
        bytes.resize(size as usize, 0);
        bytes
    }
}

/// The first processor in two packets, and the second.
fn scenario() -> [Packet; 3] {
    let mut first = Packet::new(0, 0, MS);
    first.process(MS, 100, 100, "shop");
    first.process(MS + 1000, 101, 100, "worker");
    first.process(MS + 2000, 200, 200, "db");
    first.switch(2 * MS, ("swapper/0", 0), RUNNABLE, ("shop", 100));
    first.sent(2 * MS + 200_000, 0, 60);
    first.sent(2 * MS + 250_000, 16, 77);
    first.received(2 * MS + 300_000, 1000);
    first.fork(2 * MS + 500_000, ("shop", 100, 100), ("shop", 400, 400));
    first.wakeup(2 * MS + 600_000, ("shop", 400), true);
    first.wakeup(5 * MS, ("worker", 101), false);
    first.switch(6 * MS, ("shop", 100), PREEMPTED, ("worker", 101));
    first.end_ns = 6 * MS + 500_000;
    let mut later = Packet::new(0, 1, 8 * MS);
    later.switch(9 * MS, ("worker", 101), ASLEEP, ("shop", 100));
    later.switch(10 * MS, ("shop", 100), ON_DISK, ("swapper/0", 0));
    later.end_ns = 12 * MS;
    let mut second = Packet::new(1, 0, MS + 500_000);
    second.wakeup(MS + 500_000, ("lonely", 300), false);
    second.switch(3 * MS, ("db", 200), ASLEEP, ("lonely", 300));
    second.wakeup(3 * MS + 500_000, ("db", 200), false);
    second.switch(4 * MS, ("lonely", 300), RUNNABLE, ("cgi", 400));
    second.switch(4 * MS + 700_000, ("cgi", 400), ZOMBIE, ("db", 200));
    second.end_ns = 11 * MS;
    [first, later, second]
}

fn streams([first, later, second]: &[Packet; 3]) -> [Vec<u8>; 2] {
    [[first.bytes(0), later.bytes(0)].concat(), second.bytes(0)]
}

fn directory(streams: &[Vec<u8>]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::copy(recorded().join("metadata"), dir.path().join("metadata")).expect("copied");
    for (cpu, bytes) in streams.iter().enumerate() {
        std::fs::write(dir.path().join(format!("channel0_{cpu}")), bytes).expect("written");
    }
    dir
}

/// Messages, what they are made of, and what could not be read.
fn replayed(dir: &Path) -> (Vec<ExportMetricsServiceRequest>, HostCounts, Vec<String>) {
    let trace = Trace::open(dir).expect("a trace");
    let mut spans = Spans::new(trace, None);
    let mut found = Vec::new();
    while let Some(batch) = spans.next_batch() {
        let message = ExportMetricsServiceRequest::decode(&batch.messages[2][..]).expect("OTLP");
        let points: usize = message
            .metrics()
            .map(|(_, metric)| {
                let numbers = metric.sum.iter().map(|sum| sum.data_points.len());
                let histograms = metric.histogram.iter().map(|of| of.data_points.len());
                numbers.chain(histograms).sum::<usize>()
            })
            .sum();
        assert_eq!((batch.items[0], batch.items[2]), (0, points as u64));
        found.push(message);
    }
    (found, spans.host_counts(), spans.trace().problems())
}

/// Sums of a metric by attributes; times are in nanoseconds.
fn sums(metric: &Metric) -> BTreeMap<String, u64> {
    let sum = metric.sum.as_ref().expect("a sum");
    assert_eq!((sum.aggregation_temporality, sum.is_monotonic), (2, true), "{}", metric.name);
    let value = |point: &otlp_metrics::NumberDataPoint| match (point.as_int, point.as_double) {
        (Some(number), None) => number as u64,
        (None, Some(number)) => (number * 1e9).round() as u64,
        other => panic!("{other:?}"),
    };
    let key = |point: &otlp_metrics::NumberDataPoint| {
        attributes(&point.attributes).into_values().collect::<Vec<_>>().join(" ")
    };
    sum.data_points.iter().map(|point| (key(point), value(point))).collect()
}

/// Waits: their number by the upper bound of their bucket in microseconds, and all in nanoseconds.
fn waits(metric: &Metric) -> (Vec<(u64, u64)>, u64) {
    let histogram = metric.histogram.as_ref().expect("a histogram");
    assert_eq!(histogram.aggregation_temporality, 2);
    let [point] = &histogram.data_points[..] else { panic!("{histogram:?}") };
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
    let bounds = point.explicit_bounds.iter().map(|bound| (bound * 1e6).round() as u64);
    let counts = bounds.chain([u64::MAX]).zip(point.bucket_counts.iter().copied());
    let sum = (point.sum.expect("a sum") * 1e9).round() as u64;
    (counts.filter(|(_, count)| *count > 0).collect(), sum)
}

/// The last figures of each resource, by its number (0: the host) and the metric's name.
fn last(messages: &[ExportMetricsServiceRequest]) -> BTreeMap<(String, String), Metric> {
    let all = messages.iter().flat_map(ExportMetricsServiceRequest::metrics);
    all.map(|(resource, metric)| {
        assert_eq!(resource.get("host.name").map(String::as_str), Some("a-host"));
        let number = resource.get("process.pid").or_else(|| resource.get("thread.id"));
        let owner = match (number, resource.get("process.executable.name")) {
            (Some(number), Some(name)) => format!("{number} {name}"),
            _ => "host".to_owned(),
        };
        ((owner, metric.name.clone()), metric.clone())
    })
    .collect()
}

struct Found {
    metrics: BTreeMap<(String, String), Metric>,
    counts: HostCounts,
    problems: Vec<String>,
}

impl Found {
    fn of(streams: &[Vec<u8>]) -> Self {
        let dir = directory(streams);
        let (messages, counts, problems) = replayed(dir.path());
        Self { metrics: last(&messages), counts, problems }
    }

    fn metric(&self, of: &str, name: &str) -> &Metric {
        let found = self.metrics.get(&(of.to_owned(), name.to_owned()));
        found.unwrap_or_else(|| panic!("{of} has no {name}: {:?}", self.metrics.keys()))
    }

    fn sums(&self, of: &str, name: &str) -> Vec<(String, u64)> {
        sums(self.metric(of, name)).into_iter().collect()
    }

    fn one(&self, of: &str, name: &str) -> u64 {
        let sums = self.sums(of, name);
        assert_eq!(sums.len(), 1, "{of} {name}");
        sums[0].1
    }
}

fn named(list: &[(&str, u64)]) -> Vec<(String, u64)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn switches_are_cpu_time_waits_and_context_switches() {
    let found = Found::of(&streams(&scenario()));
    assert_eq!(found.problems, [""; 0]);
    let expected = HostCounts {
        events: 17,
        processes: 3,
        threads: 1,
        has_wakeups: true,
        ..HostCounts::default()
    };
    assert_eq!(found.counts, expected);
    for (of, cpu_ns, switches, (waited, sum_ns)) in [
        ("100 shop", 8 * MS, [1, 2], (vec![(1024, 1), (4096, 1)], 4 * MS)),
        ("200 db", 7_800_000, [0, 1], (vec![(2048, 1)], 1_200_000)),
        ("300 lonely", MS, [1, 0], (vec![(2048, 1)], 1_500_000)),
        ("400 cgi", 700_000, [0, 1], (vec![(2048, 1)], 1_400_000)),
    ] {
        assert_eq!(found.one(of, "process.cpu.time"), cpu_ns, "{of}");
        let by_type = named(&[("involuntary", switches[0]), ("voluntary", switches[1])]);
        assert_eq!(found.sums(of, "process.context_switches"), by_type, "{of}");
        let latency = found.metric(of, "spanwise.process.run_queue.latency");
        assert_eq!(waits(latency), (waited, sum_ns), "{of}");
    }
    let cpu = found.sums("host", "system.cpu.time");
    assert_eq!(cpu, named(&[("", 17_500_000), ("idle", 3 * MS)]));
    let latency = found.metric("host", "spanwise.system.run_queue.latency");
    assert_eq!(waits(latency), (vec![(1024, 1), (2048, 3), (4096, 1)], 8_100_000));
    let network = found.sums("host", "system.network.io");
    assert_eq!(network, named(&[("eth0 receive", 1000), ("eth0 transmit", 60)]));
    for name in ["events_discarded", "packets_lost", "cpu_time_unknown", "waits_unknown"] {
        assert_eq!(found.one("host", &format!("spanwise.host.{name}")), 0, "{name}");
    }
    // Units and times.
    let cpu = found.metric("400 cgi", "process.cpu.time");
    assert_eq!(cpu.unit, "s");
    let point = &cpu.sum.as_ref().expect("a sum").data_points[0];
    assert_eq!(point.start_time_unix_nano, OFFSET_NS + 2 * MS + 500_000, "when it was forked");
    assert_eq!(point.time_unix_nano, OFFSET_NS + 12 * MS, "the trace's end");
}

#[test]
fn discarded_events_are_no_figures_but_are_counted() {
    let mut packets = scenario();
    // Between 6 and 9 ms events are missing on the first processor.
    packets[0].discarded = 5;
    packets[1].discarded = 5;
    let found = Found::of(&streams(&packets));
    assert_eq!(found.problems, [""; 0]);
    assert_eq!(found.one("host", "spanwise.host.events_discarded"), 5);
    assert_eq!(found.one("host", "spanwise.host.cpu_time_unknown"), 3 * MS);
    assert_eq!(found.one("host", "spanwise.host.waits_unknown"), 1, "the one from 6 ms");
    assert_eq!(found.one("100 shop", "process.cpu.time"), 5 * MS);
    assert_eq!(found.one("200 db", "process.cpu.time"), 7_800_000, "of the other processor");
    let latency = found.metric("host", "spanwise.system.run_queue.latency");
    assert_eq!(waits(latency), (vec![(1024, 1), (2048, 3)], 5_100_000));
    let cpu = found.sums("host", "system.cpu.time");
    assert_eq!(cpu, named(&[("", 14_500_000), ("idle", 3 * MS)]));
}

#[test]
fn a_missing_packet_is_no_figure_but_is_counted() {
    let mut packets = scenario();
    packets[1].sequence = 2;
    let found = Found::of(&streams(&packets));
    assert_eq!(found.one("host", "spanwise.host.packets_lost"), 1);
    assert_eq!(found.one("host", "spanwise.host.cpu_time_unknown"), 3 * MS);
    assert_eq!(found.one("100 shop", "process.cpu.time"), 5 * MS);
}

#[test]
fn a_cut_stream_is_known_up_to_its_last_event() {
    let packets = scenario();
    let [mut first, second] = streams(&packets);
    // The switch at 10 ms lacks its last byte.
    let used = packets[0].bytes(0).len() + 84 + packets[1].events.len();
    first.truncate(used - 1);
    let found = Found::of(&[first, second]);
    assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
    assert!(found.problems[0].contains("is cut"), "{}", found.problems[0]);
    assert_eq!(found.one("100 shop", "process.cpu.time"), 7 * MS);
    assert_eq!(found.one("host", "spanwise.host.cpu_time_unknown"), 2 * MS, "9 ms to 11 ms");
    let latency = found.metric("host", "spanwise.system.run_queue.latency");
    assert_eq!(waits(latency), (vec![(1024, 1), (2048, 3), (4096, 1)], 8_100_000));
}

#[test]
fn streams_of_any_length_make_figures_that_add_up() {
    let whole = streams(&scenario());
    let packet = scenario()[0].bytes(0).len();
    for cut in 0..whole[0].len() {
        let mut streams = whole.clone();
        streams[0].truncate(cut);
        let found = Found::of(&streams);
        let cpu = found.sums("host", "system.cpu.time");
        let unknown = found.one("host", "spanwise.host.cpu_time_unknown");
        let counted = cpu.iter().map(|(_, ns)| ns).sum::<u64>() + unknown;
        // The second processor from 1.5 to 11 ms; the first from 1 ms, if it has any event.
        let [least, most] = match cut {
            0..136 => [9_500_000; 2],
            // The trace ends with a packet, and this packet at 6.5 ms.
            _ if cut == packet => [15_000_000; 2],
            _ => [19_500_000, 20_500_000],
        };
        assert!(counted >= least && counted <= most, "cut at {cut}: {counted}");
        let of_processes: u64 = ["100 shop", "200 db", "300 lonely", "400 cgi", "400 shop"]
            .iter()
            .filter_map(|of| {
                let key = ((*of).to_owned(), "process.cpu.time".to_owned());
                Some(sums(found.metrics.get(&key)?).into_values().sum::<u64>())
            })
            .sum();
        // Without its first events nothing says of which processes the threads are.
        if cut >= 240 {
            assert_eq!(cpu[0].1, of_processes, "cut at {cut}");
        }
    }
}

#[test]
fn long_traces_are_reported_every_ten_seconds_and_numbers_come_again() {
    let second = 1000 * MS;
    let mut packet = Packet::new(0, 0, MS);
    let idle = ("swapper/0", 0);
    packet.fork(MS, ("init", 1, 1), ("one", 500, 500));
    packet.switch(second, idle, RUNNABLE, ("one", 500));
    packet.switch(4 * second, ("one", 500), ASLEEP, idle);
    packet.switch(12 * second, idle, RUNNABLE, ("one", 500));
    packet.switch(14 * second, ("one", 500), ZOMBIE, ("init", 1));
    packet.fork(15 * second, ("init", 1, 1), ("two", 500, 500));
    packet.switch(16 * second, ("init", 1), ASLEEP, ("two", 500));
    packet.switch(18 * second, ("two", 500), ASLEEP, idle);
    packet.end_ns = 21 * second;
    let dir = directory(&[packet.bytes(0)]);
    let (messages, counts, problems) = replayed(dir.path());
    assert_eq!((problems, counts.mismatches, counts.unknown_ns), (Vec::new(), 0, 0));
    let mut found = Vec::new();
    for (resource, metric) in messages.iter().flat_map(ExportMetricsServiceRequest::metrics) {
        if metric.name == "process.cpu.time" && resource["process.pid"] == "500" {
            let point = &metric.sum.as_ref().expect("a sum").data_points[0];
            let seconds = |ns: u64| (ns - OFFSET_NS) / second;
            found.push((
                resource["process.executable.name"].clone(),
                seconds(point.start_time_unix_nano),
                seconds(point.time_unix_nano),
                point.as_double.expect("a number"),
            ));
        }
    }
    let expected = [("one", 0, 12, 3.0), ("one", 0, 15, 5.0), ("two", 15, 21, 2.0)];
    assert_eq!(found, expected.map(|(name, from, to, cpu)| (name.to_owned(), from, to, cpu)));
}

proptest::proptest! {
    #[test]
    fn damaged_kernel_traces_do_no_harm(
        flips in proptest::collection::vec(
            (proptest::prelude::any::<(u16, u8)>(), proptest::prelude::any::<bool>()),
            1..6,
        ),
        in_metadata in proptest::prelude::any::<bool>(),
    ) {
        let dir = directory(&streams(&scenario()));
        for ((at, value), second) in flips {
            let name = match (in_metadata, second) {
                (true, _) => "metadata",
                (false, true) => "channel0_1",
                (false, false) => "channel0_0",
            };
            let path = dir.path().join(name);
            let mut bytes = std::fs::read(&path).expect("a file");
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
            std::fs::write(&path, bytes).expect("written");
        }
        if Trace::open(dir.path()).is_ok() {
            replayed(dir.path());
        }
    }
}

/// The recorded streams are those of the scenario: fuzzing begins with them, and `make test-lttng`
/// compares what babeltrace2 reads of them.
#[test]
fn the_recorded_streams_are_the_scenario() {
    for (cpu, bytes) in streams(&scenario()).iter().enumerate() {
        let path = recorded().join(format!("channel0_{cpu}"));
        if std::env::var_os("UPDATE_RECORDED").is_some() {
            std::fs::write(&path, bytes).expect("written");
        }
        assert!(std::fs::read(&path).expect("a recording") == *bytes, "{}", path.display());
    }
}
