//! Names that container engines and Kubernetes give: of a Compose service, a container, a pod.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

/// Largest file of an engine that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The letters and digits of Kubernetes' random suffixes.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Programs that run beside every other one of their kind.
const SIDECARS: [&str; 5] = ["envoy", "pilot-agent", "linkerd2-proxy", "daprd", "istio-proxy"];

/// What is known of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Container {
    /// The name of its service: of Compose, or of the pod's owner.
    pub(super) service: Option<String>,
    /// Attributes for the resource.
    pub(super) attributes: Vec<(&'static str, String)>,
}

/// Reads what the engine says about a container. `host` is the host's root directory.
pub(super) fn read(host: &Path, id: &str) -> Container {
    let docker = host.join("var/lib/docker/containers").join(id).join("config.v2.json");
    if let Some(config) = json(&docker) {
        return docker_container(&config);
    }
    let tasks = host.join("run/containerd/io.containerd.runtime.v2.task");
    for namespace in ["k8s.io", "moby", "default"] {
        if let Some(config) = json(&tasks.join(namespace).join(id).join("config.json")) {
            return annotated(&config);
        }
    }
    Container::default()
}

fn json(path: &Path) -> Option<Value> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

fn docker_container(config: &Value) -> Container {
    let none = Value::Null;
    let labels = config.get("Config").and_then(|config| config.get("Labels")).unwrap_or(&none);
    let name = text(config, "Name").map(|name| name.trim_start_matches('/'));
    let mut attributes = Vec::new();
    let mut add = |key: &'static str, value: Option<&str>| {
        attributes.extend(value.map(|value| (key, value.to_owned())));
    };
    add("container.name", name);
    let project = text(labels, "com.docker.compose.project");
    add("docker.compose.project", project);
    let swarm = text(labels, "com.docker.swarm.service.name");
    let service = text(labels, "com.docker.compose.service").or(swarm).or(name);
    Container { service: service.map(str::to_owned), attributes }
}

/// A container that Kubernetes started through containerd.
fn annotated(config: &Value) -> Container {
    let none = Value::Null;
    let annotations = config.get("annotations").unwrap_or(&none);
    let get = |key: &str| text(annotations, &format!("io.kubernetes.cri.{key}"));
    let mut attributes = Vec::new();
    for (key, value) in [
        ("k8s.namespace.name", get("sandbox-namespace")),
        ("k8s.pod.name", get("sandbox-name")),
        ("k8s.container.name", get("container-name")),
    ] {
        attributes.extend(value.map(|value| (key, value.to_owned())));
    }
    let owner = get("sandbox-name").map(owner_of_pod);
    let container = get("container-name");
    // A pod's containers serve one purpose, except those that every pod has.
    let service = match (owner, container) {
        (Some(owner), Some(container)) if SIDECARS.contains(&container) => {
            Some(format!("{owner}-{container}"))
        }
        (owner, _) => owner.map(str::to_owned),
    };
    Container { service, attributes }
}

/// The name of a program in a pod whose name is all that is known.
pub(super) fn in_pod(pod: &str, executable: &str) -> String {
    let owner = owner_of_pod(pod);
    if SIDECARS.contains(&executable) { format!("{owner}-{executable}") } else { owner.to_owned() }
}

/// The workload of a pod: `orders` of `orders-7d9f8b6c5-x2x4z` (a deployment's), `orders-0` (a
/// stateful set's) and `orders-x2x4z` (a daemon set's or a job's).
pub(super) fn owner_of_pod(pod: &str) -> &str {
    let is_random = |text: &str| text.bytes().all(|byte| SUFFIX.contains(&byte));
    let Some((rest, last)) = pod.rsplit_once('-') else { return pod };
    if rest.is_empty() || last.is_empty() {
        return pod;
    }
    if last.len() <= 3 && last.bytes().all(|byte| byte.is_ascii_digit()) {
        return rest;
    }
    if last.len() != 5 || !is_random(last) {
        return pod;
    }
    match rest.rsplit_once('-') {
        // The hash of a replica set.
        Some((owner, hash))
            if !owner.is_empty() && (6..=10).contains(&hash.len()) && is_random(hash) =>
        {
            owner
        }
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_named_by_their_owners() {
        for (pod, owner) in [
            ("orders-7d9f8b6c5-x2x4z", "orders"),
            ("order-api-6b7f8d5c9d-kx5rz", "order-api"),
            ("postgres-0", "postgres"),
            ("node-exporter-x2x4z", "node-exporter"),
            ("orders", "orders"),
            ("web-server", "web-server"),
            ("shop-12345", "shop-12345"),
            ("-x2x4z", "-x2x4z"),
        ] {
            assert_eq!(owner_of_pod(pod), owner, "{pod}");
        }
        assert_eq!(in_pod("orders-7d9f8b6c5-x2x4z", "envoy"), "orders-envoy");
    }

    #[test]
    fn engines_tell_names() {
        let host = std::env::temp_dir().join(format!("spanwise-engines-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = host.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, text).expect("written");
        };
        write(
            "var/lib/docker/containers/a1/config.v2.json",
            r#"{"Name":"/shop-web-1","Config":{"Labels":{"com.docker.compose.service":"web",
                "com.docker.compose.project":"shop"}}}"#,
        );
        write("var/lib/docker/containers/a2/config.v2.json", r#"{"Name":"/cache","Config":{}}"#);
        write("var/lib/docker/containers/a3/config.v2.json", "{");
        write(
            "run/containerd/io.containerd.runtime.v2.task/k8s.io/b1/config.json",
            r#"{"annotations":{"io.kubernetes.cri.container-name":"api",
                "io.kubernetes.cri.sandbox-name":"orders-7d9f8b6c5-x2x4z",
                "io.kubernetes.cri.sandbox-namespace":"prod"}}"#,
        );
        let service = |id: &str| read(&host, id).service;
        assert_eq!(service("a1").as_deref(), Some("web"));
        assert_eq!(service("a2").as_deref(), Some("cache"));
        assert_eq!(service("a3"), None);
        assert_eq!(service("b1").as_deref(), Some("orders"));
        let attributes = read(&host, "b1").attributes;
        let pod = ("k8s.pod.name", "orders-7d9f8b6c5-x2x4z".to_owned());
        assert!(attributes.contains(&pod), "{attributes:?}");
        std::fs::remove_dir_all(&host).expect("removed");
    }
}
