//! What was typed. Values that are settings stay text here, checked but not
//! interpreted: [`crate::config`] lays them over the environment and the file.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{ByteSize, Cores, ListenAddress, OptionalListen, Share, Switch, TimeSpan};
use crate::terminal::Zone;

/// Traces microservices without touching them.
#[derive(Debug, Parser)]
#[command(name = "spanwise", version, max_term_width = 100, subcommand_required = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Trace this machine: server and agent in one process
    Up(UpFlags),
    /// Take spans from agents and from OpenTelemetry, Zipkin and Jaeger clients, store them,
    /// answer questions
    Server(ServerFlags),
    /// Watch this machine's processes from the kernel and report to a server
    Agent(AgentFlags),
    /// Tell what this kernel allows the agent, and which hooks it will use
    ///
    /// Ends with 0 where the agent can run, with 1 where it cannot.
    Doctor(DoctorFlags),
    /// Have a Java virtual machine tell what its threads hand to each other
    ///
    /// Optional: what it is good for, docs/tasks.md says.
    #[command(subcommand)]
    Java(JavaCommand),
    /// Print the settings in force, and where each came from
    Config(ConfigFlags),
    /// Bring files of spans to a running server
    ///
    /// What a file holds is seen from its content: OTLP JSON or protobuf, as the
    /// OpenTelemetry Collector's file exporter writes it, also compressed with gzip
    /// or zstd. Whatever was interrupted is finished by the same command again; no
    /// span is stored twice.
    Import(ImportFlags),
    /// Print one trace as a tree
    Trace(TraceFlags),
    /// List traces: the newest, the slowest, those with most errors, the largest
    Search(SearchFlags),
    /// List the services seen
    Services(ServicesFlags),
    /// Run a read-only SQL statement over the table `spans`
    Sql(SqlFlags),
    /// Tell how the server and its agent are doing
    Status(StatusFlags),
}

