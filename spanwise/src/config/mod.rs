//! What runs: every setting, with its type checked, and where it came from.
//!
//! Flags win over the environment (`SPANWISE_…`), the environment over one
//! TOML file, the file over the defaults. A key that the file has and the
//! program does not know is an error, not a shrug.

mod layers;
mod settings;
mod show;
mod units;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use spanwise_capture_agent::budget::Budget;
use spanwise_capture_agent::filter::Filter;
use spanwise_capture_agent::{HookChoice, LiveConfig, Sampling, ServiceRule};
use spanwise_ingest::Allowed;
use spanwise_store::clickhouse::Address as ClickHouseAddress;
use spanwise_store::embedded::ObjectStorageConfig;

use crate::failure::Failure;
pub(crate) use layers::InForce;
#[cfg(test)]
pub(crate) use settings::is_setting;
pub(crate) use show::show;
pub(crate) use units::{
    ByteSize, Cores, Limit, ListenAddress, OptionalListen, Share, Switch, TimeSpan,
};

/// Everything that the program can be told.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Directory of all data.
    pub(crate) data: PathBuf,
    /// Filter for the program's own log.
    pub(crate) log: String,
    pub(crate) listen: Listen,
    pub(crate) ports: PortLimits,
    /// Who may ask besides programs and the UI.
    pub(crate) allowed: Allowed,
    /// What of a span is kept.
    pub(crate) spans: SpanLimits,
    pub(crate) store_at: StoreAt,
    pub(crate) store: StoreLimits,
    /// Where files of the embedded store go; `None` where they stay.
    pub(crate) object_storage: Option<ObjectStorageConfig>,
    /// Whether to link by time alone what nothing else links.
    pub(crate) links_by_timing: bool,
    pub(crate) agent: AgentConfig,
}

/// Where the server listens; `None` where it does not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listen {
    /// UI and API.
    pub(crate) http: SocketAddr,
    /// OTLP over gRPC, and agents.
    pub(crate) otlp_grpc: SocketAddr,
    /// OTLP over HTTP.
    pub(crate) otlp_http: SocketAddr,
    /// Zipkin's spans over HTTP.
    pub(crate) zipkin: Option<SocketAddr>,
    /// Jaeger's spans over gRPC.
    pub(crate) jaeger_grpc: Option<SocketAddr>,
    /// Jaeger's thrift over HTTP.
    pub(crate) jaeger_http: Option<SocketAddr>,
    /// Jaeger's compact thrift over UDP.
    pub(crate) jaeger_udp_compact: Option<SocketAddr>,
    /// Jaeger's binary thrift over UDP.
    pub(crate) jaeger_udp_binary: Option<SocketAddr>,
}

impl Listen {
    /// Every address that listens for TCP connections.
    pub(crate) fn tcp(&self) -> impl Iterator<Item = SocketAddr> {
        let others = [self.zipkin, self.jaeger_grpc, self.jaeger_http].into_iter().flatten();
        [self.http, self.otlp_grpc, self.otlp_http].into_iter().chain(others)
    }
}

/// Bounds of every port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortLimits {
    pub(crate) connections: usize,
    pub(crate) connections_per_address: usize,
    pub(crate) header_time: Duration,
    pub(crate) body_time: Duration,
    pub(crate) idle_time: Duration,
    pub(crate) answer_time: Duration,
}

/// How many of each a span may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpanLimits {
    pub(crate) attributes: usize,
    pub(crate) events: usize,
    pub(crate) links: usize,
}

/// Where spans are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreAt {
    /// In the data directory.
    Embedded,
    /// In a ClickHouse; the data directory has what waits for it.
    ClickHouse(ClickHouseAddress),
}

impl FromStr for StoreAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "embedded" => Ok(Self::Embedded),
            // Its errors say nothing of the text, which may hold a password.
            url => url.parse().map(Self::ClickHouse),
        }
    }
}

