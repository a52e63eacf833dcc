//! The subcommands that run a server or an agent. The only place where stages are wired together.

mod agent;
mod assembly;
mod descriptors;
mod listen;
mod logging;
mod native;
mod port_owner;
mod process;
mod receivers;
mod rollups;
mod server;
mod signals;
mod sink;
mod sql_worker;
mod status;
mod watch;

use std::fmt::Write as _;
use std::future::Future;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::Context as _;
use spanwise_capture_agent::plugins::Plugin;
use spanwise_ingest::Receiver;
use tokio::runtime::Handle;

use crate::config::{AgentConfig, Config, Loaded, StoreAt};
use crate::failure::Failure;
use crate::terminal::print;
use agent::{Destination, LocalAgent};
use native::Native;
use server::Server;
use status::AgentState;

pub(crate) use sql_worker::{is_sql_worker, sql_worker};

/// Time to flush an agent in the server's process: the server is still running.
const FLUSH_HERE: Duration = Duration::from_millis(800);
/// Time to flush a separate agent: the server may be slow or unreachable.
const FLUSH_FAR: Duration = Duration::from_secs(3);

/// `spanwise up`
pub(crate) fn up(loaded: Loaded) -> Result<(), Failure> {
    logging::start(&loaded)?;
    let loaded = Arc::new(loaded);
    block_on_with_receivers(async |receivers: Handle| {
        let plugins = plugins(&loaded.config.agent)?;
        let keys = loaded.config.keys.load_for_agent()?;
        let stop = signals::watch()?;
        let mut server = Server::start(&loaded.config, &receivers, AgentState::Starting).await?;
        let config = &loaded.config.agent;
        let destination = server.destination();
        let native = Native::start(config, &destination.url)?;
        let started =
            LocalAgent::start(config, plugins, keys, destination.clone(), false, native.counters())
                .await;
        let report = native.report(started.is_ok(), destination.url)?;
        let agent = match started {
            Ok(agent) => {
                reload_on_hang_up(&loaded, &agent)?;
                server.status().set_agent(AgentState::Running(agent.facts()));
                Ok(agent)
            }
            Err(reason) => {
                tracing::warn!(
                    "the agent is off, so only what OpenTelemetry clients send is traced: \
                     {reason}; `spanwise doctor` tells what this kernel allows"
                );
                server.status().set_agent(AgentState::Off { reason: reason.clone() });
                Err(reason)
            }
        };
        let state = match &agent {
            Ok(agent) => agent.summary(),
            Err(reason) => format!("off: {reason}"),
        };
        print(&banner(&loaded, &server, &state))?;
        let served = server.serve(&stop).await;
        native.stop(report).await;
        if let Ok(agent) = agent {
            agent.stop(FLUSH_HERE).await;
        }
        server.stop().await.and(served)
    })
}

/// `spanwise server`
pub(crate) fn server(loaded: &Loaded) -> Result<(), Failure> {
    logging::start(loaded)?;
    block_on_with_receivers(async |receivers: Handle| {
        let stop = signals::watch()?;
        let mut server = Server::start(&loaded.config, &receivers, AgentState::Remote).await?;
        print(&banner(loaded, &server, "none here; start one with `spanwise agent`"))?;
        let served = server.serve(&stop).await;
        server.stop().await.and(served)
    })
}

/// `spanwise agent`
pub(crate) fn agent(loaded: Loaded) -> Result<(), Failure> {
    logging::start(&loaded)?;
    let loaded = Arc::new(loaded);
    block_on(async {
        let stop = signals::watch()?;
        let config = &loaded.config.agent;
        let plugins = plugins(config)?;
        let keys = loaded.config.keys.load_for_agent()?;
        let destination = Destination::at(&config.settings.server).await;
        let native = Native::start(config, &destination.url)?;
        let url = destination.url.clone();
        let started =
            LocalAgent::start(config, plugins, keys, destination, true, native.counters()).await;
        let report = native.report(started.is_ok(), url)?;
        let agent = match started {
            Ok(agent) => {
                reload_on_hang_up(&loaded, &agent)?;
                Ok(agent)
            }
            Err(reason) if native.is_any() => {
                tracing::warn!(
                    "the kernel is not watched: {reason}; `spanwise doctor` tells what it allows"
                );
                Err(reason)
            }
            Err(reason) => {
                return Err(Failure::cannot(format_args!(
                    "the agent cannot run: {reason}; `spanwise doctor` tells what this kernel \
                     allows"
                )));
            }
        };
        let state = match &agent {
            Ok(agent) => agent.summary(),
            Err(reason) => format!("only native programs and this host's metrics: {reason}"),
        };
        print(&format!(
            "Spanwise {} watches this machine\n  server       {}\n  agent        {}\n\n",
            env!("CARGO_PKG_VERSION"),
            config.settings.server,
            state,
        ))?;
        stop.cancelled().await;
        native.stop(report).await;
        if let Ok(agent) = agent {
            agent.stop(FLUSH_FAR).await;
        }
        Ok(())
    })
}

