//! The table of all settings: one row each, with type, default, flag and description. A new setting
//! is a row here, and a field of the table's struct wherever it is used.

use std::net::IpAddr;
use std::path::PathBuf;

use spanwise_capture_agent::filter::Selectors;
use spanwise_capture_agent::{Hidden, HookChoice};

use super::StoreAt;
use super::settings::Default::{DataDirectory, Text};
use super::settings::{Setting, SettingType, flag, tables};
use super::units::{
    Buckets, ByteSize, Cores, Count, Limit, List, ListenAddress, MemoryBudget, OptionalEndpoint,
    OptionalListen, OptionalText, PositiveTime, Rules, Secret, Share, SizeBetween, Switch,
    TimeSpan,
};

tables! {
    /// Settings outside of tables.
    root: RootSettings {
        data: PathBuf = DataDirectory, flag("data", "DIRECTORY"),
            "directory that holds all data";
        log: String = Text("info"), flag("log", "FILTER"),
            "what to log: a level, or a filter such as info,spanwise_store=debug";
        key_secret_file: OptionalText = Text(""), flag("key-secret-file", "FILE"),
            "file of the secret with which business keys are hashed ([[key]] with hash = true); \
             `spanwise key secret` makes one";
    }

    /// The server's addresses, except for receivers.
    listen: ListenSettings {
        address: IpAddr = Text("127.0.0.1"), flag("listen", "IP"),
            "address for the listeners that name only a port; 0.0.0.0 opens them to other \
             machines: nobody is asked for a password, so do that only in networks that you trust";
        http: ListenAddress = Text("7070"), flag("http", "ADDRESS"),
            "UI and API: PORT or IP:PORT";
        tempo: OptionalListen = Text("off"), flag("tempo", "ADDRESS"),
            "Grafana Tempo's query API by HTTP and gRPC: PORT or IP:PORT (Tempo's own is 3200), or \
             off; it is at /tempo of the UI's port as well, by HTTP";
        jaeger_query: OptionalListen = Text("off"), flag("jaeger-query", "ADDRESS"),
            "Jaeger's query API by HTTP, at /jaeger of the UI's port anyway; 16686 where it takes \
             a Jaeger's place; or off";
        jaeger_storage: OptionalListen = Text("off"), flag("jaeger-storage", "ADDRESS"),
            "the same by gRPC, and the remote storage of a Jaeger, which reads and writes here; \
             16685 for instance; or off";
    }

    /// Limits of all ports.
    listen: PortSettings {
        connections: Count<1, 1_048_576> = Text("1024"), None,
            "connections that a port may have at a time; those that ask nothing make room for \
             others";
        connections_per_address: Count<1, 1_048_576> = Text("512"), None,
            "the same of one address; raise it where many programs come through one proxy";
        header_time: PositiveTime = Text("10s"), None,
            "how long the header of a request may take to arrive";
        body_time: PositiveTime = Text("30s"), None,
            "how long the body of a request may take to arrive";
        idle_time: PositiveTime = Text("5m"), None,
            "how long a connection may ask nothing before it is closed";
        answer_time: PositiveTime = Text("30s"), None,
            "how long an answer may wait for somebody to read it";
    }

    /// Who may use the API.
    server: ServerSettings {
        allowed_hosts: List = Text(""), None,
            "names under which browsers and programs ask the server, such as traces.example.org \
             or *.example.org; those of loopback, and addresses that it listens on, need not be \
             listed";
        allowed_origins: List = Text(""), None,
            "web pages besides the UI that may ask the API, by their origin: \
             https://tools.example.org";
    }

    /// Who may send spans, and which parts of a span are stored.
    receivers: ReceiverSettings {
        allowed_origins: List = Text(""), None,
            "web pages that may send spans, by their origin: https://shop.example.org; a * \
             stands for anything";
        span_attributes: Count<1, 65_536> = Text("1024"), None,
            "attributes of a span that are kept; it says how many are not";
        span_events: Count<1, 65_536> = Text("1024"), None,
            "events of a span that are kept, likewise";
        span_links: Count<1, 65_536> = Text("1024"), None,
            "links of a span that are kept, likewise";
        jvm_settings: OptionalText = Text(""), None,
            "a file of what JVM agents are told, such as their sampling; it is read again when it has \
             changed";
    }

    /// Retention.
    retain: RetainSettings {
        age: Limit<TimeSpan> = Text("7d"), flag("retain-age", "TIME"),
            "spans older than this are forgotten; or unlimited";
        bytes: Limit<ByteSize> = Text("20GiB"), flag("retain-bytes", "SIZE"),
            "the oldest spans beyond this are forgotten; or unlimited";
    }

    /// The store.
    store: StoreSettings {
        url: Secret<StoreAt> = Text("embedded"), flag("store", "URL"),
            "where spans are kept: embedded (in the data directory), or \
             clickhouse://USER:PASSWORD@HOST:8123/DATABASE, or clickhouses:// for TLS";
        object_storage: OptionalText = Text(""), flag("object-storage", "URL"),
            "where files of spans are brought to: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, \
             az://CONTAINER/PREFIX; empty to keep them on this disk. Credentials, region and \
             endpoint come from the environment (AWS_…, GOOGLE_…, AZURE_…)";
        upload_after: TimeSpan = Text("10m"), None,
            "how long a file stays on this disk only; larger ones are fewer, and what waits is \
             lost with the disk";
        cache_bytes: ByteSize = Text("10GiB"), None,
            "disk for copies of what is in object storage";
        object_storage_take_over: OptionalText = Text(""), flag("object-storage-take-over", "ID"),
            "the id of a server that is gone for good, whose files this one takes over";
        spool_bytes: ByteSize = Text("4GiB"), None,
            "disk for spans that wait for ClickHouse";
        recent_bytes: ByteSize = Text("128MiB"), None,
            "memory for spans that are not yet in files";
        generation_bytes: ByteSize = Text("64MiB"), None,
            "log size at which spans move to files";
        generation_age: TimeSpan = Text("60s"), None,
            "age of the log at which spans move to files";
        min_free_bytes: ByteSize = Text("256MiB"), None,
            "disk space that is left to others";
    }

    /// Assembly.
    assemble: AssembleSettings {
        timing: Switch = Text("on"), flag("timing", "ON|OFF"),
            "on or off: whether calls that nothing else gives to a request are linked by time \
             alone, as a guess that says how sure it is";
    }

    /// Figures of chains.
    analyze: AnalyzeSettings {
        rollups: Switch = Text("off"), flag("rollups", "ON|OFF"),
            "on or off: whether figures of chains are kept for each minute and hour, so that \
             answers about days need not read all spans; off removes them";
    }

    /// Rules that the server watches.
    watch: WatchSettings {
        rules: Rules = Text(""), None,
            "rules that the server watches as spans come, such as [\"errors * > 5%\", \"new-edge\"]; \
             `spanwise watch --help` has their forms";
        window: PositiveTime = Text("5m"), None,
            "the time that a rule is about, up to now";
        before: PositiveTime = Text("1h"), None,
            "the time before it, which calls and errors are compared with; so long the server learns \
             after its start";
        every: PositiveTime = Text("15s"), None,
            "how often rules are evaluated; an alert begins when two evaluations in a row find it";
        webhook: OptionalText = Text(""), None,
            "where what begins and ends is posted, as JSON: http://HOST:PORT/PATH";
        webhook_tries: Count<1, 1000> = Text("8"), None,
            "how often a request to it is tried, with growing pauses, before its alerts are given up";
    }

    /// Figures of spans for Prometheus.
    metrics: MetricsSettings {
        spans: Switch = Text("on"), flag("span-metrics", "ON|OFF"),
            "on or off: whether calls, errors and durations of all spans, and of calls between \
             services, are counted for Prometheus, at /metrics/spans of the UI's port";
        series: Count<16, 1_000_000> = Text("5000"), None,
            "label sets that are counted of spans, and as many of calls between services; what \
             does not fit is counted as `other`, and counters say how much";
        span_buckets: Buckets = Text("0.002,0.004,0.008,0.016,0.032,0.064,0.128,0.256,0.512,\
                                      1.024,2.048,4.096,8.192,16.384"), None,
            "bounds of the classic buckets of spans, in seconds";
        edge_buckets: Buckets = Text("0.1,0.2,0.4,0.8,1.6,3.2,6.4,12.8"), None,
            "bounds of the classic buckets of calls between services, in seconds";
    }

    /// The agent.
    agent: AgentSettings {
        server: String = Text("http://127.0.0.1:4317"), flag("server", "URL"),
            "the server that `spanwise agent` reports to";
        hook: HookChoice = Text("auto"), flag("hook", "HOOK"),
            "hooks to use: auto, sock-length, inet-fexit, sys-exit-btf or sys-exit-raw";
        host: OptionalText = Text(""), flag("host", "NAME"),
            "this machine's name on spans; empty for its host name";
        payload_bytes: SizeBetween<64, 1024> = Text("1024"), flag("payload-bytes", "SIZE"),
            "bytes of each message that are looked at, 64 to 1024";
        tls: Switch = Text("on"), flag("tls", "ON|OFF"),
            "on or off: whether to read in the clear what TLS libraries encrypt";
        hide: Hidden = Text(""), flag("hide", "WHAT"),
            "what the agent leaves out of spans besides secrets: keys (of Redis and Memcached), \
             errors (their texts), or both with a comma between";
        only: Selectors = Text(""), flag("only", "SELECTORS"),
            "what is traced, such as service=cart,service=web-*,port=8000-8099,netns=blue; empty \
             for everything";
        except: Selectors = Text(""), flag("except", "SELECTORS"),
            "what is not traced, written likewise";
        sample: Share = Text("100%"), flag("sample", "SHARE"),
            "share of requests to report that neither fail nor are slow; those always are";
        sample_slow: TimeSpan = Text("1s"), flag("sample-slow", "TIME"),
            "what takes this long is slow";
        cpu_budget: Limit<Cores> = Text("unlimited"), flag("cpu-budget", "CPUS"),
            "CPUs that the agent may take, such as 0.5; it reports less where it would take \
             more, and says so";
        memory_budget: Limit<MemoryBudget> = Text("unlimited"), flag("memory-budget", "SIZE"),
            "memory that `spanwise agent` may take, at least 64MiB, likewise";
        ring_bytes: SizeBetween<65_536, 1_073_741_824> = Text("8MiB"), None,
            "memory between the kernel and the agent";
        queue_bytes: ByteSize = Text("16MiB"), None,
            "memory for spans while the server is away";
        plugins: List = Text(""), flag("plugin", "FILE"),
            "files of WebAssembly plugins that read protocols of your own; a list";
        native_dirs: List = Text(""), flag("native-dir", "DIRECTORY"),
            "directories to which programs record with the C library; spans are taken from them \
             while the programs run; a list";
        logs_to: OptionalEndpoint = Text(""), flag("logs-to", "URL"),
            "the OTLP endpoint, such as http://127.0.0.1:4318, for log records in those \
             directories; Spanwise keeps spans only";
        metrics_to: OptionalEndpoint = Text(""), flag("metrics-to", "URL"),
            "the OTLP endpoint for metrics in those directories, and of this host";
        host_metrics: Switch = Text("off"), flag("host-metrics", "ON|OFF"),
            "on or off: whether CPU, memory, network and waiting times of this host and its \
             processes are sent to agent.metrics_to";
        host_metrics_every: PositiveTime = Text("10s"), None,
            "how often";
        record: OptionalText = Text(""), flag("record", "FILE"),
            "file to which kernel events are written too, for tests";
    }
}

/// Settings that are applied from a changed file without a restart.
pub(crate) const LIVE: &[&str] =
    &["agent.only", "agent.except", "agent.sample", "agent.sample_slow", LABEL];

/// Keys of one `[[agent.service]]`.
const SERVICE_KEYS: &[&str] = &["name", "port", "executable", "command"];
/// The key of the list.
pub(crate) const SERVICE: &str = "agent.service";

/// Keys of one `[[agent.label]]`.
const LABEL_KEYS: &[&str] =
    &["executable", "command", "unit", "set", "from_environment", "from_file"];
/// The key of the list.
pub(crate) const LABEL: &str = "agent.label";

/// Keys of one `[[key]]`.
const KEY_KEYS: &[&str] = &["name", "place", "service", "hash"];
/// The key of the list.
pub(crate) const KEY: &str = "key";

/// Lists of tables, with the allowed keys.
pub(crate) const LISTS: &[(&str, &[&str])] =
    &[(SERVICE, SERVICE_KEYS), (LABEL, LABEL_KEYS), (KEY, KEY_KEYS)];
