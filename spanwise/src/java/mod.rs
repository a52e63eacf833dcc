//! The helper for Java: writes it to a file, or loads it into a running virtual machine.

mod attach;

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::terminal;

/// Empty if the program was built without it.
static HELPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/java-helper.jar"));
/// Prefix of the name of the helper's shared memory (`docs/task-table.md`).
const TABLE: &str = "/spanwise-tasks-1.";
/// The system property that the agent sets while it runs.
const RUNS: &str = "spanwise.agent.runs=1";
/// The option by which the agent gives all classes their own code back.
const DETACH: &str = "detach";
/// Time for the helper to start.
const BEGINS_WITHIN: Duration = Duration::from_secs(5);

fn jar() -> Result<&'static [u8], Failure> {
    match HELPER {
        [] => Err(Failure::cannot(
            "this program was built without the helper for Java; `make build` includes it, with a \
             JDK of version 11 or newer and Maven",
        )),
        jar => Ok(jar),
    }
}

/// Writes the helper to standard output.
pub(crate) fn helper() -> Result<(), Failure> {
    let jar = jar()?;
    if terminal::shows_to_a_person() {
        return Err(Failure::Usage(
            "the helper is a file: write `spanwise java helper > spanwise-java-helper.jar`, and \
             start Java with -javaagent:spanwise-java-helper.jar"
                .to_owned(),
        ));
    }
    terminal::print_foreign(jar)
}

/// Whether the agent is loaded in a virtual machine that may have had it before, and not detached.
fn runs(process: u32) -> Result<bool, Failure> {
    let properties = attach::properties(process)?;
    Ok(properties.lines().any(|line| line.trim() == RUNS))
}

/// Whether the helper has run in a process.
fn tells(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/maps"))
        .is_ok_and(|maps| maps.lines().any(|line| line.contains(TABLE)))
}

/// Loads the helper into a virtual machine.
pub(crate) fn attach(process: u32) -> Result<(), Failure> {
    let jar = jar()?;
    if tells(process) && runs(process)? {
        return terminal::print(&format!("process {process} has the helper already\n"));
    }
    attach::load(process, jar, "")?;
    let end = Instant::now() + BEGINS_WITHIN;
    while !tells(process) {
        if Instant::now() > end {
            return Err(Failure::cannot(format_args!(
                "process {process} has taken the helper, which does not run; the process's standard \
                 error says why, unless it has SPANWISE_TASKS=off in its environment"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal::print(&format!("process {process} has the helper now\n"))
}

/// Takes the agent out of a virtual machine, which may be attached to again.
pub(crate) fn detach(process: u32) -> Result<(), Failure> {
    let jar = jar()?;
    if !runs(process)? {
        return terminal::print(&format!("process {process} does not have the helper\n"));
    }
    attach::load(process, jar, DETACH)?;
    if runs(process)? {
        return Err(Failure::cannot(format_args!(
            "process {process} still has the helper; its standard error says why"
        )));
    }
    terminal::print(&format!("process {process} does not have the helper any more\n"))
}
