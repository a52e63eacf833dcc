//! CPU times of this thread and of processes, memory, and quantiles.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::time::{ClockId, clock_gettime};

use crate::questions::Answer;

/// CPU time of the calling thread so far, in seconds.
pub(crate) fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU time of a process so far, in seconds, user and system.
pub(crate) fn process_cpu_seconds(process: u32) -> anyhow::Result<f64> {
    let text = read(process, "stat")?;
    // The second field is a name in parentheses, which may contain anything.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let (user, system) = ticks(11).zip(ticks(12)).context("/proc/PID/stat has another form")?;
    Ok((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Peak resident memory of a process in megabytes.
pub(crate) fn process_peak_mb(process: u32) -> anyhow::Result<f64> {
    megabytes(&read(process, "status")?, "VmHWM")
}

/// Memory of a process.
pub(crate) struct Memory {
    /// Resident memory.
    pub(crate) rss_mb: f64,
    /// Its anonymous memory, and its file-backed memory, such as code.
    pub(crate) own_mb: f64,
    pub(crate) file_mb: f64,
    pub(crate) threads: u64,
}

impl Memory {
    pub(crate) fn of(process: u32) -> anyhow::Result<Self> {
        let text = read(process, "status")?;
        let threads = line(&text, "Threads")?.parse().context("a number of threads")?;
        Ok(Self {
            rss_mb: megabytes(&text, "VmRSS")?,
            own_mb: megabytes(&text, "RssAnon")?,
            file_mb: megabytes(&text, "RssFile")?,
            threads,
        })
    }
}

/// The value of a line in `/proc/PID/status`.
fn line<'a>(status: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.map(str::trim).with_context(|| format!("/proc/PID/status has no {name}"))
}

fn megabytes(status: &str, name: &str) -> anyhow::Result<f64> {
    let kilobytes = line(status, name)?.strip_suffix("kB").and_then(|kb| kb.trim().parse().ok());
    let kilobytes: f64 = kilobytes.with_context(|| format!("{name} is no number of kB"))?;
    Ok(kilobytes * 1024.0 / 1e6)
}

fn read(process: u32, name: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{process}/{name}");
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}; is it gone?"))
}

/// Bytes of all files in a directory, recursively.
pub(crate) fn directory_bytes(directory: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { directory_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// Converts seconds for this many spans to seconds for a million.
pub(crate) fn per_million(seconds: f64, spans: u64) -> f64 {
    seconds * 1e6 / spans as f64
}

/// The quantile of the times, in milliseconds.
pub(crate) fn quantile_ms(answers: &[Answer], share: f64) -> f64 {
    let mut sorted: Vec<Duration> = answers.iter().map(|answer| answer.time).collect();
    sorted.sort_unstable();
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

/// From `later`, as many answers of each kind and length as in `first` (or of the next length), so
/// that longer answers do not distort the comparison.
pub(crate) fn alike(first: &[Answer], later: &[Answer]) -> Vec<Answer> {
    let mut used = vec![0; later.len()];
    let nearest = |one: &Answer| {
        let (by, traces) = one.kind;
        let same = (0..later.len()).filter(|at| later[*at].kind.0 == by);
        let at = same.min_by_key(|at| (later[*at].kind.1.abs_diff(traces), used[*at]))?;
        used[at] += 1;
        Some(later[at])
    };
    first.iter().filter_map(nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(by: &'static str, traces: usize, ms: u64) -> Answer {
        Answer { time: Duration::from_millis(ms), kind: (by, traces) }
    }

    #[test]
    fn answers_are_compared_with_others_of_their_kind_and_length() {
        let first = [answer("user", 2, 0), answer("user", 2, 0), answer("order", 1, 0)];
        let later = [
            answer("order", 1, 1),
            answer("user", 9, 90),
            answer("user", 3, 30),
            answer("user", 3, 31),
        ];
        let times =
            alike(&first, &later).iter().map(|one| one.time.as_millis()).collect::<Vec<_>>();
        assert_eq!(times, [30, 31, 1]);
        assert!(alike(&first, &later[1..2]).len() == 2);
    }

    #[test]
    fn quantiles_are_of_values_that_occurred() {
        let times: Vec<Answer> = (1..=200).rev().map(|ms| answer("id", 1, ms)).collect();
        assert_eq!(quantile_ms(&times, 0.5), 100.0);
        assert_eq!(quantile_ms(&times, 0.95), 190.0);
        assert_eq!(quantile_ms(&times, 1.0), 200.0);
        assert!(quantile_ms(&[], 0.5).is_nan());
    }

    #[test]
    fn this_process_can_be_measured() {
        assert!(process_cpu_seconds(std::process::id()).unwrap() >= 0.0);
        assert!(process_peak_mb(std::process::id()).unwrap() > 1.0);
        let memory = Memory::of(std::process::id()).unwrap();
        assert!(memory.rss_mb + 0.1 > memory.own_mb + memory.file_mb && memory.threads > 0);
        assert!(process_cpu_seconds(u32::MAX).is_err());
    }
}
