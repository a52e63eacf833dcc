//! Describes processes: service name, runtime and resource, from `/proc` and the operator's rules.
//! Nothing is requested over a network.

mod facts;
mod labels;
mod listeners;
mod runtime;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::AHashMap;
pub use facts::environment_variable;
use facts::{Facts, container_id, systemd_unit};
use spanwise_model::{AttributeValue, ResourceJson};

use spanwise_capture_protocols::process::{
    LabelRule, Naming, PortRule, Process, ProcessDirectory, Runtime,
};

/// An operator's rule for the name of a service. All given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceRule {
    /// The service's name.
    pub name: String,
    /// The process serves on this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The executable has this file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// The command line contains this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl ServiceRule {
    fn fits(&self, facts: &Facts) -> bool {
        self.executable.as_ref().is_none_or(|name| *name == facts.executable)
            && self.command.as_ref().is_none_or(|text| facts.command_line.contains(text))
    }
}

/// Times after which a process without a listening port is examined again, because it may still
/// have been starting.
const LOOK_AGAIN: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];
const MAX_PROCESSES: usize = 65_536;

/// Describes the processes of this host.
pub struct Processes {
    proc: PathBuf,
    host: String,
    /// The agent's own control group. Processes in it were started from the same place, so the
    /// group's name does not distinguish services.
    own_cgroup: String,
    rules: Vec<ServiceRule>,
    labels: Vec<LabelRule>,
    known: AHashMap<u32, KnownProcess>,
    /// The kernel's names of processes.
    commands: AHashMap<u32, String>,
}

struct KnownProcess {
    process: Arc<Process>,
    /// When it was last examined, and how often; `None` once its port is known.
    unsettled: Option<(Instant, usize)>,
}

impl Processes {
    /// Describes processes below `/proc`.
    pub fn new(host: String, rules: Vec<ServiceRule>) -> Self {
        let proc = PathBuf::from("/proc");
        let own_cgroup = Facts::read(&proc, std::process::id()).cgroup;
        Self {
            proc,
            host,
            own_cgroup,
            rules,
            labels: Vec::new(),
            known: AHashMap::new(),
            commands: AHashMap::new(),
        }
    }

    /// The host's name, if the operator configured none.
    pub fn host_name() -> String {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }

    /// The current description, whether the port is known, and whether the process is alive.
    fn examine(&self, process: u32) -> (Process, bool, bool) {
        let mut facts = Facts::read(&self.proc, process);
        if facts.executable.is_empty() {
            facts.executable = self.commands.get(&process).cloned().unwrap_or_default();
        }
        let lives = facts.executable_path.is_some();
        let ports = listeners::ports(&self.proc, process);
        let naming = self.naming(&facts);
        let runtime =
            runtime::detect(&facts.executable, &self.proc.join(process.to_string()).join("exe"));
        let described = Process {
            process,
            host: self.host.clone(),
            instance: format!("{}/{process}", self.host),
            resource: self.resource(&facts, process, &runtime),
            default_service: naming.service(ports.first().copied()),
            runtime,
            naming,
            served_ports: ports,
            search_domains: facts.search_domains,
        };
        let settled = !described.served_ports.is_empty();
        (described, settled, lives)
    }

    fn naming(&self, facts: &Facts) -> Naming {
        let fitting: Vec<&ServiceRule> =
            self.rules.iter().filter(|rule| rule.fits(facts)).collect();
        if let Some(rule) = fitting.iter().find(|rule| rule.port.is_none()) {
            return Naming::Fixed(rule.name.clone());
        }
        let rules: Arc<[PortRule]> = fitting
            .iter()
            .filter_map(|rule| Some(PortRule { port: rule.port?, name: rule.name.clone() }))
            .collect();
        match self.given_name(facts) {
            Some(name) => Naming::Given { name, rules },
            None => Naming::ByPort { executable: facts.executable.clone(), rules },
        }
    }

    /// The name from the process's environment.
    fn given_name(&self, facts: &Facts) -> Option<String> {
        let named = facts.otel_service_name.clone().or_else(|| {
            facts
                .otel_resource
                .iter()
                .find(|(key, _)| key == "service.name")
                .map(|(_, v)| v.clone())
        });
        if named.is_some() || facts.cgroup == self.own_cgroup {
            return named;
        }
        if let Some(id) = container_id(&facts.cgroup) {
            // Without a host name, a container runtime uses the beginning of the id.
            let inner = facts.inner_host.clone().filter(|host| !id.starts_with(host.as_str()));
            return Some(inner.unwrap_or_else(|| format!("{}-{}", facts.executable, &id[..12])));
        }
        systemd_unit(&facts.cgroup).map(str::to_owned)
    }

