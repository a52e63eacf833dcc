//! Applies the filter: what the kernel was told, and what is filtered here because the kernel does
//! not know it yet, or cannot.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use spanwise_capture_ebpf::kernel::{FilterError, Kernel};
use spanwise_capture_host::filter::{Filter, Namespace};
use spanwise_capture_protocols::process::Process;
use spanwise_capture_tracer::event::{Closed, Datagram, Endpoint, Event, LeftOut, Opened, Role};

/// Maximum unwanted connections that the kernel still reports. Beyond it, all are forgotten and
/// filtered again.
const MAX_CONNECTIONS: usize = 65_536;

/// The filter, and the connections and processes that it excludes. The agent's own server is always
/// excluded.
#[derive(Default)]
pub(crate) struct Applied {
    filter: Filter,
    server: Vec<SocketAddr>,
    /// Found when they accept on one of the server's endpoints.
    servers: HashSet<u32>,
    /// Processes all of whose services are excluded.
    processes: HashSet<u32>,
    /// Excluded connections of processes that also have other services, and of processes that the
    /// kernel learns about with the next [`Self::tell`].
    connections: HashMap<u64, Opened>,
    /// Those that are wanted, where there is a filter.
    wanted: HashSet<u64>,
    /// What the kernel does not know yet.
    untold: HashMap<u32, bool>,
    stale: bool,
}

impl Applied {
    pub(crate) fn new(filter: Filter, server: Vec<SocketAddr>) -> Self {
        Self { filter, server, stale: true, ..Self::default() }
    }

    pub(crate) const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Sets another filter. The kernel learns it with the next [`Self::tell`]. Returns the
    /// connections that were excluded, which may be wanted now.
    pub(crate) fn replace(&mut self, filter: Filter) -> Vec<Opened> {
        self.filter = filter;
        self.untold.extend(self.processes.drain().map(|process| (process, false)));
        self.stale = true;
        self.wanted.clear();
        self.connections.drain().map(|(_, opened)| opened).collect()
    }

    /// Makes sockets check the filter again after the next [`Self::tell`].
    pub(crate) const fn ask_again(&mut self) {
        self.stale = true;
    }

    /// Whether to ignore an event. `describe` returns the description of a process.
    pub(crate) fn covers(
        &mut self,
        event: &Event<'_>,
        describe: impl FnOnce(u32) -> Arc<Process>,
    ) -> bool {
        match event {
            Event::Opened(opened) => {
                let left_out = self.opened(opened, describe);
                if left_out {
                    if self.connections.len() >= MAX_CONNECTIONS {
                        self.connections.clear();
                    }
                    self.connections.insert(opened.connection, *opened);
                } else if !self.filter.is_empty() {
                    self.wants(opened.connection);
                }
                left_out
            }
            Event::Data(data) => self.leaves_out(data.connection),
            Event::Task(task) => task.connection != 0 && self.leaves_out(task.connection),
            Event::StreamName(name) => self.leaves_out(name.connection),
            Event::Records(records) => self.leaves_out(records.connection),
            Event::Datagram(datagram) => self.leaves_out_datagram(datagram, describe),
            Event::Closed(Closed { connection, .. })
            | Event::LeftOut(LeftOut { connection, .. }) => {
                self.wanted.remove(connection);
                self.connections.remove(connection).is_some()
            }
            Event::Thread(_) => false,
            Event::Exec(process) | Event::Exit(process) => {
                self.servers.remove(&process.process);
                if self.processes.remove(&process.process) {
                    self.untold.insert(process.process, false);
                }
                false
            }
        }
    }

    /// Whether nothing of a connection is to be seen. Where anything is left out, what is not
    /// known to be wanted is not.
    fn leaves_out(&self, connection: u64) -> bool {
        if self.filter.is_empty() {
            return !self.connections.is_empty() && self.connections.contains_key(&connection);
        }
        !self.wanted.contains(&connection)
    }