/// How much the store may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreLimits {
    pub(crate) retain_age: Option<Duration>,
    pub(crate) retain_bytes: Option<u64>,
    pub(crate) recent_bytes: u64,
    pub(crate) generation_bytes: u64,
    pub(crate) generation_age: Duration,
    pub(crate) min_free_bytes: u64,
    pub(crate) spool_bytes: u64,
}

/// How the agent works.
#[derive(Debug, Clone)]
pub(crate) struct AgentConfig {
    /// The server's URL, for `spanwise agent`.
    pub(crate) server: String,
    pub(crate) hook: HookChoice,
    /// The host's name; `None` for the system's own.
    pub(crate) host: Option<String>,
    pub(crate) payload_bytes: u32,
    /// Whether to read what TLS libraries encrypt.
    pub(crate) tls: bool,
    /// What is traced, and which spans are kept.
    pub(crate) live: LiveConfig,
    pub(crate) budget: Budget,
    pub(crate) ring_bytes: u32,
    /// Bound of what waits for the server.
    pub(crate) queue_bytes: u64,
    /// Where to record kernel events.
    pub(crate) record: Option<PathBuf>,
    /// Files of plugins.
    pub(crate) plugins: Vec<PathBuf>,
    pub(crate) services: Vec<ServiceRule>,
}

/// Settings in force, and how they came about.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// Each setting's text and origin, in the order of the settings table.
    pub(crate) in_force: Vec<InForce>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// What looks like a mistake and is none for sure; to be logged.
    pub(crate) warnings: Vec<String>,
    /// What was typed, for [`Self::again`].
    typed: Typed,
}

