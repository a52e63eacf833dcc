//! The status of the parts that are wired together here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use spanwise_analyze::red::{Red, RedSnapshot};
use spanwise_api::{self as api, AgentFacts, Count, Plugin, ReportingAgent, ServiceUnknown};
use spanwise_ingest::{AgentStatus, Ingest, IngestStatus, Receiver};
use spanwise_serve::{Receivers, ServerParts, StatusSource};
use tokio::sync::watch;

use super::assembly::AssemblyStatus;
use super::process;
use super::watch::Watch;
use crate::config::{Config, Listen};

/// The share of a service's spans of which something must be unknown to be worth a sentence.
const LEAST_UNKNOWN_PERCENT: f64 = 1.0;

/// What is known of the agent.
#[derive(Debug)]
pub(crate) enum AgentState {
    /// The agent is in this process and is attaching to the kernel.
    Starting,
    /// Agents run as separate programs, here or on other hosts.
    Remote,
    /// The agent is in this process and running.
    Running(watch::Receiver<AgentFacts>),
    /// The agent should run in this process, but cannot.
    Off {
        /// The reason.
        reason: String,
    },
}

/// The live parts of the status page.
pub(crate) struct ServerStatus {
    began: Instant,
    listen: Listen,
    data: PathBuf,
    ingest: Ingest,
    assembly: Arc<AssemblyStatus>,
    red: Option<Arc<Mutex<Red>>>,
    watch: Option<Arc<Watch>>,
    agent: Mutex<AgentState>,
}

impl ServerStatus {
    pub(crate) fn new(
        listen: Listen,
        config: &Config,
        ingest: Ingest,
        assembly: Arc<AssemblyStatus>,
        red: Option<Arc<Mutex<Red>>>,
        watch: Option<Arc<Watch>>,
        agent: AgentState,
    ) -> Self {
        Self {
            began: Instant::now(),
            listen,
            data: config.root.data.clone(),
            ingest,
            assembly,
            red,
            watch,
            agent: Mutex::new(agent),
        }
    }

    /// The addresses of the API and of each receiver.
    fn addresses(&self) -> BTreeMap<String, Option<String>> {
        let receivers = self.listen.receivers.iter();
        let receivers = receivers.map(|(receiver, address)| (receiver.key(), address));
        let address = |address: SocketAddr| address.to_string();
        let [jaeger_query, jaeger_storage] = self.listen.jaeger;
        let apis = [
            ("http", Some(self.listen.http)),
            ("tempo", self.listen.tempo),
            ("jaeger_query", jaeger_query),
            ("jaeger_storage", jaeger_storage),
        ];
        apis.into_iter()
            .chain(receivers)
            .map(|(name, at)| (name.to_owned(), at.map(address)))
            .collect()
    }

    /// Sets the state of the agent.
    pub(crate) fn set_agent(&self, state: AgentState) {
        *self.agent.lock() = state;
    }
}

impl StatusSource for ServerStatus {
    fn status(&self) -> ServerParts {
        let ingest = ingest(self.ingest.status());
        let mut warnings = Vec::new();
        let agent = match &*self.agent.lock() {
            AgentState::Starting => api::Agent::Starting,
            AgentState::Off { reason } => {
                warnings.push(format!(
                    "the agent is off, so only what OpenTelemetry clients send is traced: {reason}"
                ));
                api::Agent::Off { reason: reason.clone() }
            }
            AgentState::Running(facts) => api::Agent::Running(facts.borrow().clone()),
            AgentState::Remote => api::Agent::Remote { agents: ingest.agents.clone() },
        };
        for facts in ingest.agents.iter().filter_map(|agent| agent.facts.as_ref()) {
            warnings.extend(switched_off(facts));
            warnings.extend(reduced(facts));
            warnings.extend(unknown(facts));
        }
        warnings.extend(self.assembly.warnings());
        ServerParts {
            agent,
            ingest,
            process: process::figures(),
            server: api::Server {
                addresses: self.addresses(),
                assembly: self.assembly.snapshot(),
                data: self.data.display().to_string(),
            },
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            warnings,
        }
    }

    fn span_metrics(&self) -> Option<RedSnapshot> {
        self.red.as_ref().map(|red| red.lock().snapshot())
    }

    fn watch(&self) -> Option<api::Watch> {
        self.watch.as_ref().map(|watch| watch.answer())
    }

    fn receivers(&self) -> Receivers {
        let at = |key| self.listen.receivers.of(Receiver::named(key)?);
        Receivers {
            otlp_grpc: at("otlp_grpc"),
            otlp_http: at("otlp_http"),
            zipkin: at("zipkin"),
            jaeger_grpc: at("jaeger_grpc"),
            jaeger_http: at("jaeger_http"),
        }
    }
}

/// The status of the receivers.
fn ingest(status: IngestStatus) -> api::Ingest {
    let IngestStatus {
        counters,
        in_flight_bytes,
        connections,
        flight_streams,
        otap_streams,
        otap_kept_bytes,
        agents,
    } = status;
    api::Ingest {
        agents: agents.into_iter().map(agent).collect(),
        connections: connections.into(),
        counters: counters.into_iter().map(|(name, count)| (name, count.into())).collect(),
        flight_streams: flight_streams.into(),
        in_flight_bytes: in_flight_bytes.into(),
        otap_kept_bytes: otap_kept_bytes.into(),
        otap_streams: otap_streams.into(),
    }
}

