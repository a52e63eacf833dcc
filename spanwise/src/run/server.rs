//! The server: receivers, store, assembly and API.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;
use spanwise_analyze::red::{Red, RedConfig};
use spanwise_ingest::{AGENTS, Ingest, Limits};
use spanwise_serve::ApiState;
use spanwise_store::clickhouse::{ClickHouseConfig, ClickHouseStore};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore};
use spanwise_store::{Store, TimeRange};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::agent::Destination;
use super::assembly::Assembly;
use super::descriptors;
use super::listen::Listeners;
use super::receivers;
use super::rollups::{RollupTask, Rollups};
use super::sink::StoreSink;
use super::status::{AgentState, ServerStatus};
use super::watch::{Watch, WatchTask};
use crate::config::{Config, Listen, StoreAt};
use crate::failure::Failure;
use crate::memory;

/// These timeouts add up to less than five seconds, which is what service managers usually allow.
const RECEIVERS_DRAIN: Duration = Duration::from_millis(1_000);
const ASSEMBLY_FINISH: Duration = Duration::from_millis(700);
const STORE_CLOSE: Duration = Duration::from_millis(2_000);

/// A running server.
pub(crate) struct Server {
    store: Arc<dyn Store>,
    assembly: Assembly,
    rollups: Option<RollupTask>,
    watch: Option<WatchTask>,
    status: Arc<ServerStatus>,
    /// Its addresses, with the actual ports.
    pub(crate) bound: Listen,
    /// The address for agents.
    agents_at: SocketAddr,
    tasks: JoinSet<Result<(), Failure>>,
    stopping: CancellationToken,
}

impl Server {
    /// Opens the ports and the store, and starts serving. Received data is processed, up to the
    /// store and in assembly, on the threads of `receivers`. `agent` is the initial state of the
    /// agent for the status page.
    ///
    /// # Errors
    /// If a port or the data directory cannot be opened.
    pub(crate) async fn start(
        config: &Config,
        receivers: &Handle,
        agent: AgentState,
    ) -> Result<Self, Failure> {
        let keys = Arc::new(config.keys.load()?);
        if keys.lacks_secret() {
            tracing::warn!(
                "keys with hash = true are left out of spans that SDKs send: there is no secret \
                 here (key_secret_file)"
            );
        }
        let listen = config.listen;
        let listeners = receivers.spawn(async move { Listeners::bind(&listen).await });
        let listeners = listeners.await.map_err(Failure::cannot)??;
        let bound = listeners.addresses()?;
        let agents_at = bound.receivers.of(AGENTS).context("there is no port for agents")?;
        tokio::spawn(memory::keep_what_is_freed());
        let store = open_store(config).await?;
        let red = red(config);
        let watched = red.as_ref().and_then(|red| Watch::start(&config.watch, red, &store));
        let (watch, watch_task) = watched.unzip();
        let timing = config.assemble.timing.0;
        let (rollups, rollup_task) = rollups(config, &store)?.unzip();
        let (assembly, queue) = Assembly::start(
            Arc::clone(&store),
            timing,
            red.clone(),
            rollups,
            watch.clone(),
            receivers,
        );
        let sink = Arc::new(StoreSink::new(Arc::clone(&store), queue));
        let ingest = Ingest::with(
            sink,
            limits(config),
            config.allowed(),
            bound.receivers,
            config.receivers.jvm_settings.0.as_ref().map(PathBuf::from),
            Arc::clone(&keys),
        );
        let status = Arc::new(ServerStatus::new(
            bound,
            config,
            ingest.clone(),
            assembly.status(),
            red.filter(|_| config.metrics.spans.0),
            watch,
            agent,
        ));
        let surfaces = spanwise_serve::surfaces(ApiState {
            store: Arc::clone(&store),
            status: Arc::<ServerStatus>::clone(&status),
            keys,
        });

        let stopping = CancellationToken::new();
        let stopped = || stopping.clone().cancelled_owned();
        let mut tasks = JoinSet::new();
        let zipkin = &surfaces.zipkin;
        receivers::spawn(&mut tasks, receivers, &ingest, listeners.receivers, zipkin, &stopping);
        if let Some(listener) = listeners.tempo {
            let (ingest, stop) = (ingest.clone(), stopped());
            tasks.spawn(async move {
                let serving = ingest.serve_queries("Tempo's API", listener, surfaces.tempo, stop);
                Ok(serving.await.context("Tempo's API stopped")?)
            });
        }
        let jaeger = surfaces.jaeger.merge(ingest.storage_writer());
        for listener in listeners.jaeger.into_iter().flatten() {
            let (ingest, jaeger, stop) = (ingest.clone(), jaeger.clone(), stopped());
            tasks.spawn(async move {
                let serving = ingest.serve_queries("Jaeger's API", listener, jaeger, stop);
                Ok(serving.await.context("Jaeger's API stopped")?)
            });
        }
        tasks.spawn({
            let (ingest, stop) = (ingest.clone(), stopped());
            async move {
                let serving = ingest.serve_api(listeners.http, surfaces.pages, stop);
                Ok(serving.await.context("the UI and API stopped")?)
            }
        });
        Ok(Self {
            store,
            assembly,
            rollups: rollup_task,
            watch: watch_task,
            status,
            bound,
            agents_at,
            tasks,
            stopping,
        })
    }