/// Flags that were typed: keys and values.
type Typed = Vec<(&'static str, String)>;

impl Loaded {
    /// Reads everything once more: the file may have changed.
    ///
    /// # Errors
    /// As [`load`].
    pub(crate) fn again(&self) -> Result<Self, Failure> {
        load(self.file.as_deref(), &self.typed)
    }

    /// Keys whose values differ in `other`, and do not take effect before the next
    /// start.
    pub(crate) fn waiting_for_a_start<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let differs = |key: &str| {
            let of = |loaded: &'a Self| loaded.in_force.iter().filter(move |one| one.key == key);
            !of(self).map(|one| &one.value).eq(of(other).map(|one| &one.value))
        };
        let mut keys: Vec<&str> = (self.in_force.iter().chain(&other.in_force))
            .map(|one| one.key.as_str())
            .filter(|key| !settings::LIVE.contains(key) && differs(key))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Lays `typed` over the environment, the file and the defaults.
///
/// # Errors
/// [`Failure::Usage`] where the file cannot be read, has an unknown key, or any
/// value is wrong: with the key, the value and where it came from.
pub(crate) fn load(
    file: Option<&Path>,
    typed: &[(&'static str, String)],
) -> Result<Loaded, Failure> {
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let layers = layers::Layers::gather(file, &environment, typed).map_err(Failure::Usage)?;
    let loaded = interpret(layers).map_err(Failure::Usage)?;
    Ok(Loaded { typed: typed.to_vec(), ..loaded })
}

fn interpret(layers: layers::Layers) -> Result<Loaded, String> {
    let address: IpAddr = layers.get("listen.address")?;
    let listen = |key| layers.get::<ListenAddress>(key).map(|listen| listen.on(address));
    let optional_listen = |key| {
        layers.get::<OptionalListen>(key).map(|listen| listen.0.map(|listen| listen.on(address)))
    };
    let services = layers.services()?;
    let optional = |key| layers.text(key).map(|text| (!text.is_empty()).then_some(text));
    let store_at: StoreAt = layers.secret("store.url")?;
    let object_storage = match optional("store.object_storage")? {
        None => None,
        Some(_) if store_at != StoreAt::Embedded => {
            return Err("store.object_storage is for the embedded store, and store.url names \
                        another; leave one of them out"
                .to_owned());
        }
        Some(url) => Some(ObjectStorageConfig {
            cache_max_bytes: layers.get::<ByteSize>("store.cache_bytes")?.0,
            upload_after: layers.get::<TimeSpan>("store.upload_after")?.0,
            take_over: optional("store.object_storage_take_over")?,
            ..ObjectStorageConfig::new(url)
        }),
    };
    let config = Config {
        data: PathBuf::from(layers.text("data")?),
        log: layers.text("log")?,
        listen: Listen {
            http: listen("listen.http")?,
            otlp_grpc: listen("listen.otlp_grpc")?,
            otlp_http: listen("listen.otlp_http")?,
            zipkin: optional_listen("listen.zipkin")?,
            jaeger_grpc: optional_listen("listen.jaeger_grpc")?,
            jaeger_http: optional_listen("listen.jaeger_http")?,
            jaeger_udp_compact: optional_listen("listen.jaeger_udp_compact")?,
            jaeger_udp_binary: optional_listen("listen.jaeger_udp_binary")?,
        },
        ports: PortLimits {
            connections: layers.count("listen.connections", 1, 1 << 20)?,
            connections_per_address: layers.count("listen.connections_per_address", 1, 1 << 20)?,
            header_time: layers.some_time("listen.header_time")?,
            body_time: layers.some_time("listen.body_time")?,
            idle_time: layers.some_time("listen.idle_time")?,
            answer_time: layers.some_time("listen.answer_time")?,
        },
        allowed: Allowed {
            hosts: layers.list("server.allowed_hosts")?,
            api_origins: layers.list("server.allowed_origins")?,
            receiver_origins: layers.list("receivers.allowed_origins")?,
        },
        spans: SpanLimits {
            attributes: layers.count("receivers.span_attributes", 1, 1 << 16)?,
            events: layers.count("receivers.span_events", 1, 1 << 16)?,
            links: layers.count("receivers.span_links", 1, 1 << 16)?,
        },
        store_at,
        store: StoreLimits {
            retain_age: layers.get::<Limit<TimeSpan>>("retain.age")?.0.map(|age| age.0),
            retain_bytes: layers.get::<Limit<ByteSize>>("retain.bytes")?.0.map(|size| size.0),
            recent_bytes: layers.get::<ByteSize>("store.recent_bytes")?.0,
            generation_bytes: layers.get::<ByteSize>("store.generation_bytes")?.0,
            generation_age: layers.get::<TimeSpan>("store.generation_age")?.0,
            min_free_bytes: layers.get::<ByteSize>("store.min_free_bytes")?.0,
            spool_bytes: layers.get::<ByteSize>("store.spool_bytes")?.0,
        },
        object_storage,
        links_by_timing: layers.get::<Switch>("assemble.timing")?.0,
        agent: AgentConfig {
            server: layers.text("agent.server")?,
            hook: layers.get("agent.hook")?,
            host: optional("agent.host")?,
            payload_bytes: layers.bounded_size("agent.payload_bytes", 64, 1024)?,
            tls: layers.get::<Switch>("agent.tls")?.0,
            live: LiveConfig {
                filter: Filter {
                    only: layers.get("agent.only")?,
                    except: layers.get("agent.except")?,
                },
                labels: layers.labels()?,
                sampling: Sampling {
                    share: layers.get::<Share>("agent.sample")?.0,
                    slow_nano: layers
                        .get::<TimeSpan>("agent.sample_slow")?
                        .0
                        .as_nanos()
                        .try_into()
                        .unwrap_or(u64::MAX),
                },
            },
            budget: Budget {
                cpu_cores: layers.get::<Limit<Cores>>("agent.cpu_budget")?.0.map(|cpu| cpu.0),
                memory_bytes: layers.memory_budget()?,
            },
            ring_bytes: layers.bounded_size("agent.ring_bytes", 64 << 10, 1 << 30)?,
            queue_bytes: layers.get::<ByteSize>("agent.queue_bytes")?.0,
            record: optional("agent.record")?.map(PathBuf::from),
            plugins: layers.list("agent.plugins")?.into_iter().map(PathBuf::from).collect(),
            services,
        },
    };
    let in_force = layers.in_force()?;
    Ok(Loaded { config, in_force, file: layers.file, warnings: layers.warnings, typed: Vec::new() })
}

#[cfg(test)]
mod tests;
