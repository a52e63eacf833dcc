//! What the status page says about the parts that are wired together here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};
use spanwise_ingest::{Ingest, Receiver};
use spanwise_serve::{Receivers, StatusSource};
use tokio::sync::watch;

use super::assembly::AssemblyStatus;
use super::process;
use crate::config::{Config, Listen};

/// What is known of the agent.
#[derive(Debug)]
pub(crate) enum AgentState {
    /// In this process, attaching to the kernel.
    Starting,
    /// Agents are programs of their own, here or on other machines.
    Remote,
    /// In this process, and running.
    Running(watch::Receiver<Value>),
    /// Meant to run in this process, and not able to.
    Off {
        /// Why.
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
    agent: Mutex<AgentState>,
}

impl ServerStatus {
    pub(crate) fn new(
        listen: Listen,
        config: &Config,
        ingest: Ingest,
        assembly: Arc<AssemblyStatus>,
        agent: AgentState,
    ) -> Self {
        Self {
            began: Instant::now(),
            listen,
            data: config.root.data.clone(),
            ingest,
            assembly,
            agent: Mutex::new(agent),
        }
    }

    /// From now on the agent is like this.
    pub(crate) fn set_agent(&self, state: AgentState) {
        *self.agent.lock() = state;
    }
}

impl StatusSource for ServerStatus {
    fn status(&self) -> Value {
        let ingest = self.ingest.status();
        let mut warnings = Vec::new();
        let agent = match &*self.agent.lock() {
            AgentState::Starting => json!({ "state": "starting" }),
            AgentState::Off { reason } => {
                warnings.push(format!(
                    "the agent is off, so only what OpenTelemetry clients send is traced: {reason}"
                ));
                json!({ "state": "off", "reason": reason })
            }
            AgentState::Running(facts) => {
                let mut agent = facts.borrow().clone();
                agent["state"] = "running".into();
                agent
            }
            AgentState::Remote => json!({ "state": "remote", "agents": ingest.agents }),
        };
        for agent in &ingest.agents {
            warnings.extend(switched_off(&agent.facts));
            warnings.extend(reduced(&agent.facts));
        }
        warnings.extend(self.assembly.warnings());
        let mut server = json!({
            "http": self.listen.http,
            "data": self.data.display().to_string(),
            "assembly": self.assembly.snapshot(),
        });
        for (receiver, address) in self.listen.receivers.iter() {
            server[receiver.key()] = json!(address);
        }
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": self.began.elapsed().as_secs_f64(),
            "server": server,
            "process": process::figures(),
            "agent": agent,
            "ingest": ingest,
            "warnings": warnings,
        })
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

/// A sentence where an agent does not report everything.
fn reduced(facts: &Value) -> Option<String> {
    let detail = facts["detail"].as_str().filter(|detail| *detail != "everything")?;
    let host = facts["host"].as_str().unwrap_or("some host");
    Some(format!("the agent on {host} reports {detail}: it was told to, or is over its budget"))
}

/// A sentence for each plugin of an agent that failed too often.
fn switched_off(facts: &Value) -> Vec<String> {
    let host = facts["host"].as_str().unwrap_or("some host");
    let plugins = facts["plugins"].as_array().into_iter().flatten();
    plugins
        .filter(|plugin| plugin["switched_off"] == true)
        .map(|plugin| {
            let file = plugin["file"].as_str().unwrap_or("?");
            let failures = &plugin["failures"];
            format!(
                "the agent on {host} has switched off its plugin {file} after {failures} \
                 failures; its log says why: correct it and start the agent anew"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_reports_less_is_named_with_what_it_reports() {
        let facts = |detail| json!({ "host": "a", "detail": detail });
        assert_eq!(reduced(&facts("everything")), None);
        assert_eq!(reduced(&json!({ "host": "an older agent" })), None);
        let said = reduced(&facts("1 of 4 fast successes")).expect("a sentence");
        assert!(said.starts_with("the agent on a reports 1 of 4 fast successes"), "{said}");
    }

    #[test]
    fn a_plugin_that_is_switched_off_is_said() {
        let plugin = |off: bool| json!({ "name": "x", "file": "x.wasm", "failures": 10, "switched_off": off });
        let facts = json!({ "host": "a", "plugins": [plugin(true), plugin(false)] });
        let said = switched_off(&facts);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("on a has switched off its plugin x.wasm after 10 failures"));
        assert!(switched_off(&Value::Null).is_empty());
    }
}
