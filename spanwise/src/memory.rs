//! How the program gets its memory.

use std::ffi::{c_int, c_long};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use libmimalloc_sys::{mi_collect, mi_option_get, mi_option_set};

// The agent's and the server's memory is many short-lived batches made on one
// thread and freed on another, which the system's allocator fragments over days.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, which the bindings do not name.
const PURGE_DELAY: c_int = 15;
/// What it is where nobody sets it.
const DEFAULT_PURGE_DELAY_MILLIS: c_long = 1_000;
/// What it is while many spans come.
const BUSY_PURGE_DELAY_MILLIS: c_long = 30_000;
/// How often it is decided how long what is freed is kept.
const DECIDED_EVERY: Duration = Duration::from_secs(2);
/// A server that takes this many spans in that time is busy.
const MANY_SPANS: u64 = 10_000;
/// How many such times a server stays busy after its last many spans: their files are
/// merged a minute later, and that takes a while.
const BUSY_INTERVALS: u32 = 45;

/// Spans that were taken so far.
static SPANS: AtomicU64 = AtomicU64::new(0);
/// Whether an operator has said how long what is freed is kept.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Memory for batches comes and goes many times a second. In huge pages, for
/// which the allocator asks, the system clears 2 MiB for the first byte of each:
/// that took a quarter of the server's processor time before it [kept what is
/// freed](keep_what_is_freed), and still takes memory that nothing uses.
pub(crate) fn without_huge_pages() {
    // Where the kernel does not know of this, it has no huge pages either.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Notes that so many spans were taken.
pub(crate) fn took_spans(count: usize) {
    SPANS.fetch_add(count as u64, Ordering::Relaxed);
}

/// Decides for how long the allocator keeps freed memory before the system gets it back.
///
/// A busy server keeps it for half a minute. It makes a file every second or so, in as much
/// memory each time; the system would have to clear that memory again, which took a
/// sixteenth of all processor time. Any other server returns it after a second: what one
/// answer or one file had needed was a hundred megabytes.
pub(crate) async fn keep_what_is_freed() {
    if purge_delay() != DEFAULT_PURGE_DELAY_MILLIS {
        // An operator has set it, by `MIMALLOC_PURGE_DELAY`.
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

/// For how many intervals the server stays busy after one in which this many spans came.
fn busy_intervals(before: u32, spans: u64) -> u32 {
    if spans >= MANY_SPANS { BUSY_INTERVALS } else { before.saturating_sub(1) }
}

/// Sets how long freed memory is kept.
fn keep(is_busy: bool) {
    if !IS_SET.load(Ordering::Relaxed) {
        set_purge_delay(if is_busy { BUSY_PURGE_DELAY_MILLIS } else { DEFAULT_PURGE_DELAY_MILLIS });
    }
    if !is_busy {
        // What is due is given back when somebody frees more, or asks.
        // SAFETY: it may be called at any time, by any thread.
        unsafe { mi_collect(false) };
    }
}

fn purge_delay() -> c_long {
    // SAFETY: it takes a number and reads the allocator's own table of options, which
    // any thread may do at any time.
    unsafe { mi_option_get(PURGE_DELAY) }
}

fn set_purge_delay(millis: c_long) {
    // SAFETY: as above, but that it writes.
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
