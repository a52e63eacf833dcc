//! Restrictions of a worker process, set before it runs a statement. The kernel enforces them, so
//! the engine cannot lift them.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::param::page_size;
use rustix::process::{
    Resource, Rlimit, Signal, set_parent_process_death_signal, setpriority_process, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

/// Part of the memory limit that is for the program's own pages, not for the statement.
const PROGRAM_BYTES: usize = 64 << 20;
/// The engine does not start with less.
const LEAST_BYTES: usize = 256 << 20;
/// Processor seconds beyond the statement's timeout, so that the timeout ends it first, with an
/// error message.
const MORE_SECONDS: u64 = 2;
/// The worker gets a third of the processor time of others. With less, a busy server would answer
/// no statement.
const NICE: i32 = 5;

/// Lowers the priority of the calling thread and of processes that it starts.
pub(super) fn leave_processors_to_others() {
    // Continues without if it is not permitted.
    let _ = setpriority_process(None, NICE);
}

/// Kills the worker when the thread that started it ends.
pub(super) fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Limits memory and processor time, and drops all privileges. `memory_bytes` is the limit for the
/// whole process.
pub(super) fn confine(memory_bytes: usize, timeout: Duration) -> io::Result<()> {
    leave_processors_to_others();
    // If memory runs out, a statement is the smallest loss.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let taken = fs::read_to_string("/proc/self/statm")?;
    let pages: Option<usize> = taken.split(' ').next().and_then(|pages| pages.parse().ok());
    let taken = pages.ok_or(io::ErrorKind::InvalidData)?.saturating_mul(page_size());
    let more = memory_bytes.max(LEAST_BYTES).saturating_sub(PROGRAM_BYTES);
    let seconds = timeout.as_secs().saturating_add(MORE_SECONDS);
    limit(Resource::As, taken.saturating_add(more) as u64)?;
    setrlimit(Resource::Cpu, Rlimit { current: Some(seconds), maximum: Some(seconds + 1) })?;
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// From here on, neither files nor sockets can be opened.
pub(super) fn open_nothing_more() -> io::Result<()> {
    limit(Resource::Nofile, 0)
}

fn limit(of: Resource, most: u64) -> io::Result<()> {
    Ok(setrlimit(of, Rlimit { current: Some(most), maximum: Some(most) })?)
}
