//! Resources of instances.

use crate::attributes::Attributes;
use crate::random::Random;
use crate::services::SERVICES;

/// The address of an instance's pod.
pub(super) const fn address(service: usize, instance: usize) -> (usize, usize) {
    (service * 8 + instance, 10 + service)
}

/// A `Resource` as the SDK of an instance in Kubernetes sends it.
pub(crate) fn resource(service: usize, instance: usize, random: &mut Random) -> Vec<u8> {
    let about = &SERVICES[service];
    let (name, runtime) = (about.name, about.runtime);
    let (low, high) = address(service, instance);
    let (replica_set, suffix) = (random.next() >> 24, random.next() >> 44);
    let (mut encoded, mut scratch) = (Vec::new(), String::new());
    let mut to = Attributes::new(&mut encoded, 1, &mut scratch);
    to.text("service.name", name);
    to.text("service.namespace", "shop");
    to.format("service.version", format_args!("{}.{}.0", 1 + service % 4, service * 3 % 17));
    to.format("service.instance.id", format_args!("shop.{name}-{replica_set:010x}-{suffix:05x}"));
    to.text("deployment.environment.name", "production");
    to.text("k8s.namespace.name", "shop");
    to.text("k8s.deployment.name", name);
    to.format("k8s.pod.name", format_args!("{name}-{replica_set:010x}-{suffix:05x}"));
    to.format("k8s.pod.uid", format_args!("{:016x}{:016x}", random.next(), random.next()));
    to.format("k8s.pod.ip", format_args!("10.42.{high}.{low}"));
    to.format("k8s.node.name", format_args!("node-{:02}", (service + instance * 7) % 12));
    to.format("container.id", format_args!("{:016x}{:016x}", random.next(), random.next()));
    to.format("host.name", format_args!("{name}-{replica_set:010x}-{suffix:05x}"));
    to.text("cloud.provider", "aws");
    to.text("cloud.region", "eu-central-1");
    to.text(
        "cloud.availability_zone",
        ["eu-central-1a", "eu-central-1b", "eu-central-1c"][instance % 3],
    );
    to.int("process.pid", 1 + random.below(40));
    to.text("process.runtime.name", runtime.process().0);
    to.text("process.runtime.version", runtime.process().1);
    to.text("telemetry.sdk.language", runtime.language());
    to.text("telemetry.sdk.name", "opentelemetry");
    to.text("telemetry.sdk.version", runtime.sdk_version());
    encoded
}
