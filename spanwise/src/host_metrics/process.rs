//! Figures of processes.

use std::fs;
use std::path::Path;

use spanwise_capture_agent::{KernelFigures, ProcessFigures as Counted};
use spanwise_native::host::{PROCESS_CPU_TIME, PROCESS_RUN_QUEUE_LATENCY};
use spanwise_native::otlp::{MetricKind, Number, NumberKind, NumberMetric, NumberPoint};

use super::seconds;

/// Threads of a process whose waiting time is added.
const THREADS_MAX: usize = 1024;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessFigures {
    pub(super) pid: u32,
    /// Its command.
    pub(super) name: String,
    user_ticks: u64,
    system_ticks: u64,
    threads: u64,
    started_ticks: u64,
    virtual_bytes: u64,
    resident_bytes: u64,
    /// Time that its threads waited for a processor.
    wait_ns: Option<u64>,
    /// Bytes read from and written to disks.
    disk_bytes: Option<[u64; 2]>,
    /// What was counted in the kernel.
    counted: Option<Counted>,
}

impl ProcessFigures {
    /// Of all processes, without what only some need.
    pub(super) fn all(proc: &Path) -> Vec<Self> {
        let entries = fs::read_dir(proc).into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter_map(|pid| {
            let text = fs::read(proc.join(pid.to_string()).join("stat")).ok()?;
            Self::parse(&String::from_utf8_lossy(&text))
        })
        .collect()
    }

    /// The text of `stat`. A name may contain anything, so what follows its last parenthesis counts.
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            threads: number(20)?,
            started_ticks: number(22)?,
            virtual_bytes: number(23)?,
            resident_bytes: number(24)?.saturating_mul(rustix::param::page_size() as u64),
            ..Self::default()
        })
    }

    pub(super) const fn ticks(&self) -> u64 {
        self.user_ticks + self.system_ticks
    }

    /// Waiting times and disks.
    pub(super) fn read_more(&mut self, proc: &Path) {
        let dir = proc.join(self.pid.to_string());
        let tasks = fs::read_dir(dir.join("task")).into_iter().flatten().flatten();
        for task in tasks.take(THREADS_MAX) {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let waited = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
            if let Some(waited) = waited {
                *self.wait_ns.get_or_insert(0) += waited;
            }
        }
        let text = fs::read_to_string(dir.join("io")).unwrap_or_default();
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<u64>().ok()
        };
        self.disk_bytes = bytes("read_bytes:").zip(bytes("write_bytes:")).map(|(r, w)| [r, w]);
    }

    /// Adds what was counted in the kernel.
    pub(super) const fn set_counted(&mut self, counted: Counted) {
        self.counted = Some(counted);
    }

    /// `counted_ns` is since when it is counted in the kernel.
    pub(super) fn metrics(&self, boot_ns: u64, counted_ns: u64) -> Vec<NumberMetric> {
        use NumberKind::{Counter, UpDownCounter};
        let started_ns = boot_ns.saturating_add((seconds(self.started_ticks) * 1e9) as u64);
        let point = |attribute: Option<(&'static str, &str)>, value| NumberPoint {
            attributes: attribute.map(|(key, value)| (key, value.to_owned())).into_iter().collect(),
            start_ns: started_ns,
            value,
        };
        let pair = |key, names: [&str; 2], values: [u64; 2]| {
            names
                .into_iter()
                .zip(values)
                .map(|(name, value)| point(Some((key, name)), Number::Integer(value)))
                .collect::<Vec<_>>()
        };
        let one = |value| vec![point(None, value)];
        let cpu = [("user", self.user_ticks), ("system", self.system_ticks)];
        let cpu =
            cpu.map(|(mode, ticks)| point(Some(("cpu.mode", mode)), Number::Float(seconds(ticks))));
        // What was counted since the agent's start, or the process's.
        let since = |mut point: NumberPoint| {
            point.start_ns = started_ns.max(counted_ns);
            point
        };
        let network = self.counted.and_then(|counted| counted.network_bytes);
        let network = network
            .map(|bytes| pair("network.io.direction", ["receive", "transmit"], bytes))
            .unwrap_or_default();
        let latency = self.counted.map(|counted| since(point(None, buckets(&counted))));
        let wait = self.wait_ns.map(|ns| point(None, Number::Float(ns as f64 / 1e9)));
        let metrics = [
            (
                "process.memory.usage",
                "By",
                "resident memory",
                UpDownCounter,
                one(Number::Integer(self.resident_bytes)),
            ),
            (
                "process.memory.virtual",
                "By",
                "virtual memory",
                UpDownCounter,
                one(Number::Integer(self.virtual_bytes)),
            ),
            (
                "process.thread.count",
                "{thread}",
                "threads",
                UpDownCounter,
                one(Number::Integer(self.threads)),
            ),
            (
                "process.disk.io",
                "By",
                "bytes read from and written to disks",
                Counter,
                self.disk_bytes
                    .map(|bytes| pair("disk.io.direction", ["read", "write"], bytes))
                    .unwrap_or_default(),
            ),
            (
                "process.network.io",
                "By",
                "bytes over TCP and UDP",
                Counter,
                network.into_iter().map(since).collect(),
            ),
            (
                "spanwise.process.run_queue.time",
                "s",
                "time that its threads were runnable and waited for a processor",
                Counter,
                wait.into_iter().collect(),
            ),
        ];
        let metrics = metrics.map(|(name, unit, description, kind, points)| {
            NumberMetric::new(MetricKind { name, unit, description, kind }, points)
        });
        let shared = [
            NumberMetric::new(PROCESS_CPU_TIME, cpu.into()),
            NumberMetric::new(PROCESS_RUN_QUEUE_LATENCY, latency.into_iter().collect()),
        ];
        let all = shared.into_iter().chain(metrics);
        all.filter(|metric| !metric.points.is_empty()).collect()
    }
}

/// Waits by their length.
pub(super) fn buckets(counted: &Counted) -> Number {
    Number::Buckets {
        bounds: KernelFigures::bounds_seconds().collect(),
        counts: counted.waits.to_vec(),
        sum: counted.waited_nano as f64 / 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_traces_have_the_same_buckets() {
        let of_traces: Vec<f64> = spanwise_native::host::wait_bounds_seconds().collect();
        assert_eq!(KernelFigures::bounds_seconds().collect::<Vec<_>>(), of_traces);
        assert_eq!(Counted::default().waits.len(), spanwise_native::host::WAIT_BUCKETS);
    }

    #[test]
    fn a_name_may_contain_anything() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 70 30 0 0 20 0 5 0 900 8192 3 1 2";
        let figures = ProcessFigures::parse(text).expect("a process");
        assert_eq!((figures.pid, figures.name.as_str()), (42, "a) b (c"));
        assert_eq!((figures.ticks(), figures.threads, figures.started_ticks), (100, 5, 900));
        assert_eq!(figures.virtual_bytes, 8192);
        assert_eq!(figures.resident_bytes, 3 * rustix::param::page_size() as u64);
        assert_eq!(ProcessFigures::parse("42 (cut"), None);
    }
}
