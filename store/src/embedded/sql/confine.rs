//! What a worker gives up before it runs a statement. All of it is the system's to
//! keep: whatever the engine does, it cannot take it back.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::param::page_size;
use rustix::process::{
    Resource, Rlimit, Signal, set_parent_process_death_signal, setpriority_process, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

/// Of memory, what is not the statement's: the pages of the program that run.
const PROGRAM_BYTES: usize = 64 << 20;
/// With less the engine does not start.
const LEAST_BYTES: usize = 256 << 20;
/// More than a statement is given, so that what stops it can be told.
const MORE_SECONDS: u64 = 2;
/// A third of what others get. With less, a server with much to do would answer none.
const NICE: i32 = 5;

/// The calling thread, and processes that it starts, leave processors to others.
pub(super) fn leave_processors_to_others() {
    // What cannot be had is done without.
    let _ = setpriority_process(None, NICE);
}

/// The worker ends with the thread that started it.
pub(super) fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Bounds memory and processor time, and gives up every right. `memory_bytes` is
/// what the process may have in all.
pub(super) fn confine(memory_bytes: usize, timeout: Duration) -> io::Result<()> {
    leave_processors_to_others();
    // Where memory runs out, a statement is the least loss.
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

/// From here on nothing can be opened: no file, no socket.
pub(super) fn open_nothing_more() -> io::Result<()> {
    limit(Resource::Nofile, 0)
}

fn limit(of: Resource, most: u64) -> io::Result<()> {
    Ok(setrlimit(of, Rlimit { current: Some(most), maximum: Some(most) })?)
}
