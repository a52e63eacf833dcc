//! Runs the same work on many items in parallel.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Threads for local files if a caller waits for much data.
pub(super) const NEAR_THREADS: usize = 2;

/// The result for each item, in order. Uses this many threads including the calling one.
pub(super) fn each<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let threads = threads.min(items.len());
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let some = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let own = work(item);
            done.lock().push((at, own));
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(some)));
        some();
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, own)| own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_and_comes_in_order() {
        let items: Vec<usize> = (0..1000).collect();
        for threads in [0, 1, 2, 7, 2000] {
            let done = each(&items, threads, |item| item * 3);
            assert_eq!(done, items.iter().map(|item| item * 3).collect::<Vec<_>>(), "{threads}");
        }
        assert!(each(&[], 4, |item: &usize| *item).is_empty());
    }
}
