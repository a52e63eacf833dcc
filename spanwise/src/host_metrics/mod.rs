//! CPU, memory, network and waiting times of this host and its processes, as OTLP metrics to any
//! endpoint: from `/proc`, and how long waits were and the bytes of each process from BPF programs,
//! where the kernel takes them.

mod host;
mod process;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use spanwise_capture_agent::{FiguresLost, KernelFigures, ProcessFigures as Counted};
use spanwise_native::otlp::{NumberMetric, ResourceValue, numbers};

use crate::otlp::{Endpoint, EndpointUrl, SendError, Signal};
use host::HostFigures;
use process::ProcessFigures;

/// Processes that are reported: those that took the most CPU time since the last report.
const PROCESSES_MAX: usize = 256;

/// Points that were sent, and that were not.
#[derive(Debug, Default)]
pub(crate) struct PointCounts {
    sent: AtomicU64,
    unsent: AtomicU64,
    waits_uncounted: AtomicU64,
    bytes_uncounted: AtomicU64,
}

impl PointCounts {
    /// By name.
    pub(crate) fn counters(&self) -> [(String, u64); 4] {
        [
            ("host_points_sent", &self.sent),
            ("host_points_unsent", &self.unsent),
            ("host_waits_uncounted", &self.waits_uncounted),
            ("host_bytes_uncounted", &self.bytes_uncounted),
        ]
        .map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed)))
    }

    fn set_uncounted(&self, lost: FiguresLost) {
        self.waits_uncounted.store(lost.waits, Ordering::Relaxed);
        self.bytes_uncounted.store(lost.bytes, Ordering::Relaxed);
    }
}

/// A thread that reports, until this is dropped.
pub(crate) struct HostMetrics {
    _stop: Sender<()>,
    counts: Arc<PointCounts>,
}

impl HostMetrics {
    /// Reports now and then every so often.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(url: EndpointUrl, every: Duration, host: String) -> anyhow::Result<Self> {
        let (stop, stopping) = channel::<()>();
        let counts = Arc::new(PointCounts::default());
        let counted = Arc::clone(&counts);
        let mut endpoint = Endpoint::new(url)?;
        std::thread::Builder::new()
            .name("host-metrics".to_owned())
            .spawn(move || {
                let mut reader = HostReader::new(Path::new("/proc"), host);
                reader.count_in_the_kernel();
                let mut is_away = false;
                loop {
                    let began = Instant::now();
                    let report = reader.report();
                    counted.set_uncounted(reader.lost());
                    match endpoint.send(Signal::Metrics, &report.message, every / 2) {
                        Ok(()) => {
                            is_away = false;
                            counted.sent.fetch_add(report.points, Ordering::Relaxed);
                        }
                        Err(SendError::Away(reason) | SendError::Refused(reason)) => {
                            if !is_away {
                                tracing::warn!("metrics of this host are not sent: {reason}");
                            }
                            is_away = true;
                            counted.unsent.fetch_add(report.points, Ordering::Relaxed);
                        }
                    }
                    let pause = every.saturating_sub(began.elapsed());
                    if !matches!(stopping.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                        return;
                    }
                }
            })
            .context("cannot start a thread for metrics of this host")?;
        Ok(Self { _stop: stop, counts })
    }

    pub(crate) fn counts(&self) -> Arc<PointCounts> {
        Arc::clone(&self.counts)
    }
}

/// A message with all points.
struct Report {
    message: Vec<u8>,
    points: u64,
}

struct HostReader {
    proc: PathBuf,
    host: String,
    /// CPU ticks of each process at the last report.
    before: HashMap<u32, u64>,
    /// What is counted in the kernel, and since when.
    kernel: Option<(KernelFigures, u64)>,
    /// Of processes that have ended.
    ended: Counted,
}

fn now_ns() -> u64 {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(now_ns).unwrap_or(u64::MAX)
}

fn add_to(sum: &mut Counted, more: &Counted) {
    for (sum, more) in sum.waits.iter_mut().zip(more.waits) {
        *sum += more;
    }
    sum.waited_nano += more.waited_nano;
}

impl HostReader {
    fn new(proc: &Path, host: String) -> Self {
        Self {
            proc: proc.to_owned(),
            host,
            before: HashMap::new(),
            kernel: None,
            ended: Counted::default(),
        }
    }

