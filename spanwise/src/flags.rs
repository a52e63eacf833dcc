//! Command-line flags. Values of settings are checked but stay text here. [`crate::config`] merges
//! them with the environment and the file.

mod analysis;

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand};

use crate::config::{self, Flag, Form, Loaded, Setting, settings};
use crate::failure::Failure;
use crate::terminal::Zone;
pub(crate) use analysis::{
    AnalysisFlags, BottlenecksFlags, CapacityFlags, ChainsFlags, DependsFlags, EntrancesFlags,
    JourneyFlags, RowFlags, SourcesFlags,
};

/// Traces microservices without touching them.
#[derive(Debug, Parser)]
#[command(name = "spanwise", version, max_term_width = 100, subcommand_required = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommand.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Trace this machine: server and agent in one process
    Up(RunFlags<{ SERVER | AGENT }>),
    /// Receive spans from agents and from OpenTelemetry, Zipkin and Jaeger clients, store them, and
    /// answer queries
    Server(RunFlags<SERVER>),
    /// Trace this machine's processes from the kernel and report to a server
    Agent(RunFlags<{ AGENT | AGENT_SERVER }>),
    /// Check what this kernel allows the agent, and which hooks it will use
    ///
    /// Exits with 0 if the agent can run, and with 1 if it cannot.
    Doctor(DoctorFlags),
    /// Report which work the threads of a Java virtual machine hand to each other
    ///
    /// Optional. docs/tasks.md explains when it helps.
    #[command(subcommand)]
    Java(JavaCommand),
    /// Print the current settings and where each came from
    Config(ConfigFlags),
    /// Import files of spans into a running server
    ///
    /// The format is recognised from the content: OTLP JSON or protobuf, as the OpenTelemetry
    /// Collector's file exporter writes it, or JSON of Jaeger or Zipkin, optionally compressed with
    /// gzip or zstd. If an import is interrupted, run the same command again; no span is stored
    /// twice.
    Import(ImportFlags),
    /// Send what native programs recorded to a running server, or to any OTLP endpoint
    ///
    /// Reads the directories that the C library writes (docs/native.md). Spanwise keeps spans; logs
    /// and metrics go to an OTLP endpoint or a file.
    Replay(ReplayFlags),
    /// Control native programs that record with the C library
    #[command(subcommand)]
    Native(NativeCommand),
    /// Print one trace as a tree
    Trace(TraceFlags),
    /// List traces: the newest, the slowest, those with most errors, the largest
    Search(SearchFlags),
    /// Let an assistant ask a server, over standard input and output (Model Context Protocol)
    ///
    /// The same is at http://HOST:7070/mcp.
    Mcp(McpFlags),
    /// Print traces as they arrive, until interrupted
    Tail(TailFlags),
    /// Print the service graph: who calls whom, how often, how fast, with how many errors
    Graph(GraphFlags),
    /// List chains: traces of one shape, with rate, errors and latency; or print one chain
    ///
    /// With an id, each call of the chain with its share of the response time (LR), how often its
    /// caller (DR) and a run (CR) calls it, and whether it is a strong or a weak dependency.
    /// docs/analysis.md has the definitions.
    Chains(ChainsFlags),
    /// List which calls are strong and weak dependencies, from failures that were observed
    Depends(DependsFlags),
    /// List where load comes in, with rates and trends against the period before
    Entrances(EntrancesFlags),
    /// Print who calls a service, whom it calls, and through which chains
    Sources(SourcesFlags),
    /// Find who made a time slow or failing, and by what evidence
    Cause(CauseFlags),
    /// Print where runs spend their time, and what they do too often
    ///
    /// Time on the critical path, calls again and again (N+1), retries, fan-outs, and calls one
    /// after another that could run at the same time.
    Bottlenecks(BottlenecksFlags),
    /// Predict the load on services, databases and operations if entrances are called more often
    Capacity(CapacityFlags),
    /// Print what happened for one business key, such as an order's number, across services and
    /// traces
    ///
    /// Steps in the order of time, with gaps, further attempts and hand-offs. Keys are configured:
    /// docs/keys.md.
    Journey(JourneyFlags),
    /// Hash business keys, and make the secret for that
    #[command(subcommand)]
    Key(KeyCommand),
    /// Tell when a service is slow or failing, or calls what it did not, by rules
    Watch(WatchFlags),
    /// Show services live, by rate, errors and latency
    Top(TopFlags),
    /// List the services seen
    Services(ServicesFlags),
    /// Run a read-only SQL statement over the table `spans`
    Sql(SqlFlags),
    /// Show the status of the server and its agent
    Status(StatusFlags),
    /// Print a script that completes commands and flags in a shell
    ///
    /// For example: spanwise completions bash > /etc/bash_completion.d/spanwise
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands into a folder
    Man {
        /// The folder, such as /usr/local/share/man/man1
        #[arg(value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

/// Flags of settings from some groups ([`group_of`]).
#[derive(Debug)]
pub(crate) struct SettingFlags<const GROUPS: u8>(Vec<(&'static str, String)>);

const SERVER: u8 = 1;
const AGENT: u8 = 2;
/// The server to which the agent reports.
const AGENT_SERVER: u8 = 4;
/// Only what is in all groups.
const KEYS: u8 = 8;

/// The group of a setting's flag. Flags in all groups exist in every command.
fn group_of(setting: &Setting) -> u8 {
    match setting.key {
        "log" | "key_secret_file" => u8::MAX,
        "agent.server" => AGENT_SERVER,
        key if key.starts_with("agent.") => AGENT,
        _ => SERVER,
    }
}

fn typed_settings(groups: u8) -> impl Iterator<Item = (&'static Setting, Flag)> {
    let all = settings().iter().filter(move |setting| group_of(setting) & groups != 0);
    all.filter_map(|setting| Some((setting, setting.flag?)))
}

/// A flag that checks its value and keeps it as text.
fn argument(setting: &'static Setting, flag: Flag) -> Arg {
    let (mut meaning, check) = (setting.meaning.to_string(), setting.check);
    // Most descriptions begin with a lower-case letter, because they are also comments in the
    // configuration file.
    if let Some(first) = meaning.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let default = setting.default.text();
    let default = if default.is_empty() { String::new() } else { format!(", default {default}") };
    let argument = Arg::new(setting.key)
        .long(flag.long)
        .value_name(flag.value_name)
        .help(format!("{meaning} [setting: {}{default}]", setting.key))
        .help_heading("Settings");
    match setting.form {
        Form::List => argument.action(ArgAction::Append).value_delimiter(','),
        // The parser's errors would repeat the value.
        Form::Secret => argument,
        Form::Text => {
            argument.value_parser(move |text: &str| check(text).map(|()| text.to_owned()))
        }
    }
}

impl<const GROUPS: u8> Args for SettingFlags<GROUPS> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(typed_settings(GROUPS).map(|(setting, flag)| argument(setting, flag)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<const GROUPS: u8> FromArgMatches for SettingFlags<GROUPS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = typed_settings(GROUPS).filter_map(|(setting, _)| {
            let texts: Vec<&str> =
                matches.get_many::<String>(setting.key)?.map(String::as_str).collect();
            Some((setting.key, texts.join(",")))
        });
        Ok(Self(typed.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Flags of commands that run a server or an agent.
#[derive(Debug, Args)]
pub(crate) struct RunFlags<const GROUPS: u8> {
    /// Configuration file [default: ./spanwise.toml, else /etc/spanwise/spanwise.toml, if it
    /// exists]
    #[arg(long, value_name = "FILE", env = "SPANWISE_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags<GROUPS>,
}

impl<const GROUPS: u8> RunFlags<GROUPS> {
    /// Merges the flags with the environment, the file and the defaults.
    ///
    /// # Errors
    /// The errors of [`config::load`].
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        config::load(self.config.as_deref(), &self.settings.0)
    }
}

/// Flags of `config`: those of all commands that run a server or an agent.
#[derive(Debug, Args)]
pub(crate) struct ConfigFlags {
    #[command(flatten)]
    pub(crate) run: RunFlags<{ SERVER | AGENT | AGENT_SERVER }>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Commands of `key`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Print the hash of a key, by which `spanwise journey` finds it
    ///
    /// Reads the same configuration and secret as the agent that hashed it.
    Hash {
        /// What is hashed, for example order=4711
        #[arg(value_name = "KEY=VALUE")]
        key: String,
        #[command(flatten)]
        run: RunFlags<KEYS>,
    },
    /// Print a new random secret, for a file that only the agent may read
    Secret,
}

/// Actions of the helper for Java.
#[derive(Debug, Subcommand)]
pub(crate) enum JavaCommand {
    /// Write the helper to standard output, for java -javaagent:FILE
    Helper,
    /// Load the helper into a running virtual machine
    Attach {
        /// Its process id
        #[arg(value_name = "PID")]
        process: u32,
    },
    /// Take the helper out of a running virtual machine
    ///
    /// All classes get their own code back. Requests go on.
    Detach {
        /// Its process id
        #[arg(value_name = "PID")]
        process: u32,
    },
}

/// Flags of all commands that query a running server.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerUrl {
    /// The server to query
    #[arg(long, value_name = "URL", env = "SPANWISE_URL", default_value = "http://127.0.0.1:7070")]
    pub(crate) url: String,
    /// Print the server's JSON unchanged
    #[arg(long)]
    pub(crate) json: bool,
    /// Show times in UTC instead of this machine's zone
    #[arg(long)]
    pub(crate) utc: bool,
}

impl ServerUrl {
    /// The zone for times in output, and for times in flags without a zone.
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
    /// Import spans again that were imported before, for example because they have been deleted
    /// since; spans that still exist are not stored twice
    #[arg(long)]
    pub(crate) again: bool,
}

/// Flags of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayFlags {
    /// Directories of recordings, or the `.process` file of one program; or directories of traces
    /// in the Common Trace Format (LTTng, babeltrace2)
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The server's port for agents and OTLP over gRPC
    #[arg(
        long,
        value_name = "URL",
        env = "SPANWISE_AGENT_SERVER",
        default_value = "http://127.0.0.1:4317"
    )]
    pub(crate) server: String,
    /// Send spans, logs and metrics to this OTLP endpoint over HTTP instead, such as
    /// http://127.0.0.1:4318
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    pub(crate) otlp: Option<String>,
    /// Write OTLP protobuf to this file instead, each message after its length in 4 bytes; `-` is
    /// standard output. Logs go to FILE.logs, metrics to FILE.metrics
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Only spans whose name fits this pattern with * and ?
    #[arg(long, value_name = "PATTERN")]
    pub(crate) filter: Option<String>,
    /// As fast as it was recorded, times this factor; default: as fast as possible
    #[arg(long, value_name = "FACTOR")]
    pub(crate) speed: Option<f64>,
    /// As fast as it was recorded
    #[arg(long, conflicts_with = "speed")]
    pub(crate) as_recorded: bool,
    /// Remember in this file how far an OTLP endpoint or file has it, and go on from there
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
}

/// Commands of `native`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum NativeCommand {
    /// Switch call sites of running programs on and off; without rules, print them
    Filter(FilterFlags),
}

/// Flags of `native filter`.
#[derive(Debug, Args)]
pub(crate) struct FilterFlags {
    /// The directory that programs record to
    pub(crate) dir: PathBuf,
    /// Rules such as `off`, `on`, `off:heartbeat*`, `on:server.c:120`, `level:info`,
    /// `level:warn:cache*`. Of those that fit a site, the last holds
    #[arg(value_name = "RULE")]
    pub(crate) rules: Vec<String>,
}

/// Flags of `trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceFlags {
    /// Trace id (32 hexadecimal digits, or 16 for a 64-bit id), or the id of any span of the trace
    /// (16), as found in a log or a header
    pub(crate) id: String,
    /// Draw every span, including repeated calls
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not page output that is longer than the terminal
    #[arg(long)]
    pub(crate) no_pager: bool,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Conditions on traces.
#[derive(Debug, Clone, Args)]
pub(crate) struct TraceFilter {
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
    /// With a span whose attribute, or its resource's, matches; may be given several times:
    /// KEY=VALUE, KEY!=VALUE, KEY>NUMBER (>=, <, <=), KEY~PART, KEY (exists), !KEY (does not exist)
    #[arg(long = "attribute", value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) attributes: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Flags of `mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpFlags {
    /// The server to query
    #[arg(long, value_name = "URL", env = "SPANWISE_URL", default_value = "http://127.0.0.1:7070")]
    pub(crate) url: String,
}

/// Flags of `search`.
#[derive(Debug, Args)]
pub(crate) struct SearchFlags {
    /// A query in TraceQL, for example '{ status = error } >> { duration > 100ms }'. --service,
    /// --operation, --status error and durations are then about a span that it selects, and
    /// --status ok about the whole trace. --attribute and --sort do not go with it
    #[arg(value_name = "TRACEQL")]
    pub(crate) query: Option<String>,
    #[command(flatten)]
    pub(crate) filter: TraceFilter,
    /// Which matching traces come first: the newest, the slowest, those with most errors or with
    /// most spans
    #[arg(long, value_name = "ORDER", default_value = "newest", value_parser = ["newest", "slowest", "errors", "largest"])]
    pub(crate) sort: String,
    /// Started after this: -15m, -2h, 2026-11-26T09:30 (with a zone, or in this machine's), or
    /// nanoseconds since 1970 [default: -1h]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) start: Option<String>,
    /// Started before this: now, -5m, a date and time, or nanoseconds since 1970 [default: now]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) end: Option<String>,
    /// Maximum number of traces
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(crate) limit: u16,
}

/// Flags of `tail`.
#[derive(Debug, Args)]
pub(crate) struct TailFlags {
    #[command(flatten)]
    pub(crate) filter: TraceFilter,
    /// Stop after the first query
    #[arg(long, hide = true)]
    pub(crate) once: bool,
}

/// Output formats of `graph`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum GraphFormat {
    /// Aligned columns, one line for each edge
    Table,
    /// Graphviz: `spanwise graph --format dot | dot -Tsvg`
    Dot,
    /// A Mermaid flowchart, for Markdown
    Mermaid,
}