/// On SIGHUP, reads the settings again and applies those that can change at runtime.
fn reload_on_hang_up(loaded: &Arc<Loaded>, agent: &LocalAgent) -> Result<(), Failure> {
    let started = Arc::clone(loaded);
    let agent = agent.handle();
    signals::on_hang_up(move || match started.again() {
        Err(error) => tracing::error!("SIGHUP: the settings stay as they are: {error}"),
        Ok(now) => {
            let waiting = started.waiting_for_a_start(&now);
            if !waiting.is_empty() {
                tracing::warn!("SIGHUP: takes effect with the next start: {}", waiting.join(", "));
            }
            let live = now.config.agent.live();
            tracing::info!(
                "SIGHUP: tracing {}, keeping {} of fast successes",
                live.filter,
                live.sampling.share
            );
            if let Some(agent) = agent.upgrade() {
                agent.reconfigure(live);
            }
        }
    })
}

/// `spanwise doctor`
pub(crate) fn doctor(json: bool) -> Result<(), Failure> {
    let report = spanwise_capture_agent::doctor::examine();
    if json {
        let text = serde_json::to_string_pretty(&report).map_err(Failure::cannot)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&report.to_string())?;
    }
    if report.chosen.is_some() {
        Ok(())
    } else {
        Err(Failure::cannot("the agent cannot run on this machine; the report says why"))
    }
}

/// The configured plugins. A refused plugin is an error of the settings, and nothing starts.
/// Otherwise spans would be missing without notice.
fn plugins(config: &AgentConfig) -> Result<Vec<Plugin>, Failure> {
    Plugin::load_all(&config.plugins()).map_err(|error| Failure::Usage(error.to_string()))
}

fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the threads for input and output")?;
    let result = runtime.block_on(work);
    // Does not wait for blocking work. Everything that must not be lost has already been waited
    // for.
    runtime.shutdown_background();
    result
}

/// Like [`block_on`], with separate threads for received data, which end with it. There are half as
/// many as processors, because the others write files at the same time. Data that one thread reads
/// and decodes stays in its processor's cache. Queries use none of these threads.
fn block_on_with_receivers(
    work: impl AsyncFnOnce(Handle) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let processors = available_parallelism().map_or(2, NonZero::get);
    let receivers = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.div_ceil(2))
        .thread_name("receiver")
        .enable_all()
        .build()
        .context("cannot start the threads for what is received")?;
    let result = block_on(work(receivers.handle().clone()));
    receivers.shutdown_background();
    result
}

fn kept_at(config: &Config) -> String {
    let directory = config.root.data.display();
    match &config.store.url.0 {
        StoreAt::Embedded => directory.to_string(),
        StoreAt::ClickHouse(address) => format!("{address}, by way of {directory}"),
    }
}

/// The summary for the user when everything is running. Ends with an empty line.
fn banner(loaded: &Loaded, server: &Server, agent: &str) -> String {
    let bound = &server.bound;
    let mut text = format!("Spanwise {} is up\n", env!("CARGO_PKG_VERSION"));
    let mut lines = vec![("UI and API", format!("http://{}", bound.http))];
    lines.extend(bound.tempo.map(|tempo| ("Tempo", format!("http://{tempo}"))));
    let jaeger = ["http://", ""].into_iter().zip(bound.jaeger);
    lines
        .extend(jaeger.filter_map(|(scheme, at)| Some(("Jaeger API", format!("{scheme}{}", at?)))));
    for (receiver, address) in bound.receivers.iter() {
        let Some(address) = address else { continue };
        let scheme = if receiver.path.is_empty() { "" } else { "http://" };
        let Receiver { path, banner, banner_note, .. } = receiver;
        let place = format!("{scheme}{address}{path} {banner_note}").trim_end().to_owned();
        match lines.last_mut() {
            Some((last, places)) if last == banner => *places = format!("{places}, {place}"),
            _ => lines.push((banner, place)),
        }
    }
    lines.extend([("data", kept_at(&loaded.config)), ("agent", agent.to_owned())]);
    for (name, value) in lines {
        let _ = writeln!(text, "  {name:<12} {value}");
    }
    text.push('\n');
    text
}