    fn resource(&self, facts: &Facts, process: u32, runtime: &Runtime) -> ResourceJson {
        let mut attributes: Vec<(String, AttributeValue)> = vec![
            ("host.name".into(), self.host.clone().into()),
            ("process.pid".into(), i64::from(process).into()),
            ("process.executable.name".into(), facts.executable.clone().into()),
        ];
        if let Some(path) = &facts.executable_path {
            let path = path.to_string_lossy().into_owned();
            attributes.push(("process.executable.path".into(), path.into()));
        }
        if let Some(name) = runtime.name() {
            attributes.push(("process.runtime.name".into(), name.into()));
        }
        if let Some(id) = container_id(&facts.cgroup) {
            attributes.push(("container.id".into(), id.into()));
        }
        if let Some(unit) = systemd_unit(&facts.cgroup) {
            attributes.push(("systemd.unit".into(), format!("{unit}.service").into()));
        }
        attributes.extend(facts.otel_resource.iter().map(|(k, v)| (k.clone(), v.clone().into())));
        let unit = systemd_unit(&facts.cgroup);
        let labels = labels::labels(&self.labels, facts, unit, &self.proc, process);
        attributes.retain(|(key, _)| !labels.contains_key(key));
        attributes.extend(labels);
        ResourceJson::from_attributes(attributes.iter().map(|(key, value)| (key.as_str(), value)))
    }
}

impl ProcessDirectory for Processes {
    fn describe(&mut self, process: u32) -> Arc<Process> {
        let times = match self.known.get(&process) {
            None => 0,
            Some(KnownProcess { unsettled: Some((looked, times)), process }) => {
                if LOOK_AGAIN.get(*times).is_none_or(|pause| looked.elapsed() < *pause) {
                    return Arc::clone(process);
                }
                times + 1
            }
            Some(KnownProcess { unsettled: None, process }) => return Arc::clone(process),
        };
        let (described, settled, lives) = self.examine(process);
        // A process that has ended keeps its name.
        if !lives && let Some(known) = self.known.get_mut(&process) {
            known.unsettled = None;
            return Arc::clone(&known.process);
        }
        let described = Arc::new(described);
        if self.known.len() >= MAX_PROCESSES {
            self.known.clear();
        }
        let unsettled = (!settled).then(|| (Instant::now(), times));
        self.known.insert(process, KnownProcess { process: Arc::clone(&described), unsettled });
        described
    }

    fn set_labels(&mut self, rules: &[LabelRule]) {
        self.labels = rules.to_vec();
        // Files and configuration may have changed, so each process is examined again at its next
        // span.
        self.known.clear();
    }

    fn seen_as(&mut self, process: u32, command: &str) {
        if self.commands.len() >= MAX_PROCESSES {
            self.commands.clear();
        }
        self.commands.insert(process, command.to_owned());
    }

    fn forget(&mut self, process: u32) {
        self.commands.remove(&process);
        self.known.remove(&process);
    }

    fn known(&self) -> usize {
        self.known.len().max(self.commands.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(rules: Vec<ServiceRule>) -> Processes {
        Processes::new("host-a".into(), rules)
    }

    #[test]
    fn names_come_from_configuration_then_environment_then_unit_then_command() {
        let rule = |name: &str, port, executable: Option<&str>| ServiceRule {
            name: name.into(),
            port,
            executable: executable.map(str::to_owned),
            command: None,
        };
        let mut directory =
            processes(vec![rule("catalog", Some(8102), None), rule("front", None, Some("nginx"))]);
        directory.own_cgroup = "/own".into();
        let mut facts =
            Facts { executable: "python3".into(), cgroup: "/own".into(), ..Facts::default() };
        let name = |d: &Processes, facts: &Facts, port| d.naming(facts).service(port);
        assert_eq!(name(&directory, &facts, Some(8102)), "catalog");
        assert_eq!(name(&directory, &facts, Some(9000)), "python3:9000");
        assert_eq!(name(&directory, &facts, None), "python3");
        facts.cgroup = "/system.slice/shop.service".into();
        assert_eq!(name(&directory, &facts, Some(9000)), "shop");
        facts.otel_service_name = Some("payments".into());
        assert_eq!(name(&directory, &facts, Some(9000)), "payments");
        assert_eq!(name(&directory, &facts, Some(8102)), "catalog");
        facts.executable = "nginx".into();
        assert_eq!(name(&directory, &facts, Some(9000)), "front");
    }

    #[test]
    fn a_listening_process_is_named_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let described = processes(Vec::new()).describe(std::process::id());
        assert!(described.default_service.contains(':'), "{}", described.default_service);
        assert!(described.service(Some(port)).ends_with(&format!(":{port}")));
        assert!(described.resource.as_str().contains("\"process.pid\":"));
    }
}
