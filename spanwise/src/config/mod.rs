//! The settings, checked and with their sources.
//!
//! Flags override the environment (`SPANWISE_…`), the environment overrides the TOML file, and the
//! file overrides defaults. An unknown key in the file is an error.

mod keys;
mod layers;
mod settings;
mod show;
mod table;
mod units;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use spanwise_capture_agent::budget::Budget;
use spanwise_capture_agent::filter::Filter;
use spanwise_capture_agent::{LabelRule, LiveConfig, Sampling, ServiceRule};
use spanwise_ingest::{Allowed, ReceiverAddresses};
use spanwise_store::clickhouse::Address as ClickHouseAddress;
use spanwise_store::embedded::ObjectStorageConfig;

use crate::failure::Failure;
pub(crate) use keys::KeyConfig;
pub(crate) use layers::InForce;
pub(crate) use settings::{Flag, Form, Setting, settings};
pub(crate) use show::show;
pub(crate) use table::WatchSettings;
use table::{
    AgentSettings, AnalyzeSettings, AssembleSettings, ListenSettings, MetricsSettings,
    PortSettings, ReceiverSettings, RetainSettings, RootSettings, ServerSettings, StoreSettings,
};
pub(crate) use units::Rules;
use units::{ListenAddress, OptionalListen};

/// All settings.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) root: RootSettings,
    pub(crate) listen: Listen,
    pub(crate) ports: PortSettings,
    pub(crate) server: ServerSettings,
    pub(crate) receivers: ReceiverSettings,
    pub(crate) retain: RetainSettings,
    pub(crate) store: StoreSettings,
    pub(crate) assemble: AssembleSettings,
    pub(crate) analyze: AnalyzeSettings,
    pub(crate) watch: WatchSettings,
    pub(crate) metrics: MetricsSettings,
    pub(crate) agent: AgentConfig,
    pub(crate) keys: KeyConfig,
}

/// The server's addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listen {
    /// UI and API.
    pub(crate) http: SocketAddr,
    /// Tempo's API.
    pub(crate) tempo: Option<SocketAddr>,
    /// Jaeger's query API, and the storage that a Jaeger reads.
    pub(crate) jaeger: [Option<SocketAddr>; 2],
    /// Spans.
    pub(crate) receivers: ReceiverAddresses,
}

impl Listen {
    /// Every TCP address.
    pub(crate) fn tcp(&self) -> impl Iterator<Item = SocketAddr> {
        let receivers = self.receivers.iter().filter(|(receiver, _)| !receiver.is_udp());
        let receivers = receivers.filter_map(|(_, address)| address);
        let apis = self.tempo.into_iter().chain(self.jaeger.into_iter().flatten());
        std::iter::once(self.http).chain(apis).chain(receivers)
    }
}

/// The store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreAt {
    /// In the data directory.
    Embedded,
    /// In ClickHouse. The data directory contains the spool.
    ClickHouse(ClickHouseAddress),
}

impl FromStr for StoreAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "embedded" => Ok(Self::Embedded),
            // Its errors do not repeat the text, which may contain a password.
            url => url.parse().map(Self::ClickHouse),
        }
    }
}

/// The agent's settings.
#[derive(Debug, Clone)]
pub(crate) struct AgentConfig {
    pub(crate) settings: AgentSettings,
    pub(crate) services: Vec<ServiceRule>,
    labels: Vec<LabelRule>,
}

impl AgentConfig {
    /// Which processes are traced, and which spans are kept.
    pub(crate) fn live(&self) -> LiveConfig {
        let AgentSettings { only, except, sample, sample_slow, .. } = &self.settings;
        let slow_nano = sample_slow.0.as_nanos().try_into().unwrap_or(u64::MAX);
        LiveConfig {
            filter: Filter { only: only.clone(), except: except.clone() },
            labels: self.labels.clone(),
            sampling: Sampling { share: sample.0, slow_nano },
        }
    }

    pub(crate) fn budget(&self) -> Budget {
        let AgentSettings { cpu_budget, memory_budget, .. } = &self.settings;
        Budget {
            cpu_cores: cpu_budget.0.map(|cpu| cpu.0),
            memory_bytes: memory_budget.0.map(|memory| memory.0),
        }
    }

    /// Directories to which native programs record.
    pub(crate) fn native_dirs(&self) -> Vec<PathBuf> {
        self.settings.native_dirs.0.iter().map(PathBuf::from).collect()
    }

    /// Paths of plugins.
    pub(crate) fn plugins(&self) -> Vec<PathBuf> {
        self.settings.plugins.0.iter().map(PathBuf::from).collect()
    }
}

