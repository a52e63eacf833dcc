//! Describes processes: service name, runtime and resource, from `/proc` and the operator's rules.
//! Nothing is requested over a network.

mod container;
mod facts;
mod labels;
mod listeners;
mod program;
mod runtime;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::AHashMap;
use container::Container;
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
/// Processes above a process that are looked at.
const MAX_ANCESTORS: usize = 8;
/// How often a process without a port is examined because it was seen to serve.
const MAX_SERVING_LOOKS: u8 = 4;
/// Time between two such looks.
const SERVING_PAUSE: Duration = Duration::from_millis(200);

/// Whether a process is a copy of its parent: forked, perhaps with a title, or started again by the
/// same arguments or by Python's multiprocessing.
fn is_copy(child: &Facts, parent: &Facts) -> bool {
    let same_file = child.executable_path.is_some()
        && child.executable_path == parent.executable_path
        && child.cgroup == parent.cgroup;
    let is_shell = ["sh", "bash", "dash", "zsh", "busybox"].contains(&child.executable.as_str());
    if !same_file || is_shell {
        return false;
    }
    let titled = |facts: &Facts| facts.arguments.len() == 1 && facts.arguments[0].contains(' ');
    let is_helper = child.arguments.iter().any(|argument| {
        argument == "--multiprocessing-fork" || argument.starts_with("from multiprocessing.")
    });
    child.arguments == parent.arguments || titled(child) || is_helper
}

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
    /// How often it was examined because it was seen to serve.
    serving_looks: u8,
    /// It has been seen to serve since it was last examined.
    serves: bool,
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
        let leader = self.leader(&facts);
        let mut ports = listeners::ports(&self.proc, process);
        if let Some((leader, _)) = &leader
            && ports.is_empty()
        {
            ports = listeners::ports(&self.proc, *leader);
        }
        let (program, program_facts) = match &leader {
            Some((leader, facts)) => (*leader, facts),
            None => (process, &facts),
        };
        let root = self.proc.join(program.to_string()).join("root");
        let program = program::name(program_facts, &root);
        let container = container_id(&facts.cgroup)
            .filter(|_| facts.cgroup != self.own_cgroup)
            .map(|id| container::read(&self.proc.join("1/root"), id))
            .unwrap_or_default();
        let naming = self.naming(&facts, program, &container, &ports);
        let runtime =
            runtime::detect(&facts.executable, &self.proc.join(process.to_string()).join("exe"));
        let described = Process {
            process,
            host: self.host.clone(),
            instance: format!("{}/{process}", self.host),
            resource: self.resource(&facts, process, &runtime, &container),
            default_service: naming.service(ports.first().copied()),
            runtime,
            naming,
            served_ports: ports,
            search_domains: facts.search_domains,
        };
        let settled = !described.served_ports.is_empty();
        (described, settled, lives)
    }

    /// The first process of a program that has copied itself: children that were forked, or started
    /// by the same arguments, are the same service. `None` if it is the process itself.
    fn leader(&self, facts: &Facts) -> Option<(u32, Facts)> {
        let mut leader: Option<(u32, Facts)> = None;
        for _ in 0..MAX_ANCESTORS {
            let child = leader.as_ref().map_or(facts, |(_, facts)| facts);
            let Some(parent) = child.parent.filter(|parent| *parent > 1) else { break };
            let parent_facts = Facts::read(&self.proc, parent);
            if !is_copy(child, &parent_facts) {
                break;
            }
            leader = Some((parent, parent_facts));
        }
        leader
    }

    fn naming(
        &self,
        facts: &Facts,
        program: Option<String>,
        container: &Container,
        ports: &[u16],
    ) -> Naming {
        let fitting: Vec<&ServiceRule> =
            self.rules.iter().filter(|rule| rule.fits(facts)).collect();
        if let Some(rule) = fitting.iter().find(|rule| rule.port.is_none()) {
            return Naming::Fixed(rule.name.clone());
        }
        let rules: Arc<[PortRule]> = fitting
            .iter()
            .filter_map(|rule| Some(PortRule { port: rule.port?, name: rule.name.clone() }))
            .collect();
        let given = self.given_name(facts, program, container);
        let executable = facts.executable.clone();
        match (given, ports.first()) {
            (Some(name), _) => Naming::Given { name, rules },
            // One process is one service, on whatever port.
            (None, Some(first)) => Naming::Given { name: format!("{executable}:{first}"), rules },
            (None, None) => Naming::ByPort { executable, rules },
        }
    }

    /// The name from the process's environment, or from what it runs.
    fn given_name(
        &self,
        facts: &Facts,
        program: Option<String>,
        container: &Container,
    ) -> Option<String> {
        let named = program::told_to_jvm_agents(facts);
        let named = named.or_else(|| facts.service_name.clone()).or_else(|| {
            facts
                .otel_resource
                .iter()
                .find(|(key, _)| key == "service.name")
                .map(|(_, v)| v.clone())
        });
        if named.is_some() {
            return named;
        }
        if facts.cgroup == self.own_cgroup {
            return program;
        }
        if let Some(id) = container_id(&facts.cgroup) {
            if let Some(service) = &container.service {
                return Some(service.clone());
            }
            // Without a host name, a container runtime uses the beginning of the id. A pod on the
            // host's network has the host's name.
            let tells = |host: &String| !id.starts_with(host.as_str()) && *host != self.host;
            if let Some(pod) = facts.pod.as_ref().filter(|pod| tells(pod)) {
                return Some(container::in_pod(pod, &facts.executable));
            }
            let in_pods = facts.cgroup.contains("kubepods");
            let inner = facts.inner_host.as_ref().filter(|host| tells(host));
            return match inner {
                Some(pod) if in_pods => Some(container::in_pod(pod, &facts.executable)),
                Some(host) => Some(host.clone()),
                None => program.or_else(|| Some(format!("{}-{}", facts.executable, &id[..12]))),
            };
        }
        systemd_unit(&facts.cgroup).map(str::to_owned).or(program)
    }

    fn resource(
        &self,
        facts: &Facts,
        process: u32,
        runtime: &Runtime,
        container: &Container,
    ) -> ResourceJson {
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
        let of_container = container.attributes.iter();
        attributes
            .extend(of_container.map(|(key, value)| ((*key).to_owned(), value.clone().into())));
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
        let (times, serving_looks) = match self.known.get(&process) {
            None => (0, 0),
            Some(KnownProcess {
                unsettled: Some((looked, times)),
                process,
                serving_looks,
                serves,
            }) => {
                let passed = looked.elapsed();
                let serves =
                    *serves && *serving_looks < MAX_SERVING_LOOKS && passed >= SERVING_PAUSE;
                if serves {
                    (*times, serving_looks + 1)
                } else if LOOK_AGAIN.get(*times).is_none_or(|pause| passed < *pause) {
                    return Arc::clone(process);
                } else {
                    (times + 1, *serving_looks)
                }
            }
            Some(KnownProcess { unsettled: None, process, .. }) => return Arc::clone(process),
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
        let known = Arc::clone(&described);
        let known = KnownProcess { process: known, unsettled, serving_looks, serves: false };
        self.known.insert(process, known);
        described
    }

    fn serves(&mut self, process: u32) {
        if let Some(known) = self.known.get_mut(&process) {
            known.serves = known.unsettled.is_some();
        }
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
        let name = |d: &Processes, facts: &Facts, port| {
            d.naming(facts, None, &Container::default(), &[]).service(port)
        };
        assert_eq!(name(&directory, &facts, Some(8102)), "catalog");
        assert_eq!(name(&directory, &facts, Some(9000)), "python3:9000");
        assert_eq!(name(&directory, &facts, None), "python3");
        facts.cgroup = "/system.slice/shop.service".into();
        assert_eq!(name(&directory, &facts, Some(9000)), "shop");
        facts.service_name = Some("payments".into());
        assert_eq!(name(&directory, &facts, Some(9000)), "payments");
        assert_eq!(name(&directory, &facts, Some(8102)), "catalog");
        facts.executable = "nginx".into();
        assert_eq!(name(&directory, &facts, Some(9000)), "front");
    }

    #[test]
    fn a_process_is_one_service_on_all_its_ports() {
        let listener = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let both = [listener(), listener()];
        let ports = both.each_ref().map(|one| one.local_addr().expect("bound").port());
        let described = processes(Vec::new()).describe(std::process::id());
        let name = &described.default_service;
        assert!(name.contains(':'), "{name}");
        assert_eq!(ports.map(|port| described.service(Some(port))), [name.clone(), name.clone()]);
        assert!(described.resource.as_str().contains("\"process.pid\":"));
    }

    /// A server that forks two workers, and starts one by multiprocessing. Says their numbers.
    const SERVER: &str = "
import multiprocessing, os, socket, sys, time

def work():
    time.sleep(60)

if __name__ == '__main__':
    servers = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)]
    forked = os.fork()
    if forked == 0:
        for server in servers:
            server.close()
        inner = os.fork()
        if inner:
            print(inner, flush=True)
        time.sleep(60)
    multiprocessing.set_start_method('spawn')
    spawned = multiprocessing.Process(target=work, daemon=True)
    spawned.start()
    print(forked, flush=True)
    print(spawned.pid, flush=True)
    sys.stdin.read()
    spawned.kill()
