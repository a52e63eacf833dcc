//! How the program gets its memory.

use std::ffi::{c_int, c_long};

use libmimalloc_sys::{mi_option_get, mi_option_set};

// The agent's and the server's memory is many short-lived batches made on one
// thread and freed on another, which the system's allocator fragments over days.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, which the bindings do not name.
const PURGE_DELAY: c_int = 15;
/// What it is where nobody sets it.
const DEFAULT_PURGE_DELAY_MILLIS: c_long = 1_000;
/// A server that takes few spans makes a file of them every so often.
const SERVER_PURGE_DELAY_MILLIS: c_long = 30_000;

/// Memory for batches comes and goes many times a second. In huge pages, for
/// which the allocator asks, the system clears 2 MiB for the first byte of each:
/// that took a quarter of the server's processor time before it [kept what is
/// freed](keep_what_is_freed), and still takes memory that nothing uses.
pub(crate) fn without_huge_pages() {
    // Where the kernel does not know of this, it has no huge pages either.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Keeps what is freed for half a minute before the system gets it back. A server
/// makes a file every second or so, in memory that is as large each time: what it
/// gave back in between, the system had to clear again, which took a sixteenth of
/// all processor time.
pub(crate) fn keep_what_is_freed() {
    // SAFETY: both take a number and touch nothing but the allocator's own table of
    // options, which any thread may read and write at any time.
    unsafe {
        // An operator may have set it, by `MIMALLOC_PURGE_DELAY`.
        if mi_option_get(PURGE_DELAY) == DEFAULT_PURGE_DELAY_MILLIS {
            mi_option_set(PURGE_DELAY, SERVER_PURGE_DELAY_MILLIS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: as above.
        let delay = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), DEFAULT_PURGE_DELAY_MILLIS, "options have another order now");
        keep_what_is_freed();
        assert_eq!(delay(), SERVER_PURGE_DELAY_MILLIS);
    }
}
