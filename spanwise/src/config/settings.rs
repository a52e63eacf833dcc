//! The table of all settings: the one place that names them.

/// A setting: a dotted key, which is a path in the file and, in capitals with
/// underscores and `SPANWISE_` before it, a name in the environment.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) default: Default,
}

/// What holds where nobody said anything.
#[derive(Debug)]
pub(crate) enum Default {
    Text(&'static str),
    /// A directory below the current one; for root, whose services have no
    /// current directory of their own, a fixed one.
    DataDirectory,
    /// An empty list. In the file it is an array of texts; in the environment and
    /// among the flags one text, with commas between.
    NoneListed,
}

impl Default {
    pub(crate) fn text(&self) -> &'static str {
        match self {
            Self::Text(text) => text,
            Self::NoneListed => "",
            Self::DataDirectory if rustix::process::geteuid().is_root() => "/var/lib/spanwise",
            Self::DataDirectory => "./spanwise-data",
        }
    }
}

const fn setting(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    Setting { key, meaning, default: Default::Text(default) }
}

const fn listed(key: &'static str, meaning: &'static str) -> Setting {
    Setting { key, meaning, default: Default::NoneListed }
}

/// All of them but `[[agent.service]]` and `[[agent.label]]`, which are lists of tables. Those of one
/// table stand together, for printing.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        key: "data",
        meaning: "directory that holds all data",
        default: Default::DataDirectory,
    },
    setting("log", "info", "what to log: a level, or a filter such as info,spanwise_store=debug"),
    setting(
        "listen.address",
        "127.0.0.1",
        "address for the listeners that name only a port; nobody is asked for a password, so \
         open it only to networks that you trust",
    ),
    setting("listen.http", "7070", "UI and API: PORT or IP:PORT"),
    setting("listen.otlp_grpc", "4317", "agents, and OTLP over gRPC"),
    setting("listen.otlp_http", "4318", "OTLP over HTTP"),
    setting("listen.zipkin", "9411", "Zipkin's spans over HTTP; or off"),
    setting("listen.jaeger_grpc", "14250", "Jaeger's spans over gRPC; or off"),
    setting("listen.jaeger_http", "14268", "Jaeger's thrift over HTTP; or off"),
    setting("listen.jaeger_udp_compact", "6831", "Jaeger's compact thrift over UDP; or off"),
    setting("listen.jaeger_udp_binary", "6832", "Jaeger's binary thrift over UDP; or off"),
    setting(
        "listen.connections",
        "1024",
        "connections that a port may have at a time; those that ask nothing make room for others",
    ),
    setting(
        "listen.connections_per_address",
        "512",
        "the same of one address; raise it where many programs come through one proxy",
    ),
    setting("listen.header_time", "10s", "how long the header of a request may take to arrive"),
    setting("listen.body_time", "30s", "how long the body of a request may take to arrive"),
    setting("listen.idle_time", "5m", "how long a connection may ask nothing before it is closed"),
    setting("listen.answer_time", "30s", "how long an answer may wait for somebody to read it"),
    listed(
        "server.allowed_hosts",
        "names under which browsers and programs ask the server, such as traces.example.org or \
         *.example.org; those of loopback, and addresses that it listens on, need not be listed",
    ),
    listed(
        "server.allowed_origins",
        "web pages besides the UI that may ask the API, by their origin: \
         https://tools.example.org",
    ),
    listed(
        "receivers.allowed_origins",
        "web pages that may send spans, by their origin: https://shop.example.org; a * stands \
         for anything",
    ),
    setting(
        "receivers.span_attributes",
        "1024",
        "attributes of a span that are kept; it says how many are not",
    ),
    setting("receivers.span_events", "1024", "events of a span that are kept, likewise"),
    setting("receivers.span_links", "1024", "links of a span that are kept, likewise"),
    setting("retain.age", "7d", "spans older than this are forgotten; or unlimited"),
    setting("retain.bytes", "20GiB", "the oldest spans beyond this are forgotten; or unlimited"),
    setting(
        "store.url",
        "embedded",
        "where spans are kept: embedded, or clickhouse://USER:PASSWORD@HOST:8123/DATABASE",
    ),
    setting(
        "store.object_storage",
        "",
        "where files of spans are brought to: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, \
         az://CONTAINER/PREFIX; empty to keep them on this disk. Credentials, region and endpoint \
         come from the environment (AWS_…, GOOGLE_…, AZURE_…)",
    ),
    setting(
        "store.upload_after",
        "10m",
        "how long a file stays on this disk only; larger ones are fewer, and what waits is lost \
         with the disk",
    ),
    setting("store.cache_bytes", "10GiB", "disk for copies of what is in object storage"),
    setting(
        "store.object_storage_take_over",
        "",
        "the id of a server that is gone for good, whose files this one takes over",
    ),
    setting("store.spool_bytes", "4GiB", "disk for spans that wait for ClickHouse"),
    setting("store.recent_bytes", "128MiB", "memory for spans that are not yet in files"),
    setting("store.generation_bytes", "64MiB", "log size at which spans move to files"),
    setting("store.generation_age", "60s", "age of the log at which spans move to files"),
    setting("store.min_free_bytes", "256MiB", "disk space that is left to others"),
    setting(
        "assemble.timing",
        "on",
        "on or off: whether calls that nothing else gives to a request are linked by time alone, \
         as a guess that says how sure it is",
    ),
    setting("agent.server", "http://127.0.0.1:4317", "the server that `spanwise agent` reports to"),
    setting("agent.hook", "auto", "auto, sock-length, inet-fexit, sys-exit-btf or sys-exit-raw"),
    setting("agent.host", "", "this machine's name on spans; empty for its host name"),
    setting("agent.payload_bytes", "1024", "bytes of each message that are looked at, 64 to 1024"),
    setting(
        "agent.tls",
        "on",
        "on or off: whether to read in the clear what TLS libraries encrypt",
    ),
    setting(
        "agent.only",
        "",
        "what is traced, such as service=cart,service=web-*,port=8000-8099,netns=blue; empty for \
         everything",
    ),
    setting("agent.except", "", "what is not, written likewise"),
    setting(
        "agent.hide",
        "",
        "what the agent leaves out of spans besides secrets: keys (of Redis and Memcached), errors \
         (their texts), or both with a comma between",
    ),
    setting(
        "agent.sample",
        "100%",
        "share of requests to report that neither fail nor are slow; those always are",
    ),
    setting("agent.sample_slow", "1s", "what takes this long is slow"),
    setting(
        "agent.cpu_budget",
        "unlimited",
        "CPUs that the agent may take, such as 0.5; it reports less where it would take more, \
         and says so",
    ),
    setting(
        "agent.memory_budget",
        "unlimited",
        "memory that `spanwise agent` may take, at least 64MiB, likewise",
    ),
    setting("agent.ring_bytes", "8MiB", "memory between the kernel and the agent"),
    setting("agent.queue_bytes", "16MiB", "memory for spans while the server is away"),
    listed("agent.plugins", "files of WebAssembly plugins that read protocols of your own; a list"),
    setting("agent.record", "", "file to which kernel events are written too, for tests"),
];