fn agent(status: AgentStatus) -> ReportingAgent {
    let AgentStatus {
        source,
        address,
        connected,
        first_seen_unix_nano,
        last_seen_unix_nano,
        batches,
        spans,
        last_sequence,
        facts,
    } = status;
    ReportingAgent {
        address,
        batches: batches.into(),
        connected,
        facts: self::facts(&facts),
        first_seen_unix_nano: Count(first_seen_unix_nano),
        last_seen_unix_nano: Count(last_seen_unix_nano),
        last_sequence: last_sequence.into(),
        source,
        spans: spans.into(),
    }
}

/// An agent's facts. Agents of other versions may report different ones. Unknown parts are omitted.
fn facts(facts: &Value) -> Option<AgentFacts> {
    let facts = facts.as_object()?;
    let text = |name: &str| facts.get(name).and_then(Value::as_str).map(str::to_owned);
    let counters = facts.get("counters").and_then(Value::as_object).into_iter().flatten();
    let list = |name: &str| facts.get(name).and_then(Value::as_array).into_iter().flatten();
    let (plugins, unknown) = (list("plugins"), list("unknown"));
    Some(AgentFacts {
        counters: counters
            .filter_map(|(name, count)| Some((name.clone(), Count::deserialize(count).ok()?)))
            .collect(),
        detail: text("detail"),
        filter: text("filter"),
        hook: text("hook"),
        host: text("host"),
        plugins: plugins.filter_map(|plugin| Plugin::deserialize(plugin).ok()).collect(),
        unknown: unknown.filter_map(|one| ServiceUnknown::deserialize(one).ok()).collect(),
        version: text("version"),
    })
}

/// A warning if an agent does not report everything.
fn reduced(facts: &AgentFacts) -> Option<String> {
    let detail = facts.detail.as_deref().filter(|detail| *detail != "everything")?;
    let host = host(facts);
    Some(format!("the agent on {host} reports {detail}: it was told to, or is over its budget"))
}

/// A warning for each plugin that an agent disabled after too many errors.
fn switched_off(facts: &AgentFacts) -> Vec<String> {
    let host = host(facts);
    let plugins = facts.plugins.iter().filter(|plugin| plugin.switched_off);
    plugins
        .map(|Plugin { file, failures, .. }| {
            format!(
                "the agent on {host} has switched off its plugin {file} after {failures} \
                 failures; its log says why: correct it and start the agent anew"
            )
        })
        .collect()
}

/// A sentence for each service of whose spans an agent does not know all.
fn unknown(facts: &AgentFacts) -> Vec<String> {
    let host = host(facts);
    let share = |part: Count, all: Count| 100.0 * part.0 as f64 / all.0.max(1) as f64;
    let sentence = |one: &ServiceUnknown| {
        let operations = share(one.operations_unknown, one.spans);
        let statuses = share(one.statuses_unknown, one.spans);
        // Of what is lost now and then, the counters tell.
        (operations.max(statuses) >= LEAST_UNKNOWN_PERCENT).then(|| {
            let service = &one.service;
            format!(
                "{operations:.0} % of the spans of {service} on {host} do not say what was called, \
                 and {statuses:.0} % not how it ended: both ends of a connection say that only \
                 once, and did before the agent saw it. Restart {service} to see names"
            )
        })
    };
    facts.unknown.iter().filter_map(sentence).collect()
}

fn host(facts: &AgentFacts) -> &str {
    facts.host.as_deref().unwrap_or("some host")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(value: Value) -> AgentFacts {
        facts(&value).expect("an object")
    }

    #[test]
    fn of_facts_of_another_version_what_is_understood_is_kept() {
        assert_eq!(facts(&Value::Null), None);
        let read = told(json!({
            "host": "a", "hook": 7, "new": [1],
            "counters": {"spans": 2, "many": "9007199254740993", "not": "a number", "half": 0.5},
            "plugins": [{"name": "x"}],
        }));
        let counters = [("spans".to_owned(), Count(2)), ("many".to_owned(), Count((1 << 53) + 1))];
        let host = Some("a".to_owned());
        assert_eq!(read, AgentFacts { host, counters: counters.into(), ..AgentFacts::default() });
    }

    #[test]
    fn an_agent_that_reports_less_is_named_with_what_it_reports() {
        let facts = |detail: &str| told(json!({ "host": "a", "detail": detail }));
        assert_eq!(reduced(&facts("everything")), None);
        assert_eq!(reduced(&told(json!({ "host": "an older agent" }))), None);
        let said = reduced(&facts("1 of 4 fast successes")).expect("a sentence");
        assert!(said.starts_with("the agent on a reports 1 of 4 fast successes"), "{said}");
    }

    #[test]
    fn of_which_services_something_is_unknown_is_said() {
        let one = |service: &str, operations: u64, statuses: u64| {
            json!({
                "service": service, "spans": 200, "operations_unknown": operations,
                "statuses_unknown": statuses,
            })
        };
        let all =
            json!([one("shop", 192, 180), one("card", 1, 1), {"service": "of another version"}]);
        let said = unknown(&told(json!({ "host": "a", "unknown": all })));
        assert_eq!(said.len(), 1, "{said:?}");
        let begin = "96 % of the spans of shop on a do not say what was called, and 90 % not how";
        assert!(said[0].starts_with(begin) && said[0].ends_with("Restart shop to see names"));
    }

    #[test]
    fn a_plugin_that_is_switched_off_is_said() {
        let plugin = |off: bool| json!({ "name": "x", "file": "x.wasm", "failures": 10, "switched_off": off });
        let facts = told(json!({ "host": "a", "plugins": [plugin(true), plugin(false)] }));
        let said = switched_off(&facts);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("on a has switched off its plugin x.wasm after 10 failures"));
        assert!(switched_off(&AgentFacts::default()).is_empty());
    }
}