/// Flags of `graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphFlags {
    /// Only edges from or to this service, database or broker
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// Calls after this: -15m, -2h, a date and time, or nanoseconds since 1970 [default: -1h]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) start: Option<String>,
    /// Calls before this, in the same format [default: now]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) end: Option<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    pub(crate) format: GraphFormat,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Flags of `cause`.
#[derive(Debug, Args)]
pub(crate) struct CauseFlags {
    /// Only requests that this service takes part in, and of these what is below it
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// The start of the time to explain: -15m, -2h, a date and time, or nanoseconds since 1970
    /// [default: the latest minutes that are unusual]
    #[arg(long, visible_alias = "from", value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) start: Option<String>,
    /// Its end, in the same format [default: now]
    #[arg(
        long,
        visible_alias = "to",
        value_name = "WHEN",
        allow_hyphen_values = true,
        requires = "start"
    )]
    pub(crate) end: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Flags of `watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchFlags {
    /// `latency SERVICE > 250ms` (95th percentile), `errors SERVICE > 5%`, `new-edge` or
    /// `vanished-edge`; `*` stands for every service. Without any, how the rules are that the server
    /// watches; these may also be `new-error SERVICE`, `weak SERVICE` (nothing may strongly depend
    /// on it), `rate SERVICE < 50%` and `rate SERVICE > 200%` (of its forecast)
    #[arg(value_name = "RULE")]
    pub(crate) rules: Vec<String>,
    /// The time that a rule is about, up to now
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub(crate) window: String,
    /// The time before it, which edges are compared with
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) before: String,
    /// How often the rules are looked at
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) every: String,
    /// Where to post what begins and ends, as JSON: http://HOST:PORT/PATH
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// Look once
    #[arg(long)]
    pub(crate) once: bool,
    /// Print the rules as alerting rules of Prometheus, over /metrics/spans, and look at nothing
    #[arg(long)]
    pub(crate) prometheus: bool,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Flags of `top`.
#[derive(Debug, Args)]
pub(crate) struct TopFlags {
    /// The time range of rates and latencies, up to now
    #[arg(long, value_name = "TIME", default_value = "1m")]
    pub(crate) window: String,
    /// Order of services
    #[arg(long, value_name = "ORDER", default_value = "rate")]
    pub(crate) sort: TopOrder,
    /// Print the table once, which is the default if standard output is not a terminal
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// The order of services in `top`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TopOrder {
    /// The most requests a second
    Rate,
    /// The largest share of failed requests
    Errors,
    /// The longest 95th percentile
    Latency,
    /// By name
    Name,
}

/// Flags of `services`.
#[derive(Debug, Args)]
pub(crate) struct ServicesFlags {
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Output formats of `sql`.
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
    /// Output format: a table for people, or up to 100,000 rows as CSV or as an Arrow IPC stream,
    /// or JSON
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

    /// Parses flags. An invalid flag fails the test. `parse_from` would end the process, and with
    /// it all other tests.
    fn parsed<Word: Into<std::ffi::OsString> + Clone>(
        typed: impl IntoIterator<Item = Word>,
    ) -> Flags {
        Flags::try_parse_from(typed).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_flags_are_consistent() {
        use clap::CommandFactory;
        Flags::command().debug_assert();
    }

    #[test]
    fn every_setting_with_a_flag_can_be_typed() {
        let mut typed = vec!["spanwise".to_owned(), "config".to_owned()];
        let mut keys = Vec::new();
        for (setting, flag) in typed_settings(u8::MAX) {
            let default = setting.default.text();
            let value = match (setting.key, &*default) {
                ("agent.hide", "") => "keys",
                ("agent.logs_to" | "agent.metrics_to", "") => "http://a:1",
                (_, "") => "service=a",
                (_, default) => default,
            };
            typed.extend([format!("--{}", flag.long), value.to_owned()]);
            keys.push(setting.key);
        }
        let Command::Config(flags) = parsed(typed).command else { unreachable!() };
        let layer: Vec<&str> = flags.run.settings.0.iter().map(|(key, _)| *key).collect();
        assert_eq!(layer, keys);
        assert!(keys.contains(&"listen.zipkin") && keys.contains(&"agent.plugins"));
    }

    #[test]
    fn plugins_are_listed_or_named_one_by_one() {
        let typed = ["spanwise", "up", "--plugin", "a.wasm,b.wasm", "--plugin", "c.wasm"];
        let Command::Up(flags) = parsed(typed).command else { unreachable!() };
        assert_eq!(flags.settings.0, [("agent.plugins", "a.wasm,b.wasm,c.wasm".to_owned())]);
        assert!(Flags::try_parse_from(["spanwise", "server", "--plugin", "a"]).is_err());
        assert!(Flags::try_parse_from(["spanwise", "up", "--server", "http://a:1"]).is_err());
        assert!(Flags::try_parse_from(["spanwise", "up", "--zipkin", "on"]).is_err());
    }
}
