//! `spanwise`: the agent, the server and the command line in one program.
//!
//! This crate holds no logic of its own: it reads what was typed
//! ([`flags`]), decides what runs ([`config`]), wires the stages together
//! ([`run`]), asks a running server questions ([`client`]), brings it files
//! ([`import`]) and its helper to Java ([`java`]).

mod client;
mod config;
mod failure;
mod flags;
mod import;
mod java;
mod run;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::failure::Failure;
use crate::flags::{Command, Flags, JavaCommand};

// The agent's and the server's memory is many short-lived batches made on one
// thread and freed on another, which the system's allocator fragments over days.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    without_huge_pages();
    // Clap itself ends the program with 2 on a wrong flag, and 0 on --help.
    match dispatch(Flags::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("spanwise: {failure}");
            failure.exit_code()
        }
    }
}

/// Memory for batches comes and goes many times a second. In huge pages, for
/// which the allocator asks, the system clears 2 MiB for the first byte of each:
/// that took a quarter of the server's processor time, and memory that nothing
/// used.
fn without_huge_pages() {
    // Where the kernel does not know of this, it has no huge pages either.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Up(flags) => run::up(config::load(flags.config.as_deref(), &flags.layer())?),
        Command::Server(flags) => {
            run::server(&config::load(flags.config.as_deref(), &flags.layer())?)
        }
        Command::Agent(flags) => run::agent(config::load(flags.config.as_deref(), &flags.layer())?),
        Command::Doctor(flags) => run::doctor(flags.json),
        Command::Config(flags) => {
            let loaded = config::load(flags.config.as_deref(), &flags.layer())?;
            terminal::print(&config::show(&loaded, flags.json))
        }
        Command::Java(JavaCommand::Helper) => java::helper(),
        Command::Java(JavaCommand::Attach { process }) => java::attach(process),
        Command::Import(flags) => import::run(&flags),
        Command::Trace(flags) => client::trace(&flags),
        Command::Search(flags) => client::search(&flags),
        Command::Services(flags) => client::services(&flags),
        Command::Sql(flags) => client::sql(&flags),
        Command::Status(flags) => client::status(&flags),
    }
}
