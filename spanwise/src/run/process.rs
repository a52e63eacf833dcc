//! This process's resource usage, from `/proc/self` (proc(5)).

use std::fs;

use spanwise_api::Process;

/// Memory, CPU time, threads and open files. Unreadable figures are omitted.
pub(crate) fn figures() -> Process {
    let mut figures = Process::default();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some([user, system, threads, pages]) = fields(&stat) {
        let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
        figures.cpu_seconds = Some((user + system) as f64 / ticks);
        figures.threads = Some(threads);
        figures.resident_bytes = Some((pages * rustix::param::page_size() as u64).into());
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // The directory itself is open while it is read.
        figures.open_files = Some(files.count().saturating_sub(1) as u64);
    }
    figures
}

/// `utime`, `stime`, `num_threads` and `rss` of a `stat` line.
fn fields(stat: &str) -> Option<[u64; 4]> {
    // The program's name is in parentheses and may contain any characters.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The first field after the name is number 3.
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    Some([field(14)?, field(15)?, field(20)?, field(24)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_files() {
        let figures = figures();
        assert!(figures.resident_bytes.is_some_and(|bytes| bytes.0 > 1 << 20));
        assert!(figures.open_files.is_some_and(|files| files >= 3), "{figures:?}");
        assert!(figures.threads.is_some_and(|threads| threads >= 1));
        assert_eq!(fields("1 (a) b) R 0 0"), None);
    }
}
