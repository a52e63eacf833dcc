//! Facts about a process from `/proc`. Every read may fail, because processes end. Unreadable facts
//! are missing.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum search domains of a resolver.
const MAX_SEARCH_DOMAINS: usize = 32;
/// Maximum arguments that are looked at.
const MAX_ARGUMENTS: usize = 256;
/// Maximum length of an argument that is looked at.
const MAX_ARGUMENT_CHARS: usize = 512;
/// Maximum bytes read of any file below `/proc`.
const FILE_BYTES: u64 = 256 * 1024;

/// The readable facts about one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// File name of the executable, without a ` (deleted)` mark.
    pub(super) executable: String,
    /// Its full path.
    pub(super) executable_path: Option<PathBuf>,
    /// The arguments, joined by spaces.
    pub(super) command_line: String,
    /// The first arguments, each cut to a reasonable length. Only one, if the process has replaced
    /// them by a title.
    pub(super) arguments: Vec<String>,
    /// The working directory, as the process sees it.
    pub(super) directory: Option<PathBuf>,
    /// The process that started it.
    pub(super) parent: Option<u32>,
    /// `SPRING_APPLICATION_NAME`.
    pub(super) spring_name: Option<String>,
    /// `npm_package_name`, which npm sets for what it runs.
    pub(super) package_name: Option<String>,
    /// `DJANGO_SETTINGS_MODULE`.
    pub(super) django_settings: Option<String>,
    /// The pod's name, in Kubernetes.
    pub(super) pod: Option<String>,
    /// `SPANWISE_SERVICE`, or `OTEL_SERVICE_NAME`.
    pub(super) service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`, as its keys and values.
    pub(super) otel_resource: Vec<(String, String)>,
    /// Control group path.
    pub(super) cgroup: String,
    /// Host name inside the process's own root.
    pub(super) inner_host: Option<String>,
    /// The search domains of its resolver.
    pub(super) search_domains: Vec<String>,
}

impl Facts {
    /// Reads the facts about a process below `proc` (`/proc`).
    pub(super) fn read(proc: &Path, process: u32) -> Self {
        let directory = proc.join(process.to_string());
        let executable_path = fs::read_link(directory.join("exe")).ok();
        let executable = executable_path
            .as_deref()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
            .unwrap_or_default();
        let command_line = read_bytes(&directory.join("cmdline")).unwrap_or_default();
        let command = read_text(&directory.join("comm")).unwrap_or_default();
        let executable = called(&executable, command.trim_end(), &command_line);
        let environment = read_bytes(&directory.join("environ")).unwrap_or_default();
        let in_kubernetes = variable(&environment, "KUBERNETES_SERVICE_HOST").is_some();
        let pod = ["POD_NAME", "HOSTNAME"].into_iter().find_map(|key| variable(&environment, key));
        let arguments = arguments(&command_line);
        Self {
            executable,
            executable_path,
            command_line: {
                let text = String::from_utf8_lossy(&command_line).replace('\0', " ");
                text.trim_end().chars().take(1024).collect()
            },
            arguments,
            directory: fs::read_link(directory.join("cwd")).ok(),
            parent: read_text(&directory.join("stat")).and_then(|stat| parent(&stat)),
            spring_name: variable(&environment, "SPRING_APPLICATION_NAME"),
            package_name: variable(&environment, "npm_package_name"),
            django_settings: variable(&environment, "DJANGO_SETTINGS_MODULE"),
            pod: pod.filter(|_| in_kubernetes),
            service_name: variable(&environment, "SPANWISE_SERVICE")
                .or_else(|| variable(&environment, "OTEL_SERVICE_NAME")),
            otel_resource: variable(&environment, "OTEL_RESOURCE_ATTRIBUTES")
                .map(|list| resource_attributes(&list))
                .unwrap_or_default(),
            cgroup: read_text(&directory.join("cgroup"))
                .map(|text| cgroup_path(&text).to_owned())
                .unwrap_or_default(),
            search_domains: read_text(&directory.join("root/etc/resolv.conf"))
                .map(|text| search_domains(&text))
                .unwrap_or_default(),
            inner_host: read_text(&directory.join("root/etc/hostname"))
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty()),
        }
    }
}

/// The name of a program. It is the name by which it was started, if kernel and command line agree
/// on it (one executable may have several names: Debian's redis-server is a link). Otherwise it is
/// the executable's name.
fn called(executable: &str, command: &str, command_line: &[u8]) -> String {
    let first = command_line.split(|byte| matches!(byte, 0 | b' ')).next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let name = first.trim_end_matches(':').rsplit('/').next().unwrap_or_default();
    // The kernel keeps 15 bytes of a name.
    let agrees = !command.is_empty() && name.starts_with(command);
    if executable.is_empty() {
        command
    } else if agrees {
        name
    } else {
        executable
    }
    .to_owned()
}

/// The arguments of a command line. Titles have no zeros between words, and many after them.
fn arguments(command_line: &[u8]) -> Vec<String> {
    let mut end = command_line.len();
    while end > 0 && command_line[end - 1] == 0 {
        end -= 1;
    }
    let argument = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.chars().take(MAX_ARGUMENT_CHARS).collect::<String>()
    };
    let words = command_line[..end].split(|byte| *byte == 0).take(MAX_ARGUMENTS);
    words.map(argument).collect()
}

/// The parent in `/proc/PID/stat`. The name before it may contain anything.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn read_bytes(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn read_text(path: &Path) -> Option<String> {
    read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// An environment variable with which a process was started; nothing if it is empty, or if the
/// process is gone or access is denied.
pub fn environment_variable(process: u32, name: &str) -> Option<String> {
    variable(&read_bytes(Path::new(&format!("/proc/{process}/environ")))?, name)
}

/// A variable in a NUL-separated environment block; nothing if it is empty.
fn variable(environment: &[u8], name: &str) -> Option<String> {
    environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        .map(|value| String::from_utf8_lossy(value).trim().to_owned())
        .find(|value| !value.is_empty())
}

/// The keys and values of `OTEL_RESOURCE_ATTRIBUTES` (OpenTelemetry resource
/// SDK specification: `key=value` pairs, separated by commas, percent-encoded).
fn resource_attributes(list: &str) -> Vec<(String, String)> {
    list.split(',')
        .filter_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            let key = key.trim();
            (!key.is_empty()).then(|| (key.to_owned(), percent_decode(value.trim())))
        })
        .collect()
}

/// The domains of `resolv.conf` (resolv.conf(5)). The last list counts.
fn search_domains(text: &str) -> Vec<String> {
    let lines = text.lines().rev().map(str::split_ascii_whitespace);
    let list = lines.into_iter().find_map(|mut words| {
        matches!(words.next(), Some("search" | "domain")).then(|| words.collect::<Vec<_>>())
    });
    let domain = |word: &str| word.trim_matches('.').to_ascii_lowercase();
    let domains = list.unwrap_or_default().into_iter().map(domain);
    domains.filter(|domain| !domain.is_empty()).take(MAX_SEARCH_DOMAINS).collect()
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The path in `/proc/PID/cgroup`: that of the unified hierarchy if there is one, else systemd's
/// own, else the first.
fn cgroup_path(text: &str) -> &str {
    let path = |line: &'_ str| line.splitn(3, ':').nth(2).map(str::len);
    let find = |wanted: fn(&str) -> bool| text.lines().find(|line| wanted(line));
    find(|line| line.starts_with("0::") && line.len() > "0::/".len())
        .or_else(|| find(|line| line.contains(":name=systemd:")))
        .or_else(|| find(|_| true))
        .and_then(|line| path(line).map(|length| &line[line.len() - length..]))
        .unwrap_or_default()
}

/// The systemd unit at the end of a control group path, without `.service`. A user's own service
/// manager (`user@1000.service`) does not count.
pub(super) fn systemd_unit(cgroup: &str) -> Option<&str> {
    cgroup
        .rsplit('/')
        .filter_map(|part| part.strip_suffix(".service"))
        .find(|unit| !unit.is_empty() && !unit.starts_with("user@"))
}

/// The container id in a control group path (Docker, containerd, CRI-O, Podman; cgroup v1 and v2):
/// 64 hexadecimal digits in the last part that contains them.
pub(super) fn container_id(cgroup: &str) -> Option<&str> {
    cgroup.rsplit('/').find_map(|part| {
        let name = part.strip_suffix(".scope").unwrap_or(part);
        let id = name.rsplit(['-', ':']).next()?;
        (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_containers_are_read_from_control_group_paths() {
        let id = "ab".repeat(32);
        assert_eq!(systemd_unit("/system.slice/nginx.service"), Some("nginx"));
        assert_eq!(systemd_unit("/user.slice/user-1000.slice/user@1000.service/app.slice"), None);
        assert_eq!(systemd_unit("/user.slice/session-1.scope"), None);
        for path in [
            format!("/system.slice/docker-{id}.scope"),
            format!("/docker/{id}"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
            format!("/machine.slice/libpod-{id}.scope/container"),
        ] {
            assert_eq!(container_id(&path), Some(id.as_str()), "{path}");
        }
        assert_eq!(container_id("/system.slice/nginx.service"), None);
    }

    #[test]
    fn the_last_list_of_search_domains_counts() {
        let text = "search a.example\nnameserver 10.0.0.1\nsearch x.svc.Cluster.local. local\n";
        assert_eq!(search_domains(text), ["x.svc.cluster.local", "local"]);
        assert!(search_domains("nameserver 10.0.0.1\n#search a\nsearch .").is_empty());
    }

    #[test]
    fn the_right_hierarchy_counts() {
        assert_eq!(cgroup_path("0::/system.slice/a.service\n"), "/system.slice/a.service");
        assert_eq!(
            cgroup_path("2:cpu:/x\n1:name=systemd:/system.slice/b.service\n0::/\n"),
            "/system.slice/b.service"
        );
        assert_eq!(cgroup_path(""), "");
    }

    #[test]
    fn environment_values_are_found_whole() {
        let block = b"XOTEL_SERVICE_NAME=no\0OTEL_SERVICE_NAME= cart \0A=b\0";
        assert_eq!(variable(block, "OTEL_SERVICE_NAME").as_deref(), Some("cart"));
        assert_eq!(variable(b"OTEL_SERVICE_NAME=\0", "OTEL_SERVICE_NAME"), None);
        assert_eq!(
            resource_attributes("team=a%20b, zone=z1,broken,=x"),
            [("team".to_owned(), "a b".to_owned()), ("zone".to_owned(), "z1".to_owned())]
        );
        assert_eq!(percent_decode("50%"), "50%");
    }

    #[test]
    fn a_program_is_called_by_the_name_it_was_started_by() {
        let redis = b"redis-server 127.0.0.1:8109\0";
        assert_eq!(called("redis-check-rdb", "redis-server", redis), "redis-server");
        assert_eq!(called("python3.11", "gunicorn", b"/usr/bin/python3\0-m"), "python3.11");
        assert_eq!(called("postgres", "postgres", b"postgres: shop shop idle\0"), "postgres");
        assert_eq!(called("", "curl", b""), "curl");
        let long = b"/opt/a-very-long-program-name\0";
        assert_eq!(called("x", "a-very-long-pro", long), "a-very-long-program-name");
    }

    #[test]
    fn arguments_and_parents_are_read() {
        assert_eq!(arguments(b"a\0b c\0\0d\0"), ["a", "b c", "", "d"]);
        assert_eq!(arguments(b"nginx: worker process\0\0\0\0"), ["nginx: worker process"]);
        assert_eq!(parent("12 (a b) c) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let facts = Facts::read(Path::new("/proc"), std::process::id());
        assert!(!facts.executable.is_empty());
        assert!(facts.command_line.contains(&facts.executable));
        assert_eq!(Facts::read(Path::new("/proc"), u32::MAX).executable, "");
    }
}
