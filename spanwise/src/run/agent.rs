//! The agent of this machine: what it sees goes over one Flight connection to
//! a server, be it far away or in this very process.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use spanwise_capture_agent::plugins::Plugin;
use spanwise_capture_agent::{Agent, AgentConfig};
use spanwise_wire::flight::{FlightSender, SenderConfig};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::port_owner;
use crate::config;

/// How often the agent tells about itself.
const FACTS_EVERY: Duration = Duration::from_secs(1);

/// The server that an agent reports to, and shall not trace.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    /// Its URL.
    pub(crate) url: String,
    /// All addresses on which it is known to listen.
    pub(crate) endpoints: Vec<SocketAddr>,
}

impl Destination {
    /// The server at this URL. A name that does not resolve now is no error:
    /// the sender asks again whenever it connects.
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
    facts: watch::Receiver<Value>,
}

impl LocalAgent {
    /// Attaches to the kernel and starts to send. A server that is away is no
    /// error: it is tried for as long as the agent runs. Where this process is
    /// nothing but the agent, what the process takes is what the agent takes.
    ///
    /// # Errors
    /// Why the agent cannot run, in a sentence.
    pub(crate) async fn start(
        settings: &config::AgentConfig,
        plugins: Vec<Plugin>,
        destination: Destination,
        owns_process: bool,
    ) -> Result<Self, String> {
        let sender = FlightSender::spawn(SenderConfig {
            queue_bytes: usize::try_from(settings.queue_bytes).unwrap_or(usize::MAX),
            ..SenderConfig::new(destination.url)
        })
        .map_err(|error| error.to_string())?;
        let ignored_processes = destination
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.ip().is_loopback())
            .filter_map(|endpoint| Some(port_owner::owner(*endpoint)?.process))
            .collect();
        let config = AgentConfig {
            hook: settings.hook,
            ring_bytes: settings.ring_bytes,
            payload_bytes: settings.payload_bytes,
            service_rules: settings.services.clone(),
            host: settings.host.clone(),
            ignored_processes,
            ignored_endpoints: destination.endpoints,
            live: settings.live.clone(),
            budget: settings.budget,
            owns_process,
            tls: settings.tls,
            hide: settings.hide,
            record: settings.record.clone(),
            plugins,
        };
        let deliver = {
            let sender = sender.clone();
            Box::new(move |rows| sender.send(&rows))
        };
        // Loading and attaching programs takes up to a second.
        let started = tokio::task::spawn_blocking(move || Agent::start(config, deliver)).await;
        let agent = match started {
            Ok(Ok(agent)) => agent,
            Ok(Err(error)) => {
                // Nothing will ever be sent; its connection is not to linger.
                sender.shutdown(Duration::ZERO).await;
                return Err(error.to_string());
            }
            Err(error) => return Err(format!("the agent's start failed: {error}")),
        };
        let agent = Arc::new(agent);
        let first = facts(&agent, &sender);
        sender.set_facts(&first);
        let (tell, told) = watch::channel(first);
        let telling = tokio::spawn(tell_facts(Arc::clone(&agent), sender.clone(), tell));
        Ok(Self { agent, sender, telling, facts: told })
    }

    /// What it tells about itself, as of about a second ago: `host`, `hook`,
    /// `version`, `counters`.
    pub(crate) fn facts(&self) -> watch::Receiver<Value> {
        self.facts.clone()
    }

    /// What changes its filter and its sampling.
    pub(crate) fn handle(&self) -> Weak<Agent> {
        Arc::downgrade(&self.agent)
    }

    /// A few words on how it runs.
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

    /// Detaches from the kernel, then sends what is left, no longer than this.
    pub(crate) async fn stop(self, deadline: Duration) {
        self.telling.abort();
        // Aborted tasks are dropped by the runtime, and with it their share.
        let _ = self.telling.await;
        let agent = self.agent;
        // Joins the agent's thread, which may be in the midst of a batch.
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

async fn tell_facts(agent: Arc<Agent>, sender: FlightSender, tell: watch::Sender<Value>) {
    let mut timer = tokio::time::interval(FACTS_EVERY);
    loop {
        timer.tick().await;
        let now = facts(&agent, &sender);
        sender.set_facts(&now);
        tell.send_replace(now);
    }
}

fn facts(agent: &Agent, sender: &FlightSender) -> Value {
    let facts = agent.facts();
    let mut counters: serde_json::Map<String, Value> =
        facts.counters.into_iter().map(|(name, count)| (name, count.into())).collect();
    if let Ok(Value::Object(transfer)) = serde_json::to_value(sender.counters()) {
        counters.extend(transfer.into_iter().map(|(name, n)| (format!("transfer_{name}"), n)));
    }
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": facts.host,
        "hook": facts.hook,
        "filter": facts.filter,
        "detail": facts.detail,
        "counters": counters,
        "plugins": facts.plugins,
    })
}