";

    #[test]
    fn forked_and_spawned_children_are_the_service_of_their_parent() {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};
        let folder = std::env::temp_dir().join(format!("spanwise-stock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("created");
        std::fs::write(folder.join("stock.py"), SERVER).expect("written");
        let mut server = Command::new("python3")
            .arg("stock.py")
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let lines = BufReader::new(server.stdout.take().expect("piped")).lines();
        let children: Vec<u32> =
            lines.take(3).map(|line| line.expect("text").parse().expect("a number")).collect();
        let mut directory = processes(Vec::new());
        let of = |directory: &mut Processes, process| directory.describe(process);
        let parent = of(&mut directory, server.id());
        let described = children.iter().map(|child| of(&mut directory, *child));
        let names: Vec<String> = described.map(|child| child.default_service.clone()).collect();
        let ports = parent.served_ports.clone();
        for child in &children {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(*child as i32).expect("a process"),
                rustix::process::Signal::KILL,
            );
        }
        drop(server.stdin.take());
        let _ = server.wait();
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(ports.len(), 2);
        assert_eq!((parent.default_service.as_str(), children.len()), ("stock", 3));
        assert_eq!(names, ["stock"; 3]);
        assert_eq!(parent.service(Some(ports[1])), "stock");
    }

    #[test]
    fn only_copies_are_the_same_service() {
        let facts = |arguments: &[&str]| Facts {
            executable: "python3".into(),
            executable_path: Some("/usr/bin/python3".into()),
            arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
            ..Facts::default()
        };
        let parent = facts(&["python3", "a.py"]);
        let spawned = "from multiprocessing.spawn import spawn_main; spawn_main()";
        assert!(is_copy(&parent, &parent));
        assert!(is_copy(&facts(&["gunicorn: worker [shop]"]), &parent));
        assert!(is_copy(&facts(&["python3", "-c", spawned, "--multiprocessing-fork"]), &parent));
        assert!(!is_copy(&facts(&["python3", "b.py"]), &parent));
        let elsewhere = Facts { cgroup: "/other".into(), ..parent.clone() };
        assert!(!is_copy(&elsewhere, &parent));
        let shell = |text: &str| Facts { executable: "bash".into(), ..facts(&["bash", text]) };
        assert!(!is_copy(&shell("a"), &shell("a")));
    }
}