/// Settings from the command line: key and text.
pub(crate) type Typed = Vec<(&'static str, String)>;

fn put(into: &mut Typed, key: &'static str, value: &Option<String>) {
    if let Some(value) = value {
        into.push((key, value.clone()));
    }
}

/// A parser that keeps the text, once it has been seen to be a `T`.
fn checked<T>(text: &str) -> Result<String, String>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse::<T>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub(crate) struct CommonSettings {
    /// What to log: a level, or tracing-subscriber's filter syntax [setting: log]
    #[arg(long, value_name = "FILTER", help_heading = "Settings")]
    log: Option<String>,
}

/// Settings of the server.
#[derive(Debug, Args)]
pub(crate) struct ServerSettings {
    /// Directory that holds all data [setting: data]
    #[arg(long, value_name = "DIRECTORY", help_heading = "Settings")]
    data: Option<String>,
    /// Where spans are kept: embedded (in the data directory), or
    /// clickhouse://USER:PASSWORD@HOST:8123/DATABASE, or clickhouses:// for TLS
    /// [setting: store.url]
    // Not checked here: the parser's errors repeat what was typed, and it may
    // hold a password.
    #[arg(long, value_name = "URL", help_heading = "Settings")]
    store: Option<String>,
    /// Bring files of spans to s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or
    /// az://CONTAINER/PREFIX; credentials come from the environment
    /// [setting: store.object_storage]
    #[arg(long, value_name = "URL", help_heading = "Settings")]
    object_storage: Option<String>,
    /// Take over the files of a server that is gone for good
    /// [setting: store.object_storage_take_over]
    #[arg(long, value_name = "ID", help_heading = "Settings")]
    object_storage_take_over: Option<String>,
    /// Address for the listeners that name only a port; 0.0.0.0 opens them to other
    /// machines [setting: listen.address, default 127.0.0.1]
    #[arg(long, value_name = "IP", value_parser = checked::<IpAddr>, help_heading = "Settings")]
    listen: Option<String>,
    /// UI and API: PORT or IP:PORT [setting: listen.http, default 7070]
    #[arg(long, value_name = "ADDRESS", value_parser = checked::<ListenAddress>, help_heading = "Settings")]
    http: Option<String>,
    /// Agents and OTLP over gRPC [setting: listen.otlp_grpc, default 4317]
    #[arg(long, value_name = "ADDRESS", value_parser = checked::<ListenAddress>, help_heading = "Settings")]
    otlp_grpc: Option<String>,
    /// OTLP over HTTP [setting: listen.otlp_http, default 4318]
    #[arg(long, value_name = "ADDRESS", value_parser = checked::<ListenAddress>, help_heading = "Settings")]
    otlp_http: Option<String>,
    /// Zipkin's spans over HTTP; or off [setting: listen.zipkin, default 9411]
    #[arg(long, value_name = "ADDRESS", value_parser = checked::<OptionalListen>, help_heading = "Settings")]
    zipkin: Option<String>,
    /// Jaeger's spans over gRPC; or off [setting: listen.jaeger_grpc, default 14250]
    #[arg(long, value_name = "ADDRESS", value_parser = checked::<OptionalListen>, help_heading = "Settings")]
    jaeger_grpc: Option<String>,
    /// Jaeger's thrift over HTTP; or off [setting: listen.jaeger_http, default 14268]
    #[arg(long, value_name = "ADDRESS", value_parser = checked::<OptionalListen>, help_heading = "Settings")]
    jaeger_http: Option<String>,
    /// Jaeger's compact thrift over UDP; or off [setting: listen.jaeger_udp_compact,
    /// default 6831]
    #[arg(long, value_name = "ADDRESS", value_parser = checked::<OptionalListen>, help_heading = "Settings")]
    jaeger_udp_compact: Option<String>,
    /// Jaeger's binary thrift over UDP; or off [setting: listen.jaeger_udp_binary,
    /// default 6832]
    #[arg(long, value_name = "ADDRESS", value_parser = checked::<OptionalListen>, help_heading = "Settings")]
    jaeger_udp_binary: Option<String>,
    /// Forget spans older than this, for example 7d, or `unlimited` [setting: retain.age]
    #[arg(long, value_name = "TIME", value_parser = checked::<crate::config::Limit<TimeSpan>>, help_heading = "Settings")]
    retain_age: Option<String>,
    /// Forget the oldest spans beyond this size on disk, for example 20GiB, or
    /// `unlimited` [setting: retain.bytes]
    #[arg(long, value_name = "SIZE", value_parser = checked::<crate::config::Limit<ByteSize>>, help_heading = "Settings")]
    retain_bytes: Option<String>,
    /// Whether to link by time alone what nothing else links: on or off
    /// [setting: assemble.timing]
    #[arg(long, value_name = "ON|OFF", value_parser = checked::<Switch>, help_heading = "Settings")]
    timing: Option<String>,
}

impl ServerSettings {
    fn put(&self, into: &mut Typed) {
        put(into, "data", &self.data);
        put(into, "store.url", &self.store);
        put(into, "store.object_storage", &self.object_storage);
        put(into, "store.object_storage_take_over", &self.object_storage_take_over);
        put(into, "listen.address", &self.listen);
        put(into, "listen.http", &self.http);
        put(into, "listen.otlp_grpc", &self.otlp_grpc);
        put(into, "listen.otlp_http", &self.otlp_http);
        put(into, "listen.zipkin", &self.zipkin);
        put(into, "listen.jaeger_grpc", &self.jaeger_grpc);
        put(into, "listen.jaeger_http", &self.jaeger_http);
        put(into, "listen.jaeger_udp_compact", &self.jaeger_udp_compact);
        put(into, "listen.jaeger_udp_binary", &self.jaeger_udp_binary);
        put(into, "retain.age", &self.retain_age);
        put(into, "retain.bytes", &self.retain_bytes);
        put(into, "assemble.timing", &self.timing);
    }
}

/// Settings of the agent.
#[derive(Debug, Args)]
pub(crate) struct AgentSettings {
    /// Hooks: auto, sock-length, inet-fexit, sys-exit-btf or sys-exit-raw [setting: agent.hook]
    #[arg(long, value_name = "HOOK", value_parser = checked::<spanwise_capture_agent::HookChoice>, help_heading = "Settings")]
    hook: Option<String>,
    /// This machine's name on spans [setting: agent.host, default: its host name]
    #[arg(long, value_name = "NAME", help_heading = "Settings")]
    host: Option<String>,
    /// Bytes of each message that are looked at, at most 1024 [setting: agent.payload_bytes]
    #[arg(long, value_name = "SIZE", value_parser = checked::<ByteSize>, help_heading = "Settings")]
    payload_bytes: Option<String>,
    /// Whether to read in the clear what TLS libraries encrypt: on or off [setting: agent.tls]
    #[arg(long, value_name = "ON|OFF", value_parser = checked::<Switch>, help_heading = "Settings")]
    tls: Option<String>,
    /// Leave out of spans besides secrets: keys (of Redis and Memcached), errors (their texts),
    /// separated by commas [setting: agent.hide]
    #[arg(long, value_name = "WHAT", value_parser = checked::<spanwise_capture_agent::Hidden>, help_heading = "Settings")]
    hide: Option<String>,
    /// Trace only this: service=NAME (with one * for any text), port=N, port=FIRST-LAST,
    /// netns=NAME, separated by commas [setting: agent.only]
    #[arg(long, value_name = "SELECTORS", value_parser = checked::<spanwise_capture_agent::filter::Selectors>, help_heading = "Settings")]
    only: Option<String>,
    /// Do not trace this, written likewise [setting: agent.except]
    #[arg(long, value_name = "SELECTORS", value_parser = checked::<spanwise_capture_agent::filter::Selectors>, help_heading = "Settings")]
    except: Option<String>,
    /// Of requests that neither fail nor are slow, report this share, for example
    /// 10% [setting: agent.sample]
    #[arg(long, value_name = "SHARE", value_parser = checked::<Share>, help_heading = "Settings")]
    sample: Option<String>,
    /// What takes this long is slow [setting: agent.sample_slow]
    #[arg(long, value_name = "TIME", value_parser = checked::<TimeSpan>, help_heading = "Settings")]
    sample_slow: Option<String>,
    /// Report less rather than take more CPUs than this, for example 0.5 [setting:
    /// agent.cpu_budget]
    #[arg(long, value_name = "CPUS", value_parser = checked::<crate::config::Limit<Cores>>, help_heading = "Settings")]
    cpu_budget: Option<String>,
    /// Report less rather than take more memory than this [setting: agent.memory_budget]
    #[arg(long, value_name = "SIZE", value_parser = checked::<crate::config::Limit<ByteSize>>, help_heading = "Settings")]
    memory_budget: Option<String>,
    /// A WebAssembly plugin that reads a protocol of your own; may be given several times
    /// [setting: agent.plugins]
    #[arg(long = "plugin", value_name = "FILE", value_delimiter = ',', help_heading = "Settings")]
    plugins: Vec<String>,
    /// Also write every kernel event to this file, for replay in tests [setting: agent.record]
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    record: Option<String>,
}

impl AgentSettings {
    fn put(&self, into: &mut Typed) {
        put(into, "agent.hook", &self.hook);
        put(into, "agent.host", &self.host);
        put(into, "agent.payload_bytes", &self.payload_bytes);
        put(into, "agent.tls", &self.tls);
        put(into, "agent.hide", &self.hide);
        put(into, "agent.only", &self.only);
        put(into, "agent.except", &self.except);
        put(into, "agent.sample", &self.sample);
        put(into, "agent.sample_slow", &self.sample_slow);
        put(into, "agent.cpu_budget", &self.cpu_budget);
        put(into, "agent.memory_budget", &self.memory_budget);
        put(into, "agent.record", &self.record);
        if !self.plugins.is_empty() {
            into.push(("agent.plugins", self.plugins.join(",")));
        }
    }
}

macro_rules! settings_flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* } $($extra:tt)*) => {
        $(#[$doc])*
        #[derive(Debug, Args)]
        pub(crate) struct $name {
            /// Configuration file [default: ./spanwise.toml, else /etc/spanwise/spanwise.toml,
            /// where there is one]
            #[arg(long, value_name = "FILE", env = "SPANWISE_CONFIG")]
            pub(crate) config: Option<PathBuf>,
            #[command(flatten)]
            common: CommonSettings,
            $($(#[$field_doc])* $field: $type,)*
            $($extra)*
        }
    };
}

settings_flags!(
    /// Flags of `up`.
    UpFlags {
        #[command(flatten)]
        server: ServerSettings,
        #[command(flatten)]
        agent: AgentSettings,
    }
);

settings_flags!(
    /// Flags of `server`.
    ServerFlags {
        #[command(flatten)]
        server: ServerSettings,
    }
);

settings_flags!(
    /// Flags of `agent`.
    AgentFlags {
        /// The server to report to [setting: agent.server, default http://127.0.0.1:4317]
        #[arg(long, value_name = "URL", help_heading = "Settings")]
        server: Option<String>,
        #[command(flatten)]
        agent: AgentSettings,
    }
);

settings_flags!(
    /// Flags of `config`: those of every command that runs something.
    ConfigFlags {
        /// The server that `spanwise agent` reports to [setting: agent.server]
        #[arg(long = "server", value_name = "URL", help_heading = "Settings")]
        agent_server: Option<String>,
        #[command(flatten)]
        server: ServerSettings,
        #[command(flatten)]
        agent: AgentSettings,
    }
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
);

impl UpFlags {
    pub(crate) fn layer(&self) -> Typed {
        let mut typed = Typed::new();
        put(&mut typed, "log", &self.common.log);
        self.server.put(&mut typed);
        self.agent.put(&mut typed);
        typed
    }
}

impl ServerFlags {
    pub(crate) fn layer(&self) -> Typed {
        let mut typed = Typed::new();
        put(&mut typed, "log", &self.common.log);
        self.server.put(&mut typed);
        typed
    }
}

impl AgentFlags {
    pub(crate) fn layer(&self) -> Typed {
        let mut typed = Typed::new();
        put(&mut typed, "log", &self.common.log);
        put(&mut typed, "agent.server", &self.server);
        self.agent.put(&mut typed);
        typed
    }
}

impl ConfigFlags {
    pub(crate) fn layer(&self) -> Typed {
        let mut typed = Typed::new();
        put(&mut typed, "log", &self.common.log);
        put(&mut typed, "agent.server", &self.agent_server);
        self.server.put(&mut typed);
        self.agent.put(&mut typed);
        typed
    }
}

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do with the helper for Java.
#[derive(Debug, Subcommand)]
pub(crate) enum JavaCommand {
    /// Write the helper to standard output, for java -javaagent:FILE
    Helper,
    /// Bring the helper to a virtual machine that runs
    Attach {
        /// Its process
        #[arg(value_name = "PID")]
        process: u32,
    },
}

/// Flags of every command that asks a running server.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerUrl {
    /// The server to ask
    #[arg(long, value_name = "URL", env = "SPANWISE_URL", default_value = "http://127.0.0.1:7070")]
    pub(crate) url: String,
    /// Print the server's JSON as it came
    #[arg(long)]
    pub(crate) json: bool,
    /// Show times in UTC, not in the zone of this machine
    #[arg(long)]
    pub(crate) utc: bool,
}

impl ServerUrl {
    /// The zone of times that are shown, and of those that are typed without one.
    pub(crate) const fn zone(&self) -> Zone {
        if self.utc { Zone::Utc } else { Zone::Local }
    }
}

/// Flags of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportFlags {
    /// The files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The server's port for agents and OTLP over gRPC
    #[arg(
        long,
        value_name = "URL",
        env = "SPANWISE_AGENT_SERVER",
        default_value = "http://127.0.0.1:4317"
    )]
    pub(crate) server: String,
    /// Bring also what the server was brought before, for example because it
    /// has been forgotten since; what is still there is not stored twice
    #[arg(long)]
    pub(crate) again: bool,
}

