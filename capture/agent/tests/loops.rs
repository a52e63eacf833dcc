//! Calls of event loops belong to the request that the loop read last: Node.js and nginx with many
//! concurrent requests.
//!
//! These tests load BPF programs, so they need the rights for that and fail without. They need
//! Node.js and nginx.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use spanwise_capture_agent::AgentConfig;
use spanwise_capture_ebpf::kernel::Hook;
use support::agents::{trace, with};
use support::links::{Links, links};
use support::programs::{Directory, Running, free_port, wait_for};

const CONCURRENCY: usize = 32;
const REQUESTS: usize = 1500;

fn node(arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loops/programs.js");
    let mut command = Command::new("node");
    command.arg(script).args(arguments).stdin(Stdio::null());
    command
}

/// The front: the arguments of `front` after its backend's port, or nginx.
#[derive(Clone, Copy)]
enum Front {
    Node([&'static str; 2]),
    Nginx,
}

impl Front {
    fn command(self, port: &str, behind: &str, directory: &Path) -> Command {
        match self {
            Self::Node([way, connections]) => node(&["front", port, behind, way, connections]),
            Self::Nginx => {
                let path = directory.join("nginx.conf");
                std::fs::write(&path, configuration(port, behind, directory)).expect("a file");
                let mut command = Command::new("nginx");
                command.arg("-p").arg(directory).arg("-c").arg(path);
                command
            }
        }
    }
}

fn configuration(port: &str, behind: &str, directory: &Path) -> String {
    let at = directory.display();
    format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;
         events {{ worker_connections 1024; }}
         http {{
             access_log off; keepalive_requests 100000;
             client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
             fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
             upstream behind {{ server 127.0.0.1:{behind}; keepalive 64; }}
             server {{
                 listen 127.0.0.1:{port};
                 location / {{
                     proxy_pass http://behind;
                     proxy_http_version 1.1;
                     proxy_set_header Connection \"\";
                 }}
             }}
         }}"
    )
}

fn run(hook: Hook, front: Front) -> Links {
    let directory = Directory::new("loops");
    let ports = [free_port(), free_port()];
    let [at, behind] = ports.map(|port| port.to_string());
    let config = AgentConfig { tls: false, ..with(hook) };
    let traced = trace(config, |_| {
        let _backend = Running(node(&["backend", &behind]).spawn().expect("node runs"));
        wait_for(ports[1]);
        let mut command = front.command(&at, &behind, directory.path());
        let _front = Running(command.spawn().expect("it runs"));
        wait_for(ports[0]);
        let load = |letter: &str, concurrency: usize, requests: usize| {
            let numbers = [concurrency.to_string(), requests.to_string()];
            let done = node(&["load", &at, letter, &numbers[0], &numbers[1]]).status();
            assert!(done.expect("node runs").success());
        };
        // The agent must first learn how the front responds.
        load("u", CONCURRENCY, 200);
        load("t", CONCURRENCY, REQUESTS);
    });
    assert_eq!(traced.counters.get("kernel_events_lost_ring_full"), Some(&0));
    let links = links(&traced, ports[0], ports[1]);
    println!("{hook}: {links:?}");
    assert_eq!(links.wrong, 0, "nothing is certain: {links:?}");
    links
}

/// Nearly all calls are linked, and correctly.
fn check(hook: Hook, front: Front, calls: usize) {
    let links = run(hook, front);
    assert!(links.calls * 100 >= REQUESTS * calls * 99, "{links:?}");
    assert!(links.guessed * 100 >= links.calls * 95, "{links:?}");
    assert!(links.guessed_wrong * 200 <= links.calls, "{links:?}");
}

#[test]
fn calls_of_node_follow_what_it_has_read() {
    check(Hook::SockLength, Front::Node(["sequential", "pooled"]), 3);
    check(Hook::SysExitBtf, Front::Node(["parallel", "pooled"]), 3);
}

#[test]
fn new_connections_belong_to_who_connected() {
    check(Hook::SockLength, Front::Node(["sequential", "fresh"]), 3);
    check(Hook::SysExitRaw, Front::Node(["sequential", "fresh"]), 3);
}

#[test]
fn calls_of_nginx_follow_what_it_has_read() {
    check(Hook::SockLength, Front::Nginx, 1);
}

/// With only two connections, a call is written when the response to another one has been read. The
/// front's responses reveal that its turns mean nothing.
#[test]
fn a_queue_of_calls_is_not_taken_for_turns() {
    let links = run(Hook::SockLength, Front::Node(["sequential", "queued"]));
    assert!(links.guessed_wrong * 20 <= links.calls, "{links:?}");
    assert!(links.ambiguous * 2 > links.calls, "{links:?}");
}

/// A timer's calls belong to no turn, unless the loop has not waited before.
#[test]
fn timers_are_in_no_turn() {
    let links = run(Hook::SockLength, Front::Node(["timers", "pooled"]));
    assert!(links.guessed_wrong * 20 <= links.calls, "{links:?}");
}
