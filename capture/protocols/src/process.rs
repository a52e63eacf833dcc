//! What spans need to know about a process, and the trait that provides it.

use std::collections::BTreeMap;
use std::sync::Arc;

use spanwise_model::ResourceJson;

/// Describes processes.
pub trait ProcessDirectory: Send {
    /// Returns what is known about a process. Never fails, because a process may have ended before
    /// anyone could inspect it.
    fn describe(&mut self, process: u32) -> Arc<Process>;

    /// Reports the kernel's name for a thread of the process. If the process ended before it was
    /// inspected, this name is all that is known about it.
    fn seen_as(&mut self, process: u32, command: &str) {
        let _ = (process, command);
    }

    /// The process was seen to serve. What it listens on may have to be looked up again.
    fn serves(&mut self, process: u32) {
        let _ = process;
    }

    /// Sets the label rules that apply from now on. Files and variables that labels are read from
    /// may have changed as well.
    fn set_labels(&mut self, rules: &[LabelRule]) {
        let _ = rules;
    }

    /// The process has ended or replaced its program.
    fn forget(&mut self, process: u32);

    /// Number of processes that are remembered.
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
    /// Language runtime of the process.
    pub runtime: Runtime,
    /// Resource attributes of the process.
    pub resource: ResourceJson,
    /// Service name to use when no served port is known.
    pub default_service: String,
    /// How the service name is derived when a served port is known.
    pub naming: Naming,
    /// Known ports on which the process listens.
    pub served_ports: Vec<u16>,
    /// Search domains of the process's resolver (`search` in its `resolv.conf`).
    pub search_domains: Vec<String>,
}

impl Process {
    /// The service name. `server_port` is the local port of the connection on which the process
    /// serves; it is `None` if the process is the client.
    pub fn service(&self, server_port: Option<u16>) -> String {
        match server_port {
            Some(_) => self.naming.service(server_port),
            None => self.default_service.clone(),
        }
    }

    /// All service names that a span of this process may have now.
    pub fn services(&self) -> impl Iterator<Item = String> {
        let served = self.served_ports.iter().map(|port| self.naming.service(Some(*port)));
        std::iter::once(self.default_service.clone()).chain(served)
    }
}

/// How a service gets its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    /// A name from the operator's rule for the process; ports do not matter.
    Fixed(String),
    /// The operator's rule for the port, otherwise the name that the process's environment
    /// provides.
    Given {
        /// The name from the environment.
        name: String,
        /// Port rules, which take precedence.
        rules: Arc<[PortRule]>,
    },
    /// The operator's rule for a port, else `EXECUTABLE:PORT`.
    ByPort {
        /// File name of the executable.
        executable: String,
        /// Port rules, which take precedence.
        rules: Arc<[PortRule]>,
    },
}

/// Maps a served port to a service name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRule {
    /// The port.
    pub port: u16,
    /// The name.
    pub name: String,
}

impl Naming {
    /// The service name for this port, or for the process if there is no port.
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

/// A language runtime. It determines what a thread of the process means.
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
    /// Any other program, with its executable's name.
    Other(String),
}

impl Runtime {
    /// `process.runtime.name`, if this is a known runtime.
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

/// Selects processes and the labels they get. All given conditions must hold; a rule without
/// conditions applies to all processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelRule {
    /// File name of the process's executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Text that the process's command line contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Systemd unit of the process, without `.service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Labels with fixed values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Labels whose values come from environment variables of the process.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub from_environment: BTreeMap<String, String>,
    /// Labels whose values are the first lines of files. Paths are resolved as the process sees
    /// them, so inside its container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub from_file: BTreeMap<String, String>,
}

impl LabelRule {
    /// Whether the rule sets no labels.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.from_environment.is_empty() && self.from_file.is_empty()
    }
}
