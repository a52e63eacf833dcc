//! Who makes a system call.

use crate::event::{Data, Opened, Role};
use crate::protocols::Mark;

/// A thread, among tasks: no number that a runtime gives its tasks, no work, no address and no
/// name has just this bit.
pub(super) const THREAD: u64 = 1 << 59;

/// Who makes a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) process: u32,
    pub(crate) thread: u32,
    /// See [`crate::event::Data::task`].
    pub(crate) task: u64,
    pub(crate) parent_task: u64,
    /// When, `CLOCK_MONOTONIC`.
    pub(crate) time_nano: u64,
    /// See [`crate::event::Data::sleeps`]; 0: not known.
    pub(crate) sleeps: u32,
}

impl From<&Data<'_>> for Caller {
    fn from(data: &Data<'_>) -> Self {
        let Data { process, thread, task, parent_task, time_nano, sleeps, .. } = *data;
        Self { process, thread, task, parent_task, time_nano, sleeps }
    }
}

impl Caller {
    /// Who connected, and when it did; `None` where it was not seen.
    pub(crate) fn of_connect(opened: &Opened) -> Option<Self> {
        let Opened { role, process, thread, time_nano, connect_nano, sleeps, .. } = *opened;
        (role == Role::Client && sleeps != 0).then(|| Self {
            process,
            thread,
            task: 0,
            parent_task: 0,
            time_nano: time_nano.saturating_sub(connect_nano.unwrap_or_default()),
            sleeps,
        })
    }
}

impl From<Mark> for Caller {
    fn from(mark: Mark) -> Self {
        let Mark { process, thread, task, parent_task, time_nano, sleeps, .. } = mark;
        Self { process, thread, task, parent_task, time_nano, sleeps }
    }
}

impl Caller {
    /// What it is in the lineage.
    pub(crate) fn origin(&self) -> u64 {
        match self.task {
            0 => u64::from(self.thread) | THREAD,
            task => task,
        }
    }

    pub(super) const fn line(&self) -> Line {
        match self.task {
            0 => Line::Thread(self.thread),
            task => Line::Task(task),
        }
    }
}

/// What does one thing after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Line {
    Thread(u32),
    Task(u64),
    /// Nothing that could make a call.
    None,
}
