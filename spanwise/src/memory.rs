//! The program's memory allocator.

use std::ffi::{c_int, c_long};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use libmimalloc_sys::{mi_collect, mi_option_get, mi_option_set};

// The agent's and the server's memory consists of many short-lived batches that are allocated on
// one thread and freed on another. The system's allocator fragments over days under this load.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, which the bindings do not define.
const PURGE_DELAY: c_int = 15;
/// The delay unless an operator sets it.
const DEFAULT_PURGE_DELAY_MILLIS: c_long = 1_000;
/// The delay while many spans arrive.
const BUSY_PURGE_DELAY_MILLIS: c_long = 30_000;
/// Interval at which the delay is chosen.
const DECIDED_EVERY: Duration = Duration::from_secs(2);
/// A server that stores this many spans in an interval is busy.
const MANY_SPANS: u64 = 10_000;
/// Intervals for which a server stays busy after the last busy one. Its files are merged a minute
/// later, which takes a while.
const BUSY_INTERVALS: u32 = 45;

/// Number of spans stored so far.
static SPANS: AtomicU64 = AtomicU64::new(0);
/// Whether an operator has set the delay.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Memory for batches is allocated and freed many times a second. The allocator requests huge
/// pages, for which the kernel clears 2 MiB at the first access. That took a quarter of the
/// server's processor time before it [kept freed memory](keep_what_is_freed), and still wastes
/// memory.
pub(crate) fn without_huge_pages() {
    // A kernel without this call has no huge pages.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Counts stored spans.
pub(crate) fn took_spans(count: usize) {
    SPANS.fetch_add(count as u64, Ordering::Relaxed);
}

/// Chooses how long the allocator keeps freed memory before it returns it to the kernel.
///
/// A busy server keeps it for half a minute. It writes about one file a second, with the same
/// amount of memory each time. Otherwise the kernel would clear that memory again each time, which
/// took a sixteenth of all processor time. Other servers return memory after a second, because one
/// answer or file may have needed a hundred megabytes.
pub(crate) async fn keep_what_is_freed() {
    if purge_delay() != DEFAULT_PURGE_DELAY_MILLIS {
        // An operator has set it with `MIMALLOC_PURGE_DELAY`.
        IS_SET.store(true, Ordering::Relaxed);
    }
    let (mut before, mut busy) = (SPANS.load(Ordering::Relaxed), 0);
    loop {
        tokio::time::sleep(DECIDED_EVERY).await;
        let now = SPANS.load(Ordering::Relaxed);
        busy = busy_intervals(busy, now - before);
        keep(busy > 0);
        before = now;
    }
}

/// The number of intervals for which the server stays busy, after an interval with this many spans.
fn busy_intervals(before: u32, spans: u64) -> u32 {
    if spans >= MANY_SPANS { BUSY_INTERVALS } else { before.saturating_sub(1) }
}

/// Sets how long freed memory is kept.
fn keep(is_busy: bool) {
    if !IS_SET.load(Ordering::Relaxed) {
        set_purge_delay(if is_busy { BUSY_PURGE_DELAY_MILLIS } else { DEFAULT_PURGE_DELAY_MILLIS });
    }
    if !is_busy {
        // Expired memory is returned when memory is freed, or on request.
        // SAFETY: any thread may call it at any time.
        unsafe { mi_collect(false) };
    }
}

fn purge_delay() -> c_long {
    // SAFETY: it takes a number and reads the allocator's own table of options, which any thread
    // may do at any time.
    unsafe { mi_option_get(PURGE_DELAY) }
}

fn set_purge_delay(millis: c_long) {
    // SAFETY: as above, but it writes the option.
    unsafe { mi_option_set(PURGE_DELAY, millis) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_is_kept_for_longer_while_many_spans_come() {
        assert_eq!(purge_delay(), DEFAULT_PURGE_DELAY_MILLIS, "options have another order now");
        let mut busy = busy_intervals(0, MANY_SPANS);
        for _ in 0..BUSY_INTERVALS {
            keep(busy > 0);
            assert_eq!(purge_delay(), BUSY_PURGE_DELAY_MILLIS);
            busy = busy_intervals(busy, MANY_SPANS - 1);
        }
        keep(busy > 0);
        assert_eq!(purge_delay(), DEFAULT_PURGE_DELAY_MILLIS);
        assert_eq!(busy_intervals(0, MANY_SPANS - 1), 0);
    }
}