    /// The status, in which the agent's part can be set.
    pub(crate) fn status(&self) -> &ServerStatus {
        &self.status
    }

    /// The server as the destination of an agent in the same process.
    pub(crate) fn destination(&self) -> Destination {
        Destination {
            url: format!("http://{}", reachable(self.agents_at)),
            endpoints: self.bound.tcp().map(reachable).collect(),
        }
    }

    /// Serves until `stop`, or until a part fails.
    pub(crate) async fn serve(&mut self, stop: &CancellationToken) -> Result<(), Failure> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.tasks.join_next() => match ended {
                Some(Ok(Err(failure))) => Err(failure),
                Some(Err(error)) => Err(Failure::cannot(format_args!("a receiver failed: {error}"))),
                Some(Ok(Ok(()))) | None => Err(Failure::cannot("a receiver ended by itself")),
            },
        }
    }

    /// Stops receiving, finishes assembly, and closes the store.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        self.stopping.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok(Err(failure)) = ended {
                tracing::warn!("{failure}");
            }
        }
        if let Some(watch) = self.watch.take() {
            watch.finish().await;
        }
        if let Some(rollups) = self.rollups.take() {
            rollups.finish().await;
        }
        within(ASSEMBLY_FINISH, "assembly", self.assembly.finish()).await;
        match within(STORE_CLOSE, "the store", self.store.close()).await {
            Some(Err(error)) => {
                Err(Failure::cannot(format_args!("the store did not close cleanly: {error}")))
            }
            _ => Ok(()),
        }
    }
}

/// The figures of spans, if they are to be counted: for Prometheus, or for rules.
fn red(config: &Config) -> Option<Arc<Mutex<Red>>> {
    let metrics = &config.metrics;
    let red = RedConfig {
        series: metrics.series.0,
        span_bounds: metrics.span_buckets.0.clone(),
        edge_bounds: metrics.edge_buckets.0.clone(),
    };
    let is_needed = metrics.spans.0 || !config.watch.rules.0.is_empty();
    is_needed.then(|| Arc::new(Mutex::new(Red::new(&red))))
}

/// Rollups, if they are to be made.
fn rollups(
    config: &Config,
    store: &Arc<dyn Store>,
) -> Result<Option<(Arc<Rollups>, RollupTask)>, Failure> {
    if config.analyze.rollups.0 {
        return Ok(Rollups::start(Arc::clone(store)));
    }
    // Late spans would not correct them.
    if let Some(files) = store.derived() {
        files.remove(TimeRange::ALL).map_err(Failure::cannot)?;
    }
    Ok(None)
}

/// The limits of receivers and ports. The maximum number of connections depends on the limit of
/// open files, minus those for the store and the agent.
fn limits(config: &Config) -> Limits {
    let Config { ports, receivers, .. } = config;
    let at_most = Limits::default();
    let files = descriptors::raised();
    Limits {
        connections: ports.connections.0,
        connections_per_address: ports.connections_per_address.0,
        all_connections: descriptors::for_connections(files),
        header_time: ports.header_time.0,
        body_time: ports.body_time.0,
        idle_time: ports.idle_time.0,
        write_time: ports.answer_time.0,
        otlp: spanwise_wire::otlp::Limits {
            span_attributes: receivers.span_attributes.0,
            span_events: receivers.span_events.0,
            span_links: receivers.span_links.0,
            ..at_most.otlp
        },
        drain_time: RECEIVERS_DRAIN,
        ..at_most
    }
}

/// Waits with a timeout. The next start completes unfinished work from the write-ahead log.
async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> Option<T> {
    let done = tokio::time::timeout(limit, work).await.ok();
    if done.is_none() {
        tracing::warn!("{what} was not done in time; the next start goes on from the log");
    }
    done
}

/// An address at which a local listener can be reached from this host.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

async fn open_store(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    let here = embedded_config(config);
    match &config.store.url.0 {
        StoreAt::Embedded => match EmbeddedStore::open(here).await {
            Ok(store) => Ok(store),
            Err(error) => Err(Failure::cannot(format_args!(
                "cannot open the data directory {} (--data): {error}",
                config.root.data.display()
            ))),
        },
        StoreAt::ClickHouse(address) => {
            let clickhouse = ClickHouseConfig {
                spool_max_bytes: config.store.spool_bytes.0,
                ..ClickHouseConfig::new(address.clone(), here)
            };
            match ClickHouseStore::open(clickhouse).await {
                Ok(store) => Ok(store),
                Err(error) => Err(Failure::cannot(format_args!(
                    "cannot keep spans in {address} (--store), with {} (--data) for those that \
                     wait: {error}",
                    config.root.data.display()
                ))),
            }
        }
    }
}

fn embedded_config(config: &Config) -> EmbeddedConfig {
    let Config { store, retain, .. } = config;
    EmbeddedConfig {
        recent_max_bytes: store.recent_bytes.0,
        generation_max_bytes: store.generation_bytes.0,
        generation_max_age: store.generation_age.0,
        retain_age: retain.age.0.map(|age| age.0),
        retain_bytes: retain.bytes.0.map(|size| size.0),
        min_free_bytes: store.min_free_bytes.0,
        object_storage: config.object_storage(),
        sql_worker: Some(super::sql_worker::command()),
        ..EmbeddedConfig::new(config.root.data.clone())
    }
}
