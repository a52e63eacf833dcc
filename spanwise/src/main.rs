//! `spanwise`: agent, server and command line in one program.
//!
//! This crate contains no logic of its own. It parses flags ([`flags`]), merges settings
//! ([`config`]), wires the stages together ([`run`]), queries a running server ([`client`]),
//! imports files ([`import`]), loads the helper for Java ([`java`]) and hashes keys ([`key`]).

mod client;
mod config;
mod drain;
mod failure;
mod flags;
mod host_metrics;
mod import;
mod java;
mod key;
mod manual;
mod memory;
mod otlp;
mod replay;
mod run;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::failure::Failure;
use crate::flags::{Command, Flags, JavaCommand, KeyCommand, NativeCommand};

fn main() -> ExitCode {
    // First of all: if this is a worker process for an SQL statement, nothing else is needed.
    if run::is_sql_worker() {
        return run::sql_worker();
    }
    memory::without_huge_pages();
    // Exit code 2 for an invalid flag, and 0 for --help.
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) if error.use_stderr() => {
            // The message repeats the user's input.
            eprint!("{}", terminal::complaint(&error.render().to_string()));
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
        Err(error) => error.exit(),
    };
    match dispatch(flags.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("spanwise: {}", terminal::complaint(&failure.to_string()));
            failure.exit_code()
        }
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Up(flags) => run::up(flags.load()?),
        Command::Server(flags) => run::server(&flags.load()?),
        Command::Agent(flags) => run::agent(flags.load()?),
        Command::Doctor(flags) => run::doctor(flags.json),
        Command::Config(flags) => terminal::print(&config::show(&flags.run.load()?, flags.json)),
        Command::Java(JavaCommand::Helper) => java::helper(),
        Command::Java(JavaCommand::Attach { process }) => java::attach(process),
        Command::Java(JavaCommand::Detach { process }) => java::detach(process),
        Command::Import(flags) => import::run(&flags),
        Command::Replay(flags) => replay::run(flags),
        Command::Native(NativeCommand::Filter(flags)) => replay::filter(&flags),
        Command::Trace(flags) => client::trace(&flags),
        Command::Search(flags) => client::search(&flags),
        Command::Mcp(flags) => client::mcp(&flags),
        Command::Tail(flags) => client::tail(&flags),
        Command::Graph(flags) => client::graph(&flags),
        Command::Chains(flags) => client::chains(&flags),
        Command::Depends(flags) => client::depends(&flags),
        Command::Entrances(flags) => client::entrances(&flags),
        Command::Sources(flags) => client::sources(&flags),
        Command::Watch(flags) => client::watch(&flags),
        Command::Cause(flags) => client::cause(&flags),
        Command::Journey(flags) => client::journey(&flags),
        Command::Key(KeyCommand::Hash { key, run }) => key::hash(&key, &run.load()?),
        Command::Key(KeyCommand::Secret) => key::secret(),
        Command::Bottlenecks(flags) => client::bottlenecks(&flags),
        Command::Capacity(flags) => client::capacity(&flags),
        Command::Top(flags) => client::top(&flags),
        Command::Services(flags) => client::services(&flags),
        Command::Sql(flags) => client::sql(&flags),
        Command::Status(flags) => client::status(&flags),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(folder.as_deref()),
    }
}