/// Flags of `trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceFlags {
    /// Trace id (32 hexadecimal digits, or 16 of one of 64 bits), or the id of any span of
    /// the trace (16), as a log or a header has it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Flags of `search`.
#[derive(Debug, Args)]
pub(crate) struct SearchFlags {
    /// Traces in which this service took part
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// With a span of this name, for example `GET /cart`
    #[arg(long, value_name = "NAME")]
    pub(crate) operation: Option<String>,
    /// With a span at least this long, for example 200us, 10ms or 1.5s
    #[arg(long, value_name = "TIME")]
    pub(crate) min_duration: Option<String>,
    /// With a span at most this long
    #[arg(long, value_name = "TIME")]
    pub(crate) max_duration: Option<String>,
    /// With a span of this status
    #[arg(long, value_parser = ["error", "ok"])]
    pub(crate) status: Option<String>,
    /// With a span whose attribute, or its resource's, is like this; may be given several
    /// times: KEY=VALUE, KEY!=VALUE, KEY>NUMBER (>=, <, <=), KEY~PART, KEY (there is one),
    /// !KEY (there is none)
    #[arg(long = "attribute", value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) attributes: Vec<String>,
    /// Which of all that fit come first: the newest, the slowest, those with most errors or
    /// with most spans
    #[arg(long, value_name = "ORDER", default_value = "newest", value_parser = ["newest", "slowest", "errors", "largest"])]
    pub(crate) sort: String,
    /// Begun after this: -15m, -2h, 2026-11-26T09:30 (with a zone, or in this machine's), or
    /// nanoseconds since 1970 [default: -1h]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) start: Option<String>,
    /// Begun before this: now, -5m, a date and time, or nanoseconds since 1970 [default: now]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) end: Option<String>,
    /// The most traces to list
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(crate) limit: u16,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Flags of `services`.
#[derive(Debug, Args)]
pub(crate) struct ServicesFlags {
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// What `sql` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SqlFormat {
    /// Aligned columns
    Table,
    /// RFC 4180, with a header line
    Csv,
    /// The server's JSON
    Json,
    /// An Arrow IPC stream, for a file or a pipe
    Arrow,
}

/// Flags of `sql`.
#[derive(Debug, Args)]
pub(crate) struct SqlFlags {
    /// The statement, for example
    /// 'SELECT service, count(*) FROM spans GROUP BY service'
    pub(crate) statement: String,
    /// What to print: a table for people, or up to 100,000 rows as CSV or as an
    /// Arrow IPC stream, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    pub(crate) format: SqlFormat,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Flags of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        use clap::CommandFactory;
        Flags::command().debug_assert();
    }

