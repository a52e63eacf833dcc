//! `GET /api/v1/status`

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::response::Json;
use spanwise_analyze::red::RedSnapshot;
use spanwise_api::{Agent, Count, Ingest, Level, ObjectStorage, Process, Server, Status, Store};
use spanwise_store::{ObjectStorageStatus, StoreStatus};

use super::counters::{self, CounterGrowth};
use crate::ApiState;
use crate::wrong_port::Receivers;

/// Provides the status of parts that the API does not know.
pub trait StatusSource: Send + Sync {
    /// The status of these parts.
    fn status(&self) -> ServerParts;

    /// Figures of spans, if they are counted.
    fn span_metrics(&self) -> Option<RedSnapshot> {
        None
    }

    /// The rules that are watched, if there are any.
    fn watch(&self) -> Option<spanwise_api::Watch> {
        None
    }

    /// Addresses for spans, for clients that send them to the API's port.
    fn receivers(&self) -> Receivers {
        Receivers::default()
    }
}

/// The status of all parts except the store.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "see `spanwise_api::Status`")]
pub struct ServerParts {
    pub agent: Agent,
    pub ingest: Ingest,
    pub process: Process,
    pub server: Server,
    pub uptime_seconds: f64,
    pub version: String,
    pub warnings: Vec<String>,
}

pub(super) async fn status(
    State(state): State<ApiState>,
    State(growth): State<Arc<CounterGrowth>>,
) -> Json<Status> {
    let mut status = document(&state);
    status.counters = counters::counters(&status);
    status.warnings.extend(growth.sentences(&status.counters, Instant::now()));
    let grave = status.counters.iter().any(|counter| counter.level > Level::Info);
    status.attention = grave || !status.warnings.is_empty();
    Json(status)
}

/// The status of all parts, without counter meanings.
pub(crate) fn document(state: &ApiState) -> Status {
    let ServerParts { agent, ingest, process, server, uptime_seconds, version, mut warnings } =
        state.status.status();
    let store = store(state.store.status());
    warnings.extend(store.warnings.iter().cloned());
    Status {
        agent,
        attention: false,
        counters: Vec::new(),
        ingest,
        process,
        server,
        store,
        uptime_seconds,
        version,
        warnings,
    }
}

fn store(status: StoreStatus) -> Store {
    let StoreStatus {
        kind,
        recent_rows,
        recent_bytes,
        wal_bytes,
        files,
        file_rows,
        file_bytes,
        oldest_unix_nano,
        counters,
        warnings,
        object_storage,
    } = status;
    Store {
        counters: counters.into_iter().map(|(name, value)| (name, value.into())).collect(),
        file_bytes: file_bytes.into(),
        file_rows: file_rows.into(),
        files: files.into(),
        kind: kind.to_owned(),
        object_storage: object_storage.map(self::object_storage),
        oldest_unix_nano: Count(oldest_unix_nano),
        recent_bytes: recent_bytes.into(),
        recent_rows: recent_rows.into(),
        wal_bytes: wal_bytes.into(),
        warnings,
    }
}

fn object_storage(status: ObjectStorageStatus) -> ObjectStorage {
    let ObjectStorageStatus {
        url,
        remote_files,
        remote_bytes,
        waiting_files,
        waiting_bytes,
        cache_bytes,
        cache_max_bytes,
        leaving_files,
        hidden_files,
    } = status;
    ObjectStorage {
        cache_bytes: cache_bytes.into(),
        cache_max_bytes: cache_max_bytes.into(),
        hidden_files: hidden_files.into(),
        leaving_files: leaving_files.into(),
        remote_bytes: remote_bytes.into(),
        remote_files: remote_files.into(),
        url,
        waiting_bytes: waiting_bytes.into(),
        waiting_files: waiting_files.into(),
    }
}
