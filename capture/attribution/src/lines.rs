//! Lines of execution: what does one thing after the other.

use spanwise_capture_protocols::attribution::Caller;

/// This bit of a task's number says that it is work (`bpf/task_told.h`).
pub(crate) const WORK_BITS: u32 = 62;
/// A thread, among tasks: no number that a runtime gives its tasks, no work, no address and no
/// name has just this bit.
pub(crate) const THREAD: u64 = 1 << 59;

/// Whether a task is work that was handed over.
#[inline]
pub(crate) const fn is_work(task: u64) -> bool {
    task >> WORK_BITS == 1
}

/// Whether what is done is done by a thread: no task is known, or only what it works on.
#[inline]
pub(crate) const fn is_threads(task: u64) -> bool {
    task == 0 || is_work(task)
}

/// What a caller is in the lineage.
#[inline]
pub(crate) const fn origin(caller: &Caller) -> u64 {
    match caller.task {
        0 => caller.thread as u64 | THREAD,
        task => task,
    }
}

/// What does one thing after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Line {
    Thread(u32),
    Task(u64),
    /// Nothing that could make a call.
    None,
}

impl Line {
    /// The one on which a caller is.
    #[inline]
    pub(crate) const fn of(caller: &Caller) -> Self {
        match caller.task {
            0 => Self::Thread(caller.thread),
            task => Self::Task(task),
        }
    }
}