    fn wants(&mut self, connection: u64) {
        if self.wanted.len() >= 4 * MAX_CONNECTIONS {
            // Numbers grow: these are the oldest, and most likely of no connection any more.
            let before = connection.saturating_sub(2 * MAX_CONNECTIONS as u64);
            self.wanted.retain(|known| *known >= before);
        }
        self.wanted.insert(connection);
    }

    /// Whether a process is of interest, as far as is known: what is left out is not looked
    /// into.
    pub(crate) fn wants_process(
        &self,
        process: u32,
        describe: impl FnOnce(u32) -> Arc<Process>,
    ) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        if self.processes.contains(&process) || self.servers.contains(&process) {
            return false;
        }
        let namespaces = [&self.filter.only.namespaces, &self.filter.except.namespaces];
        let inode = || {
            let found = std::fs::metadata(format!("/proc/{process}/ns/net")).ok()?;
            u32::try_from(found.ino()).ok()
        };
        if namespaces.into_iter().any(|some| !some.is_empty())
            && inode().is_none_or(|inode| !self.filter.wants_namespace(inode))
        {
            return false;
        }
        !self.filter.names_services() || !self.leaves_out_all_of(&describe(process))
    }

    fn opened(&mut self, opened: &Opened, describe: impl FnOnce(u32) -> Arc<Process>) -> bool {
        let is_server = |endpoint: &Endpoint| {
            self.server.contains(&SocketAddr::new(endpoint.address, endpoint.port))
        };
        if is_server(&opened.local) {
            self.servers.insert(opened.process);
        }
        if self.servers.contains(&opened.process) || is_server(&opened.remote) {
            return true;
        }
        // The kernel may not have known the filter yet.
        let (port, or) = match opened.role {
            Role::Client => (opened.remote.port, None),
            Role::Server => (opened.local.port, None),
            Role::Unknown => (opened.local.port, Some(opened.remote.port)),
        };
        if !self.filter.wants_server_port(port, or)
            || !self.filter.wants_namespace(opened.network_namespace)
        {
            return true;
        }
        if !self.filter.names_services() {
            return false;
        }
        let process = describe(opened.process);
        let name = process.service(served_port(opened.role, opened.local.port));
        let wanted = self.filter.wants_service(&name);
        if !wanted && self.leaves_out_all_of(&process) && self.processes.insert(opened.process) {
            self.untold.insert(opened.process, true);
            self.stale = true;
        }
        !wanted
    }

    fn leaves_out_all_of(&self, process: &Process) -> bool {
        process.services().all(|name| !self.filter.wants_service(&name))
    }

    fn leaves_out_datagram(
        &self,
        datagram: &Datagram<'_>,
        describe: impl FnOnce(u32) -> Arc<Process>,
    ) -> bool {
        if self.servers.contains(&datagram.process) || self.processes.contains(&datagram.process) {
            return true;
        }
        let remote_port = datagram.remote.map_or(0, |remote| remote.port);
        if !self.filter.wants_ports(datagram.local.port, remote_port) {
            return true;
        }
        if !self.filter.wants_namespace(datagram.network_namespace) {
            return true;
        }
        self.filter.names_services()
            && !self.filter.wants_service(&describe(datagram.process).default_service)
    }

    /// Tells the kernel all changes. Call it about once a second, because after each change every
    /// socket checks the filter again. `describe` is called for excluded processes, which may serve
    /// something else now.
    ///
    /// # Errors
    /// If the kernel refuses. The next call retries.
    pub(crate) fn tell(
        &mut self,
        kernel: &Kernel,
        mut describe: impl FnMut(u32) -> Arc<Process>,
    ) -> Result<(), FilterError> {
        let wanted: Vec<u32> = self
            .processes
            .iter()
            .copied()
            .filter(|process| !self.leaves_out_all_of(&describe(*process)))
            .collect();
        for process in wanted {
            self.processes.remove(&process);
            self.untold.insert(process, false);
            self.stale = true;
        }
        for (process, ignored) in self.untold.drain() {
            // If the kernel's table is full, the process is filtered here.
            if let Err(error) = kernel.ignore_process(process, ignored)
                && ignored
            {
                tracing::debug!("process {process} is left out by the agent alone: {error}");
            }
        }
        // A named namespace may have been created.
        let named = self.filter.only.namespaces.iter().chain(&self.filter.except.namespaces);
        let names_any = named.into_iter().any(|found| matches!(found, Namespace::Named(_)));
        if self.stale || names_any {
            kernel.set_filter(&self.filter, self.stale)?;
            self.stale = false;
        }
        Ok(())
    }
}

