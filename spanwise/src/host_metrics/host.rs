//! Figures of the whole host.

use std::fs;
use std::path::Path;

use spanwise_capture_agent::ProcessFigures as Counted;
use spanwise_native::host::{SYSTEM_CPU_TIME, SYSTEM_NETWORK_IO, SYSTEM_RUN_QUEUE_LATENCY};
use spanwise_native::otlp::{MetricKind, Number, NumberKind, NumberMetric, NumberPoint};

use super::process::buckets;
use super::{interfaces, seconds};

/// Columns of `/proc/stat`; guests are in user time already.
const CPU_MODES: [&str; 8] =
    ["user", "nice", "system", "idle", "iowait", "interrupt", "interrupt", "steal"];

#[derive(Debug, Default)]
pub(super) struct HostFigures {
    /// When it started, in nanoseconds of Unix time.
    pub(super) boot_ns: u64,
    cpu_ticks: Vec<u64>,
    /// Runnable threads waited so long for a processor.
    wait_ns: Option<u64>,
    /// What all processes did, as it was counted in the kernel, and since when.
    counted: Option<(Counted, u64)>,
    /// `MemTotal`, `MemFree`, `Buffers`, `Cached` with reclaimable slabs.
    memory_bytes: Option<[u64; 4]>,
    interfaces: Vec<(String, [u64; 8])>,
}

impl HostFigures {
    pub(super) fn read(proc: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(proc.join(name)).unwrap_or_default();
        let stat = read("stat");
        let field = |name: &str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.split_whitespace().map_while(|word| word.parse().ok()).collect::<Vec<u64>>())
        };
        let boot = field("btime ").and_then(|list| list.first().copied()).unwrap_or(0);
        Self {
            boot_ns: boot.saturating_mul(1_000_000_000),
            cpu_ticks: field("cpu ").unwrap_or_default(),
            wait_ns: wait_ns(&read("schedstat")),
            memory_bytes: memory(&read("meminfo")),
            interfaces: interfaces(&read("net/dev")),
            counted: None,
        }
    }

    /// Adds what was counted in the kernel since this time.
    pub(super) fn set_counted(&mut self, counted: Counted, since_ns: u64) {
        self.counted = Some((counted, since_ns));
    }

    pub(super) fn metrics(&self, processes_left_out: u64) -> Vec<NumberMetric> {
        let start_ns = self.boot_ns;
        let point = |attributes: Vec<(&'static str, String)>, value| NumberPoint {
            attributes,
            start_ns,
            value,
        };
        let mut modes: Vec<(&str, u64)> = Vec::new();
        for (mode, ticks) in CPU_MODES.into_iter().zip(&self.cpu_ticks) {
            match modes.iter_mut().find(|(known, _)| *known == mode) {
                Some((_, sum)) => *sum += ticks,
                None => modes.push((mode, *ticks)),
            }
        }
        let modes = modes.into_iter().map(|(mode, ticks)| {
            point(vec![("cpu.mode", mode.to_owned())], Number::Float(seconds(ticks)))
        });
        let memory = self.memory_bytes.map(|[total, free, buffers, cached]| {
            let used = total.saturating_sub(free + buffers + cached);
            [("used", used), ("free", free), ("buffers", buffers), ("cached", cached)].map(
                |(state, bytes)| {
                    let state = vec![("system.memory.state", state.to_owned())];
                    point(state, Number::Integer(bytes))
                },
            )
        });
        let limit = self.memory_bytes.map(|[total, ..]| point(Vec::new(), Number::Integer(total)));
        let network = |receive: usize, transmit: usize| {
            let points = self.interfaces.iter().flat_map(|(name, figures)| {
                [("receive", figures[receive]), ("transmit", figures[transmit])].map(
                    |(direction, count)| {
                        let attributes = vec![
                            ("network.interface.name", name.clone()),
                            ("network.io.direction", direction.to_owned()),
                        ];
                        point(attributes, Number::Integer(count))
                    },
                )
            });
            points.collect::<Vec<_>>()
        };
        let wait = self.wait_ns.map(|ns| point(Vec::new(), Number::Float(ns as f64 / 1e9)));
        let left_out = point(Vec::new(), Number::Integer(processes_left_out));
        let latency = self.counted.as_ref().map(|(counted, since_ns)| NumberPoint {
            attributes: Vec::new(),
            start_ns: *since_ns,
            value: buckets(counted),
        });
        use NumberKind::{Counter, Gauge, UpDownCounter};
        let metrics = [
            (
                "system.memory.usage",
                "By",
                "memory by state",
                UpDownCounter,
                memory.into_iter().flatten().collect(),
            ),
            ("system.memory.limit", "By", "all memory", UpDownCounter, limit.into_iter().collect()),
            (
                "system.network.packet.count",
                "{packet}",
                "packets over interfaces",
                Counter,
                network(1, 5),
            ),
            ("system.network.errors", "{error}", "errors of interfaces", Counter, network(2, 6)),
            (
                "system.network.packet.dropped",
                "{packet}",
                "packets that interfaces dropped",
                Counter,
                network(3, 7),
            ),
            (
                "spanwise.system.run_queue.time",
                "s",
                "time that runnable threads waited for a processor",
                Counter,
                wait.into_iter().collect(),
            ),
            (
                "spanwise.host.processes_left_out",
                "{process}",
                "processes without figures: 256 others took more CPU time",
                Gauge,
                vec![left_out],
            ),
        ];
        let metrics = metrics.map(|(name, unit, description, kind, points)| {
            NumberMetric::new(MetricKind { name, unit, description, kind }, points)
        });
        let shared = [
            NumberMetric::new(SYSTEM_CPU_TIME, modes.collect()),
            NumberMetric::new(SYSTEM_NETWORK_IO, network(0, 4)),
            NumberMetric::new(SYSTEM_RUN_QUEUE_LATENCY, latency.into_iter().collect()),
        ];
        let all = shared.into_iter().chain(metrics);
        all.filter(|metric| !metric.points.is_empty()).collect()
    }
}

/// The sum over processors: the eighth number of each `cpu` line.
fn wait_ns(text: &str) -> Option<u64> {
    let of_cpu = |line: &str| line.strip_prefix("cpu")?.split_whitespace().nth(8)?.parse().ok();
    let times: Vec<u64> = text.lines().filter_map(of_cpu).collect();
    (!times.is_empty()).then(|| times.iter().sum())
}

fn memory(text: &str) -> Option<[u64; 4]> {
    let kib = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let cached = kib("Cached")? + kib("SReclaimable").unwrap_or(0);
    Some([kib("MemTotal")?, kib("MemFree")?, kib("Buffers")?, cached].map(|kib| kib << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel_are_read() {
        let text =
            "version 17\ncpu0 0 0 0 0 0 0 111 222 333\ndomain0 1 2\ncpu1 0 0 0 0 0 0 1 8 3\n";
        assert_eq!(wait_ns(text), Some(230));
        assert_eq!(wait_ns(""), None);
        let text =
            "MemTotal: 100 kB\nMemFree: 30 kB\nBuffers: 5 kB\nCached: 20 kB\nSReclaimable: 1 kB\n";
        assert_eq!(memory(text), Some([102_400, 30_720, 5_120, 21_504]));
        assert_eq!(memory("MemTotal: 100 kB\n"), None);
    }
}
