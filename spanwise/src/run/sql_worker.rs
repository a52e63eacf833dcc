//! Starts worker processes for SQL statements: this program with a secret argument.

use std::io::{stdin, stdout};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;

use spanwise_store::embedded::{SqlWorker, run_sql_worker};

const WORD: &str = "sql-worker";

/// Whether this process is a worker.
pub(crate) fn is_sql_worker() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == WORD)
}

/// Runs the statement that the server sends.
pub(crate) fn sql_worker() -> ExitCode {
    let input = stdin().as_fd().try_clone_to_owned();
    let output = stdout().as_fd().try_clone_to_owned();
    match (input, output) {
        (Ok(input), Ok(output)) => run_sql_worker(input, output),
        _ => ExitCode::FAILURE,
    }
}

/// The worker's command.
pub(super) fn command() -> SqlWorker {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    SqlWorker {
        // The running program, even if its file has been replaced.
        program: PathBuf::from("/proc/self/exe"),
        arguments: vec![WORD.to_owned()],
        // The allocator reserves address space, which is limited, in gigabytes, and keeps memory of
        // freed large objects.
        environment: vec![
            variable("MIMALLOC_ARENA_RESERVE", "32MiB"),
            variable("MIMALLOC_ARENA_MAX_OBJECT_SIZE", "4MiB"),
        ],
    }
}
