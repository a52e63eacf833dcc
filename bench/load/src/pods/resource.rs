//! The resource of a pod: the attributes from resource detectors and the Collector's
//! `k8sattributes` processor.

use crate::attributes::Attributes;
use crate::ids::{Hex, Time, Uuid};
use crate::random::Random;
use crate::runtimes::Runtime;
use crate::services::SERVICES;

const NAMESPACES: [&str; 5] = ["shop", "payments", "platform", "search-and-discovery", "data"];
const TEAMS: [&str; 7] =
    ["storefront", "checkout", "money", "supply", "discovery", "trust", "core"];
const TYPES: [&str; 3] = ["m7i.2xlarge", "m7g.4xlarge", "c7i.4xlarge"];
const NODES: u64 = 40;
/// Start of the pods in the last roll-outs.
const STARTED: i64 = 1_763_000_000_000_000_000;

/// The namespace of a service.
pub(super) const fn namespace(service: usize) -> &'static str {
    NAMESPACES[service * 3 % NAMESPACES.len()]
}

/// The name of a pod.
pub(super) fn pod_name(service: usize, pod: usize) -> String {
    let name = SERVICES[service].name;
    let seed = service as u64;
    format!("{name}-{}-{}", Hex(seed, 10), Hex(1000 + seed * 100 + pod as u64, 5))
}

/// The address of a pod.
pub(super) const fn address(service: usize, pod: usize) -> [usize; 4] {
    [10, 128 + service % 6, (service * 37 + pod * 11) % 250, 4 + (service * 53 + pod * 29) % 240]
}

/// A `Resource`.
pub(crate) fn resource(service: usize, pod: usize, random: &mut Random) -> Vec<u8> {
    let about = &SERVICES[service];
    let (name, runtime, own) = (about.name, about.runtime, service as u64);
    let pod_name = pod_name(service, pod);
    let (namespace, team) = (namespace(service), TEAMS[service % TEAMS.len()]);
    let node = (own * 7 + pod as u64 * 13) % NODES;
    let zone = ["eu-central-1a", "eu-central-1b", "eu-central-1c"][node as usize % 3];
    let [a, b, c, d] = address(service, pod);
    let version =
        format!("{}.{}.{}-{}", 1 + service % 4, service * 3 % 17, service % 7, Hex(own, 8));
    let started = STARTED + (own as i64 * 7_919 + pod as i64 * 61) * 1_000_000_000;
    let (mut encoded, mut scratch) = (Vec::new(), String::new());
    let mut to = Attributes::new(&mut encoded, 1, &mut scratch);
    to.text("service.name", name);
    to.text("service.namespace", namespace);
    to.text("service.version", &version);
    to.format("service.instance.id", format_args!("{}", Uuid(random.next())));
    to.text("deployment.environment.name", "production");
    to.text("k8s.cluster.name", "prod-eu-central-1-blue");
    to.format("k8s.cluster.uid", format_args!("{}", Uuid(1)));
    to.text("k8s.namespace.name", namespace);
    to.text("k8s.deployment.name", name);
    to.format("k8s.replicaset.name", format_args!("{name}-{}", Hex(own, 10)));
    to.text("k8s.pod.name", &pod_name);
    to.format("k8s.pod.uid", format_args!("{}", Uuid(random.next())));
    to.format("k8s.pod.ip", format_args!("{a}.{b}.{c}.{d}"));
    to.format("k8s.pod.start_time", format_args!("{}", Time(started)));
    to.text("k8s.pod.label.app.kubernetes.io/name", name);
    to.text("k8s.pod.label.app.kubernetes.io/part-of", namespace);
    to.text("k8s.pod.label.app.kubernetes.io/managed-by", "argo-cd");
    to.text("k8s.pod.label.app.kubernetes.io/version", &version);
    to.format("k8s.pod.label.pod-template-hash", format_args!("{}", Hex(own, 10)));
    to.text("k8s.pod.label.team", team);
    to.format("k8s.pod.annotation.checksum/config", format_args!("{}", Hex(own + 500, 64)));
    to.text("k8s.container.name", name);
    to.int("k8s.container.restart_count", random.skewed(4));
    to.format(
        "k8s.node.name",
        format_args!("ip-10-0-{}-{}.eu-central-1.compute.internal", node % 3, 17 + node * 5),
    );
    to.format("k8s.node.uid", format_args!("{}", Uuid(9_000 + node)));
    to.format("container.id", format_args!("{}", Hex(random.next(), 64)));
    to.format("container.image.name", format_args!("registry.company.example/{team}/{name}"));
    to.text("container.image.tag", &version);
    to.format("container.image.id", format_args!("sha256:{}", Hex(own + 700, 64)));
    to.text("container.runtime", "containerd");
    to.text("host.name", &pod_name);
    to.format("host.id", format_args!("i-{}", Hex(9_100 + node, 17)));
    to.text("host.type", TYPES[node as usize % TYPES.len()]);
    to.text("host.arch", "amd64");
    to.text("os.type", "linux");
    to.text("cloud.provider", "aws");
    to.text("cloud.region", "eu-central-1");
    to.text("cloud.availability_zone", zone);
    to.text("cloud.account.id", "481516234299");
    to.int("process.pid", 1 + random.below(40));
    to.text("process.executable.name", executable(runtime));
    to.text("process.runtime.name", runtime.process().0);
    to.text("process.runtime.version", runtime.process().1);
    to.text("telemetry.sdk.language", runtime.language());
    to.text("telemetry.sdk.name", "opentelemetry");
    to.text("telemetry.sdk.version", runtime.sdk_version());
    encoded
}

const fn executable(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Go => "service",
        Runtime::Java => "java",
        Runtime::Node => "node",
        Runtime::Python => "python3.12",
    }
}
