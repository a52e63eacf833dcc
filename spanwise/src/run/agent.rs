//! The agent of this host. It sends its spans over one Flight connection to a server, which may be
//! remote or in the same process.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use spanwise_api::{self as api, AgentFacts, Count};
use spanwise_capture_agent::plugins::{Plugin, PluginFacts};
use spanwise_capture_agent::{Agent, AgentConfig, ServiceUnknown};
use spanwise_keys::KeyRules;
use spanwise_wire::flight::{FlightSender, SenderConfig};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::port_owner;
use crate::config;

/// Counters of what runs beside the agent.
pub(crate) type MoreCounters = Arc<dyn Fn() -> BTreeMap<String, u64> + Send + Sync>;

/// Interval at which the agent reports facts about itself.
const FACTS_EVERY: Duration = Duration::from_secs(1);

/// The server to which an agent reports, and which it must not trace.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    /// Its URL.
    pub(crate) url: String,
    /// All known addresses of the server.
    pub(crate) endpoints: Vec<SocketAddr>,
}

impl Destination {
    /// The server with this URL. A name that cannot be resolved now is not an error, because the
    /// sender resolves it again for each connection.
    pub(crate) async fn at(url: &str) -> Self {
        let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = authority.split('/').next().unwrap_or_default().to_owned();
        let endpoints = match tokio::net::lookup_host(authority).await {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                tracing::warn!(
                    "the server's address {url} does not resolve ({error}); until this program \
                     is started anew, connections to it are traced too"
                );
                Vec::new()
            }
        };
        Self { url: url.to_owned(), endpoints }
    }
}

/// A running agent and its connection.
pub(crate) struct LocalAgent {
    agent: Arc<Agent>,
    sender: FlightSender,
    telling: JoinHandle<()>,
    facts: watch::Receiver<AgentFacts>,
}

impl LocalAgent {
    /// Attaches to the kernel and starts sending. An unreachable server is not an error; the agent
    /// keeps trying. If the process contains only the agent, the process's resource usage is the
    /// agent's.
    ///
    /// # Errors
    /// Why the agent cannot run, as a sentence.
    pub(crate) async fn start(
        config: &config::AgentConfig,
        plugins: Vec<Plugin>,
        keys: KeyRules,
        destination: Destination,
        owns_process: bool,
        more: MoreCounters,
    ) -> Result<Self, String> {
        let settings = &config.settings;
        let sender = FlightSender::spawn(SenderConfig {
            queue_bytes: usize::try_from(settings.queue_bytes.0).unwrap_or(usize::MAX),
            ..SenderConfig::new(destination.url)
        })
        .map_err(|error| error.to_string())?;
        let ignored_processes = destination
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.ip().is_loopback())
            .filter_map(|endpoint| Some(port_owner::owner(*endpoint)?.process))
            .collect();
        let agent_config = AgentConfig {
            hook: settings.hook,
            ring_bytes: settings.ring_bytes.0,
            payload_bytes: settings.payload_bytes.0,
            service_rules: config.services.clone(),
            host: settings.host.0.clone(),
            ignored_processes,
            ignored_endpoints: destination.endpoints,
            live: config.live(),
            budget: config.budget(),
            owns_process,
            tls: settings.tls.0,
            hide: settings.hide,
            record: settings.record.0.as_ref().map(PathBuf::from),
            plugins,
            keys: Arc::new(keys),
        };
        let deliver = {
            let sender = sender.clone();
            Box::new(move |rows| sender.send(&rows))
        };
        // Loading and attaching BPF programs takes up to a second.
        let started =
            tokio::task::spawn_blocking(move || Agent::start(agent_config, deliver)).await;
        let agent = match started {
            Ok(Ok(agent)) => agent,
            Ok(Err(error)) => {
                // Nothing will be sent, so the connection is closed.
                sender.shutdown(Duration::ZERO).await;
                return Err(error.to_string());
            }
            Err(error) => return Err(format!("the agent's start failed: {error}")),
        };
        let agent = Arc::new(agent);
        let first = facts(&agent, &sender, &more);
        report(&sender, &first);
        let (tell, told) = watch::channel(first);
        let telling = tokio::spawn(tell_facts(Arc::clone(&agent), sender.clone(), tell, more));
        Ok(Self { agent, sender, telling, facts: told })
    }

    /// The facts about itself, at most about a second old.
    pub(crate) fn facts(&self) -> watch::Receiver<AgentFacts> {
        self.facts.clone()
    }

    /// For changing its filter and its sampling.
    pub(crate) fn handle(&self) -> Weak<Agent> {
        Arc::downgrade(&self.agent)
    }

    /// A short description of how it runs.
    pub(crate) fn summary(&self) -> String {
        let facts = self.agent.facts();
        let mut text = format!("on, as {}, with {}", facts.host, facts.hook);
        if facts.filter != "everything" {
            let _ = write!(text, ", tracing {}", facts.filter);
        }
        for plugin in facts.plugins {
            let _ = write!(text, "\n  {:<12} {} ({})", "plugin", plugin.name, plugin.file);
        }
        text
    }

    /// Detaches from the kernel, then sends the remaining spans until the deadline.
    pub(crate) async fn stop(self, deadline: Duration) {
        self.telling.abort();
        // The runtime drops aborted tasks and their reference to the agent.
        let _ = self.telling.await;
        let agent = self.agent;
        // Joins the agent's thread, which may be processing a batch.
        let _ = tokio::task::spawn_blocking(move || drop(agent)).await;
        let counters = self.sender.shutdown(deadline).await;
        if counters.spans_dropped() > 0 {
            tracing::warn!(
                acknowledged = counters.spans_acknowledged,
                queue_full = counters.spans_dropped_queue_full,
                rejected = counters.spans_dropped_rejected,
                encoding = counters.spans_dropped_encoding,
                shutdown = counters.spans_dropped_shutdown,
                "spans that the server never got"
            );
        }
    }
}

