//! What the span side needs to know of a process, and whom it asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use spanwise_model::ResourceJson;

/// Describes processes.
pub trait ProcessDirectory: Send {
    /// What is known of a process; never fails, for a process may have ended
    /// before anyone could look.
    fn describe(&mut self, process: u32) -> Arc<Process>;

    /// The kernel calls a process's thread by this name: all that is left to
    /// know of a process that has ended before anyone looked.
    fn seen_as(&mut self, process: u32, command: &str) {
        let _ = (process, command);
    }

    /// These labels hold from now on; what they are read from may have changed, too.
    fn set_labels(&mut self, rules: &[LabelRule]) {
        let _ = rules;
    }

    /// The process has ended or replaced its program.
    fn forget(&mut self, process: u32);

    /// How many processes it remembers.
    fn known(&self) -> usize {
        0
    }
}

/// A process as the operator knows it.
#[derive(Debug, Clone)]
pub struct Process {
    /// Process id, in the agent's own pid namespace.
    pub process: u32,
    /// Host name.
    pub host: String,
    /// `HOST/PID`.
    pub instance: String,
    /// Its language runtime.
    pub runtime: Runtime,
    /// Its resource attributes.
    pub resource: ResourceJson,
    /// Its service's name where no served port is at hand.
    pub default_service: String,
    /// How its service gets its name where one is.
    pub naming: Naming,
    /// Ports on which it listens, as far as is known.
    pub served_ports: Vec<u16>,
    /// Domains in which its resolver looks for names (`search` in its `resolv.conf`).
    pub search_domains: Vec<String>,
}

impl Process {
    /// The service's name; `server_port` is the local port of the connection
    /// on which the process serves, and absent where it is a client.
    pub fn service(&self, server_port: Option<u16>) -> String {
        match server_port {
            Some(_) => self.naming.service(server_port),
            None => self.default_service.clone(),
        }
    }

    /// Every name that a span of it may have now.
    pub fn services(&self) -> impl Iterator<Item = String> {
        let served = self.served_ports.iter().map(|port| self.naming.service(Some(*port)));
        std::iter::once(self.default_service.clone()).chain(served)
    }
}

/// How a service gets its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    /// The operator's rule for the process, whatever its ports.
    Fixed(String),
    /// The operator's rule for a port, else the name that the process's
    /// surroundings give it.
    Given {
        /// That name.
        name: String,
        /// Rules that go before it.
        rules: Arc<[PortRule]>,
    },
    /// The operator's rule for a port, else `EXECUTABLE:PORT`.
    ByPort {
        /// File name of the executable.
        executable: String,
        /// Rules that go before it.
        rules: Arc<[PortRule]>,
    },
}

/// A service's name by the port on which it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRule {
    /// The port.
    pub port: u16,
    /// The name.
    pub name: String,
}

impl Naming {
    /// The name of the service on this port; without a port, of the process.
    pub fn service(&self, port: Option<u16>) -> String {
        let by_rule = |rules: &[PortRule]| {
            let port = port?;
            rules.iter().find(|rule| rule.port == port).map(|rule| rule.name.clone())
        };
        match self {
            Self::Fixed(name) => name.clone(),
            Self::Given { name, rules } => by_rule(rules).unwrap_or_else(|| name.clone()),
            Self::ByPort { executable, rules } => by_rule(rules).unwrap_or_else(|| match port {
                Some(port) => format!("{executable}:{port}"),
                None => executable.clone(),
            }),
        }
    }
}

/// A language runtime: what one of its threads means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runtime {
    /// Goroutines move between threads.
    Go,
    /// One thread serves all requests.
    Node,
    /// The JVM.
    Java,
    /// CPython.
    Python,
    /// Anything else, by its executable's name.
    Other(String),
}

impl Runtime {
    /// `process.runtime.name`, where the runtime is one.
    pub const fn name(&self) -> Option<&'static str> {
        match self {
            Self::Go => Some("go"),
            Self::Node => Some("nodejs"),
            Self::Java => Some("java"),
            Self::Python => Some("cpython"),
            Self::Other(_) => None,
        }
    }
}

/// Which processes get which labels. Every given condition must hold; without any,
/// all processes get them.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelRule {
    /// The process's executable has this file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Its command line contains this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its systemd unit, without `.service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Labels with fixed values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Labels with the values of variables of the process's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub from_environment: BTreeMap<String, String>,
    /// Labels with the first lines of files, as the process sees them: in a container
    /// those of the container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub from_file: BTreeMap<String, String>,
}

impl LabelRule {
    /// Whether it gives no labels.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.from_environment.is_empty() && self.from_file.is_empty()
    }
}