impl Config {
    /// Allowed hosts and origins besides programs and the UI.
    pub(crate) fn allowed(&self) -> Allowed {
        Allowed {
            hosts: self.server.allowed_hosts.0.clone(),
            api_origins: self.server.allowed_origins.0.clone(),
            receiver_origins: self.receivers.allowed_origins.0.clone(),
        }
    }

    /// Object storage of the embedded store; `None` if files stay local.
    pub(crate) fn object_storage(&self) -> Option<ObjectStorageConfig> {
        let store = &self.store;
        let url = store.object_storage.0.clone()?;
        Some(ObjectStorageConfig {
            cache_max_bytes: store.cache_bytes.0,
            upload_after: store.upload_after.0,
            take_over: store.object_storage_take_over.0.clone(),
            ..ObjectStorageConfig::new(url)
        })
    }
}

/// The current settings and their sources.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// Each setting's text and source, in the order of the settings table.
    pub(crate) in_force: Vec<InForce>,
    /// The configuration file that was read.
    pub(crate) file: Option<PathBuf>,
    /// Possible mistakes, to be logged.
    pub(crate) warnings: Vec<String>,
    /// The given flags, for [`Self::again`].
    typed: Typed,
}

/// Given flags: keys and values.
type Typed = Vec<(&'static str, String)>;

impl Loaded {
    /// Reads all sources again, because the file may have changed.
    ///
    /// # Errors
    /// The errors of [`load`].
    pub(crate) fn again(&self) -> Result<Self, Failure> {
        load(self.file.as_deref(), &self.typed)
    }

    /// Keys whose values differ in `other` and only take effect after a restart.
    pub(crate) fn waiting_for_a_start<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let differs = |key: &str| {
            let of = |loaded: &'a Self| loaded.in_force.iter().filter(move |one| one.key == key);
            !of(self).map(|one| &one.value).eq(of(other).map(|one| &one.value))
        };
        let mut keys: Vec<&str> = (self.in_force.iter().chain(&other.in_force))
            .map(|one| one.key.as_str())
            .filter(|key| !table::LIVE.contains(key) && differs(key))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Applies `typed` over the environment, the file and the defaults.
///
/// # Errors
/// [`Failure::Usage`] if the file cannot be read, contains an unknown key, or a value is invalid.
/// The message contains the key, the value and its source.
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
    let ListenSettings { address, http, tempo, jaeger_query, jaeger_storage } =
        ListenSettings::read(&layers)?;
    let jaeger = [jaeger_query, jaeger_storage].map(|listen| Some(listen.0?.on(address)));
    let receivers = ReceiverAddresses::try_from_fn(|receiver| {
        let OptionalListen(listen) = match receiver.is_optional {
            true => layers.get(receiver.setting)?,
            false => OptionalListen(Some(layers.get::<ListenAddress>(receiver.setting)?)),
        };
        Ok::<_, String>(listen.map(|listen| listen.on(address)))
    })?;
    let root = RootSettings::read(&layers)?;
    let keys = KeyConfig {
        rules: layers.keys()?,
        secret_file: root.key_secret_file.0.as_ref().map(PathBuf::from),
    };
    let config = Config {
        root,
        listen: Listen {
            http: http.on(address),
            tempo: tempo.0.map(|listen| listen.on(address)),
            jaeger,
            receivers,
        },
        ports: PortSettings::read(&layers)?,
        server: ServerSettings::read(&layers)?,
        receivers: ReceiverSettings::read(&layers)?,
        retain: RetainSettings::read(&layers)?,
        store: StoreSettings::read(&layers)?,
        assemble: AssembleSettings::read(&layers)?,
        analyze: AnalyzeSettings::read(&layers)?,
        watch: WatchSettings::read(&layers)?,
        metrics: MetricsSettings::read(&layers)?,
        agent: AgentConfig {
            settings: AgentSettings::read(&layers)?,
            services: layers.services()?,
            labels: layers.labels()?,
        },
        keys,
    };
    if let Some(url) = &config.watch.webhook.0 {
        crate::client::check_webhook(url).map_err(|why| format!("watch.webhook: {why}"))?;
    }
    if config.store.object_storage.0.is_some() && config.store.url.0 != StoreAt::Embedded {
        return Err(
            "store.object_storage is for the embedded store, and store.url names another; \
                    leave one of them out"
                .to_owned(),
        );
    }
    let in_force = layers.in_force()?;
    Ok(Loaded { config, in_force, file: layers.file, warnings: layers.warnings, typed: Vec::new() })
}

#[cfg(test)]
mod tests;