/// The port that identifies a service: the local one if the process serves on it.
fn served_port(role: Role, local: u16) -> Option<u16> {
    (role == Role::Server).then_some(local)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_capture_protocols::process::{Naming, Runtime};
    use spanwise_capture_tracer::event::{Command, Data, Direction, Plaintext, ProcessEvent};
    use spanwise_model::ResourceJson;

    fn named(executable: &str, ports: &[u16]) -> Arc<Process> {
        let naming = Naming::ByPort { executable: executable.into(), rules: Arc::new([]) };
        Arc::new(Process {
            process: 10,
            host: "h".into(),
            instance: "h/10".into(),
            runtime: Runtime::Other(executable.into()),
            resource: ResourceJson::from_attributes(std::iter::empty()),
            default_service: naming.service(ports.first().copied()),
            served_ports: ports.to_vec(),
            search_domains: Vec::new(),
            naming,
        })
    }

    fn opened(connection: u64, role: Role, local: u16, remote: u16) -> Event<'static> {
        let end = |port| Endpoint { address: "127.0.0.1".parse().expect("an address"), port };
        Event::Opened(Opened {
            time_nano: 1,
            connection,
            process: 10,
            thread: 10,
            sleeps: 0,
            role,
            local: end(local),
            remote: end(remote),
            network_namespace: 1,
            connect_nano: None,
            command: Command::default(),
            first_seqs: None,
            unix: None,
        })
    }

    fn except(selectors: &str) -> Applied {
        let except = selectors.parse().expect("selectors");
        Applied::new(Filter { except, ..Filter::default() }, Vec::new())
    }

    #[test]
    fn the_server_and_connections_to_it_are_left_out() {
        let server: SocketAddr = "127.0.0.1:4317".parse().expect("an address");
        let mut applied = Applied::new(Filter::default(), vec![server]);
        let nobody = |_| -> Arc<Process> { panic!("nobody asks for names") };
        assert!(applied.covers(&opened(1, Role::Client, 5000, 4317), nobody));
        assert!(applied.covers(&opened(2, Role::Server, 4317, 5000), nobody));
        assert!(applied.covers(&opened(3, Role::Server, 7070, 5001), nobody), "the same process");
        let closed = Closed {
            time_nano: 2,
            connection: 1,
            reset: false,
            retransmits: 0,
            received_up_to: None,
        };
        assert!(applied.covers(&Event::Closed(closed), nobody));
        assert!(!applied.covers(&Event::Closed(closed), nobody), "forgotten");
        let exit = ProcessEvent { time_nano: 3, process: 10 };
        assert!(!applied.covers(&Event::Exit(exit), nobody));
        assert!(!applied.covers(&opened(4, Role::Server, 7070, 5001), nobody), "another process");
    }

    #[test]
    fn a_process_with_another_service_is_left_out_by_its_connections() {
        let mut applied = except("service=nginx:443");
        let both = named("nginx", &[80, 443]);
        assert!(!applied.covers(&opened(1, Role::Server, 80, 5000), |_| Arc::clone(&both)));
        assert!(applied.covers(&opened(2, Role::Server, 443, 5000), |_| Arc::clone(&both)));
        assert!(applied.processes.is_empty(), "the kernel must go on reporting port 80");
        let alone = named("nginx", &[443]);
        assert!(applied.covers(&opened(3, Role::Client, 5000, 9000), |_| alone));
        assert!(applied.processes.contains(&10));
        assert_eq!(applied.untold.get(&10), Some(&true));
    }

    fn decrypted(connection: u64) -> Event<'static> {
        Event::Data(Data {
            time_nano: 1,
            connection,
            process: 10,
            thread: 10,
            direction: Direction::Sent,
            seq: 1,
            length: 18,
            bytes: b"GET /x HTTP/1.1\r\n\r\n",
            srtt_micros: 0,
            retransmits: 0,
            plaintext: Some(Plaintext { offset: 0, placed: true }),
            unread: None,
            task: 0,
            parent_task: 0,
            current_span: 0,
            sleeps: 0,
        })
    }

    /// The kernel reports them until it knows the filter.
    #[test]
    fn what_a_filter_leaves_out_is_left_out_from_the_first_event_on() {
        let nobody = |_| -> Arc<Process> { panic!("nobody asks for names") };
        for (only, wanted) in [
            ("netns=1", true),
            ("netns=2", false),
            ("netns=of-this-name-is-none", false),
            ("port=80", true),
            ("port=5000", false),
            ("netns=1,port=80", true),
            ("netns=2,port=80", false),
        ] {
            let only = only.parse().expect("selectors");
            let mut applied = Applied::new(Filter { only, ..Filter::default() }, Vec::new());
            let of_server = opened(1, Role::Server, 80, 5000);
            assert_eq!(applied.covers(&of_server, nobody), !wanted, "{}", applied.filter());
            let of_client = opened(2, Role::Client, 5000, 80);
            assert_eq!(applied.covers(&of_client, nobody), !wanted, "{}", applied.filter());
            assert_eq!(applied.covers(&decrypted(1), nobody), !wanted);
            // Of a connection that nobody has announced, or that is over.
            assert!(applied.covers(&decrypted(9), nobody), "{}", applied.filter());
            let end = LeftOut { time_nano: 1, connection: 1 };
            assert_eq!(applied.covers(&Event::LeftOut(end), nobody), !wanted);
            assert!(applied.covers(&decrypted(1), nobody), "{}", applied.filter());
        }
        let mut all = Applied::new(Filter::default(), Vec::new());
        assert!(!all.covers(&decrypted(9), nobody));
    }

    #[test]
    fn processes_that_are_left_out_are_not_looked_into() {
        let own = std::process::id();
        let nobody = |_| -> Arc<Process> { panic!("nobody asks for names") };
        let inode = std::fs::metadata("/proc/self/ns/net").expect("a namespace").ino();
        let wants = |only: &str, except: &str| {
            let [only, except] = [only, except].map(|text| text.parse().expect("selectors"));
            Applied::new(Filter { only, except }, Vec::new()).wants_process(own, nobody)
        };
        assert!(wants("", "") && wants("port=80", "port=81"));
        assert!(wants(&format!("netns={inode}"), "netns=2"));
        assert!(!wants("netns=2", "") && !wants("", &format!("netns={inode}")));
        let by_name = except("service=wrk");
        assert!(!by_name.wants_process(own, |_| named("wrk", &[])));
        assert!(by_name.wants_process(own, |_| named("shop", &[])));
    }

    #[test]
    fn another_filter_takes_everything_back() {
        let mut applied = except("service=wrk");
        assert!(applied.covers(&opened(1, Role::Client, 5000, 80), |_| named("wrk", &[])));
        applied.untold.clear();
        let again = applied.replace(Filter::default());
        assert_eq!(again.iter().map(|opened| opened.connection).collect::<Vec<_>>(), [1]);
        assert_eq!(applied.untold.get(&10), Some(&false));
        let left_out = LeftOut { time_nano: 1, connection: 1 };
        assert!(!applied.covers(&Event::LeftOut(left_out), |_| named("wrk", &[])));
        assert!(!applied.covers(&opened(2, Role::Client, 5000, 80), |_| named("wrk", &[])));
    }
}