    /// Begins to count what `/proc` does not tell, or says why that is left out.
    fn count_in_the_kernel(&mut self) {
        match KernelFigures::attach() {
            Ok(figures) => {
                if let Some(reason) = figures.without_network() {
                    tracing::warn!("the network bytes of processes are not counted: {reason}");
                }
                self.kernel = Some((figures, now_ns()));
            }
            Err(reason) => tracing::warn!(
                "how long processes wait for a processor, and their network bytes, are not \
                 counted: {reason}"
            ),
        }
    }

    fn lost(&self) -> FiguresLost {
        self.kernel.as_ref().map(|(figures, _)| figures.lost()).unwrap_or_default()
    }

    /// What was counted in the kernel. What has ended gives its place to others.
    fn counted(&mut self, living: &HashSet<u32>) -> (HashMap<u32, Counted>, Counted) {
        let Some((figures, _)) = &self.kernel else { return Default::default() };
        let mut counted: HashMap<u32, Counted> = figures.read().into_iter().collect();
        counted.retain(|pid, of| {
            let lives = living.contains(pid);
            if !lives {
                add_to(&mut self.ended, of);
                figures.forget(*pid);
            }
            lives
        });
        let mut all = self.ended;
        counted.values().for_each(|of| add_to(&mut all, of));
        (counted, all)
    }

    fn report(&mut self) -> Report {
        let now_ns = now_ns();
        let mut report = Report { message: Vec::new(), points: 0 };
        let mut host = HostFigures::read(&self.proc);
        let mut processes = ProcessFigures::all(&self.proc);
        let living = processes.iter().map(|figures| figures.pid).collect();
        let (counted, all) = self.counted(&living);
        let counted_ns = self.kernel.as_ref().map_or(0, |(_, since_ns)| *since_ns);
        if self.kernel.is_some() {
            host.set_counted(all, counted_ns);
        }
        let busy = |figures: &ProcessFigures| {
            figures.ticks()
                - self.before.get(&figures.pid).copied().unwrap_or(0).min(figures.ticks())
        };
        processes.sort_by_key(|figures| std::cmp::Reverse((busy(figures), figures.ticks())));
        let left_out = processes.len().saturating_sub(PROCESSES_MAX);
        self.before = processes.iter().map(|figures| (figures.pid, figures.ticks())).collect();
        processes.truncate(PROCESSES_MAX);
        let host_name = ("host.name", ResourceValue::Text(&self.host));
        let mut add = |resource: &[(&str, ResourceValue<'_>)], metrics: &[NumberMetric]| {
            report.points += metrics.iter().map(|metric| metric.points.len() as u64).sum::<u64>();
            numbers(resource, metrics, now_ns, &mut report.message);
        };
        add(&[host_name], &host.metrics(left_out as u64));
        for figures in &mut processes {
            figures.read_more(&self.proc);
            if let Some(counted) = counted.get(&figures.pid) {
                figures.set_counted(*counted);
            }
            let resource = [
                host_name,
                ("process.pid", ResourceValue::Integer(u64::from(figures.pid))),
                ("process.executable.name", ResourceValue::Text(&figures.name)),
            ];
            add(&resource, &figures.metrics(host.boot_ns, counted_ns));
        }
        report
    }
}

/// Seconds of clock ticks.
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64
}

/// Received and transmitted bytes, packets, errors and drops by interface: `net/dev`.
fn interfaces(text: &str) -> Vec<(String, [u64; 8])> {
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let numbers: Vec<u64> =
            rest.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let at = |n: usize| numbers.get(n).copied();
        let figures = [at(0)?, at(1)?, at(2)?, at(3)?, at(8)?, at(9)?, at(10)?, at(11)?];
        Some((name.trim().to_owned(), figures))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 10 1 2 3 0 0 0 0 20 4 5 6 0 0 0 0\n";
        assert_eq!(interfaces(text), [("lo".to_owned(), [10, 1, 2, 3, 20, 4, 5, 6])]);
    }

    #[test]
    fn this_host_is_reported_with_this_process() {
        let mut reader = HostReader::new(Path::new("/proc"), "a-host".to_owned());
        // A process without any CPU time might be left out on a large machine.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(50) {
            std::hint::black_box(began);
        }
        let report = reader.report();
        assert!(report.points > 20, "{}", report.points);
        let has = |text: &str| report.message.windows(text.len()).any(|w| w == text.as_bytes());
        for name in [
            "a-host",
            "system.cpu.time",
            "system.memory.usage",
            "system.network.io",
            "process.cpu.time",
            "process.memory.usage",
            "process.executable.name",
        ] {
            assert!(has(name), "{name}");
        }
        let empty = HostReader::new(Path::new("/nowhere"), String::new()).report();
        assert_eq!(empty.points, 1, "only how many processes were left out");
    }
}