/// Sends facts to the server.
fn report(sender: &FlightSender, facts: &AgentFacts) {
    if let Ok(facts) = serde_json::to_value(facts) {
        sender.set_facts(&facts);
    }
}

async fn tell_facts(
    agent: Arc<Agent>,
    sender: FlightSender,
    tell: watch::Sender<AgentFacts>,
    more: MoreCounters,
) {
    let mut timer = tokio::time::interval(FACTS_EVERY);
    loop {
        timer.tick().await;
        let now = facts(&agent, &sender, &more);
        report(&sender, &now);
        tell.send_replace(now);
    }
}

fn facts(agent: &Agent, sender: &FlightSender, more: &MoreCounters) -> AgentFacts {
    let facts = agent.facts();
    let mut counters: BTreeMap<String, Count> =
        facts.counters.into_iter().map(|(name, count)| (name, count.into())).collect();
    if let Ok(Value::Object(transfer)) = serde_json::to_value(sender.counters()) {
        let transfer = transfer
            .into_iter()
            .filter_map(|(name, count)| Some((format!("transfer_{name}"), count.as_u64()?.into())));
        counters.extend(transfer);
    }
    counters.extend(counted(more));
    AgentFacts {
        counters,
        detail: Some(facts.detail),
        filter: Some(facts.filter),
        hook: Some(facts.hook.to_string()),
        host: Some(facts.host),
        plugins: facts.plugins.into_iter().map(plugin).collect(),
        unknown: facts.unknown.into_iter().map(unknown).collect(),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}

fn counted(more: &MoreCounters) -> impl Iterator<Item = (String, Count)> + use<> {
    more().into_iter().map(|(name, count)| (name, count.into()))
}

/// Tells the server about native programs where no agent watches the kernel.
pub(crate) struct NativeReport {
    sender: FlightSender,
    telling: JoinHandle<()>,
}

impl NativeReport {
    /// # Errors
    /// If the server's address is wrong.
    pub(crate) fn start(server: String, host: String, more: MoreCounters) -> Result<Self, String> {
        let sender =
            FlightSender::spawn(SenderConfig::new(server)).map_err(|error| error.to_string())?;
        let telling = {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut timer = tokio::time::interval(FACTS_EVERY);
                loop {
                    timer.tick().await;
                    let facts = AgentFacts {
                        counters: counted(&more).collect(),
                        host: Some(host.clone()),
                        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                        ..AgentFacts::default()
                    };
                    report(&sender, &facts);
                }
            })
        };
        Ok(Self { sender, telling })
    }

    pub(crate) async fn stop(self) {
        self.telling.abort();
        let _ = self.telling.await;
        self.sender.shutdown(Duration::ZERO).await;
    }
}

fn unknown(service: ServiceUnknown) -> api::ServiceUnknown {
    let ServiceUnknown { service, spans, operations_unknown, statuses_unknown } = service;
    api::ServiceUnknown {
        operations_unknown: operations_unknown.into(),
        service,
        spans: spans.into(),
        statuses_unknown: statuses_unknown.into(),
    }
}

fn plugin(facts: PluginFacts) -> api::Plugin {
    let PluginFacts { name, file, switched_off, failures } = facts;
    api::Plugin { failures: failures.into(), file, name: name.to_owned(), switched_off }
}