/// Those that are taken over from a changed file without a restart.
pub(crate) const LIVE: &[&str] =
    &["agent.only", "agent.except", "agent.sample", "agent.sample_slow", LABEL];

/// Keys of one `[[agent.service]]`.
pub(crate) const SERVICE_KEYS: &[&str] = &["name", "port", "executable", "command"];
/// Its own key.
pub(crate) const SERVICE: &str = "agent.service";

/// Keys of one `[[agent.label]]`.
pub(crate) const LABEL_KEYS: &[&str] =
    &["executable", "command", "unit", "set", "from_environment", "from_file"];
/// Its own key.
pub(crate) const LABEL: &str = "agent.label";

/// Lists of tables, with the keys that each may have.
pub(crate) const LISTS: &[(&str, &[&str])] = &[(SERVICE, SERVICE_KEYS), (LABEL, LABEL_KEYS)];

/// Whether there is a setting of this key.
pub(crate) fn is_setting(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key == key)
}

/// The setting's name in the environment.
pub(crate) fn environment_name(key: &str) -> String {
    format!("SPANWISE_{}", key.replace('.', "_").to_uppercase())
}

/// The candidate nearest to `typed`, where any is near.
pub(crate) fn nearest<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned).unwrap_or_default();
    candidates
        .into_iter()
        .map(|candidate| {
            // A key in the wrong table is as likely as one letter wrong.
            let moved = usize::from(last(typed) == last(candidate));
            let far = distance(typed, candidate);
            (if moved == 1 { far.min(1) } else { far }, candidate)
        })
        .min()
        .filter(|(far, candidate)| *far <= (candidate.len() / 3).max(2))
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance. The inputs are keys: short.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (row, x) in a.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, y) in b.iter().enumerate() {
            let substituted = previous[column] + usize::from(x != *y);
            current.push(substituted.min(previous[column + 1] + 1).min(current[column] + 1));
        }
        previous = current;
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found_across_tables_and_typing_errors() {
        let keys = || SETTINGS.iter().map(|setting| setting.key);
        assert_eq!(nearest("listen.htpp", keys()), Some("listen.http"));
        assert_eq!(nearest("server.otlp_grpc", keys()), Some("listen.otlp_grpc"));
        assert_eq!(nearest("payload_bytes", keys()), Some("agent.payload_bytes"));
        assert_eq!(nearest("colour", keys()), None);
    }

    #[test]
    fn environment_names_are_unambiguous() {
        let mut names: Vec<_> = SETTINGS.iter().map(|s| environment_name(s.key)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len());
        assert_eq!(environment_name("listen.otlp_grpc"), "SPANWISE_LISTEN_OTLP_GRPC");
    }
}