    #[test]
    fn every_typed_setting_is_a_known_setting() {
        let typed = [
            "spanwise",
            "config",
            "--log",
            "debug",
            "--server",
            "http://a:1",
            "--data",
            "d",
            "--store",
            "clickhouse://h/d",
            "--object-storage",
            "s3://b/p",
            "--object-storage-take-over",
            "1",
            "--listen",
            "::1",
            "--http",
            "1",
            "--otlp-grpc",
            "127.0.0.1:2",
            "--otlp-http",
            "3",
            "--zipkin",
            "off",
            "--jaeger-grpc",
            "4",
            "--jaeger-http",
            "5",
            "--jaeger-udp-compact",
            "[::1]:6",
            "--jaeger-udp-binary",
            "off",
            "--retain-age",
            "1d",
            "--retain-bytes",
            "unlimited",
            "--timing",
            "off",
            "--hook",
            "auto",
            "--host",
            "h",
            "--payload-bytes",
            "512",
            "--tls",
            "off",
            "--only",
            "service=a",
            "--except",
            "port=1",
            "--sample",
            "10%",
            "--sample-slow",
            "1s",
            "--cpu-budget",
            "0.5",
            "--memory-budget",
            "64MiB",
            "--record",
            "f",
            "--plugin",
            "a.wasm,b.wasm",
        ];
        let Command::Config(flags) = Flags::parse_from(typed).command else { unreachable!() };
        let layer = flags.layer();
        assert_eq!(layer.len() * 2 + 2, typed.len());
        for (key, _) in layer {
            assert!(crate::config::is_setting(key), "{key}");
        }
    }
}
