//! Sends the spool's files to ClickHouse, oldest first.
//!
//! A file is sent in parts. Each part has a token by which ClickHouse recognises it: an unconfirmed
//! part is sent again and stored once. The file is removed when ClickHouse has confirmed all parts.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::failure::{Kind, RequestError, pause};
use super::outgoing::{Days, insert_statement, stream};
use super::{ClickHouseStore, figures, schema};
use crate::contract::StoreError;
use crate::embedded::SpoolFile;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A part has about ten thousand rows, which ClickHouse normally inserts in a second.
const INSERT_TIMEOUT: Duration = Duration::from_secs(120);

/// The state of the connection to ClickHouse.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Whether the tables have been checked.
    pub(super) prepared: bool,
    /// The current problem, for the operator.
    pub(super) trouble: Option<String>,
    failures: u32,
    retry_at: Option<Instant>,
    counters: BTreeMap<&'static str, u64>,
}

impl Health {
    pub(super) fn count(&mut self, name: &'static str, by: u64) {
        *self.counters.entry(name).or_default() += by;
    }

    pub(super) fn counters(&self) -> impl Iterator<Item = (String, u64)> {
        self.counters.iter().map(|(name, count)| ((*name).to_owned(), *count))
    }

    /// Whether to wait before the next attempt.
    fn is_paused(&self) -> bool {
        self.retry_at.is_some_and(|at| Instant::now() < at)
    }

    fn went_well(&mut self) {
        if self.trouble.take().is_some() {
            tracing::info!("ClickHouse takes spans again");
        }
        self.failures = 0;
        self.retry_at = None;
    }

    fn went_wrong(&mut self, what: String) {
        if self.trouble.as_ref() != Some(&what) {
            tracing::warn!("{what}");
        }
        self.trouble = Some(what);
        self.retry_at = Instant::now().checked_add(pause(self.failures));
        self.failures = self.failures.saturating_add(1);
    }
}

/// Runs until the store is closed or dropped.
pub(super) async fn run(store: Weak<ClickHouseStore>) {
    let mut looked_at_figures: Option<Instant> = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(store) = store.upgrade() else { return };
        if store.closing.load(Ordering::Acquire) {
            return;
        }
        store.send_all().await;
        if store.health.lock().prepared
            && looked_at_figures.is_none_or(|at| at.elapsed() >= figures::EVERY)
        {
            looked_at_figures = Some(Instant::now());
            store.update_figures().await;
        }
    }
}

impl ClickHouseStore {
    /// Sends all files, until there are none or an error occurs.
    pub(super) async fn send_all(&self) {
        if self.health.lock().is_paused() {
            return;
        }
        if let Err(error) = self.prepare().await {
            self.health.lock().went_wrong(format!("spans wait on this server's disk: {error}"));
            return;
        }
        while let Some(trouble) = self.send_next().await.transpose() {
            let Err(trouble) = trouble else { continue };
            let mut health = self.health.lock();
            health.count(trouble.counter, 1);
            health.went_wrong(trouble.what);
            health.prepared &= !trouble.is_missing_table;
            return;
        }
        self.health.lock().went_well();
    }

    /// Sends the oldest file, if there is one.
    async fn send_next(&self) -> Result<Option<()>, SendFailure> {
        // Deletion must not run while rows are in transit. It waits for at most one file.
        let _sending = self.sending.lock().await;
        let next = self.spool.next_file();
        self.spooled_bytes.store(self.spool.file_bytes(), Ordering::Relaxed);
        let Some(file) = next else { return Ok(None) };
        match self.send(&file).await {
            Ok(()) => {}
            Err(UnsentReason::Unreadable) => return Ok(Some(())),
            Err(UnsentReason::Request(trouble)) => {
                return Err(SendFailure {
                    counter: counter_of(trouble.kind()),
                    what: format!(
                        "spans wait on this server's disk: {trouble}; {}",
                        trouble.advice()
                    ),
                    is_missing_table: trouble.is_missing_table(),
                });
            }
        }
        // No reader is between reading the spool and asking ClickHouse.
        let _readers = self.reading.write().await;
        self.spool.let_go(&file).await.map_err(|error| SendFailure {
            counter: "spool_notes_failed",
            what: format!("spans that ClickHouse has are kept here too: {error}"),
            is_missing_table: false,
        })?;
        let mut health = self.health.lock();
        health.count("files_inserted", 1);
        health.count("rows_inserted", file.rows());
        Ok(Some(()))
    }

    async fn send(&self, file: &SpoolFile) -> Result<(), UnsentReason> {
        let statement = insert_statement(schema::SPANS);
        let insert_id = self.spool.insert_id(file.generations().1);
        let days = Days::of(file.written_unix_nano(), self.retain_seconds);
        for part in 0..file.parts() {
            let rows = match self.spool.read_part(file, part).await {
                Ok(rows) => rows,
                Err(error) => {
                    tracing::warn!("{error}");
                    // If the file is intact, the read error was temporary.
                    return Err(if self.spool.set_aside_if_broken(file).await {
                        UnsentReason::Unreadable
                    } else {
                        UnsentReason::Request(RequestError::Strange(error.to_string()))
                    });
                }
            };
            if rows.num_rows() == 0 {
                continue;
            }
            let body = stream(&rows, days, insert_id)
                .map_err(|error| UnsentReason::Request(RequestError::Strange(error.to_string())))?;
            let settings = [
                ("async_insert", "0".to_owned()),
                ("insert_deduplicate", "1".to_owned()),
                ("insert_deduplication_token", format!("{insert_id:016x}-{part}")),
                // One block for each part, so that the token covers all of it.
                ("max_insert_block_size", "10000000".to_owned()),
                ("min_insert_block_size_rows", "0".to_owned()),
                ("min_insert_block_size_bytes", "0".to_owned()),
                ("max_partitions_per_insert_block", "0".to_owned()),
                // On a cluster, the insert returns when every shard has the rows.
                ("distributed_foreground_insert", "1".to_owned()),
            ];
            self.client.insert(&statement, body, &settings, INSERT_TIMEOUT).await?;
        }
        Ok(())
    }
}

/// Why sending stops for now.
struct SendFailure {
    counter: &'static str,
    /// Message for the operator.
    what: String,
    is_missing_table: bool,
}

enum UnsentReason {
    /// The file was broken and has been set aside.
    Unreadable,
    Request(RequestError),
}

impl From<RequestError> for UnsentReason {
    fn from(trouble: RequestError) -> Self {
        Self::Request(trouble)
    }
}

const fn counter_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Away => "inserts_failed_away",
        Kind::Full => "inserts_refused_full",
        Kind::Access => "inserts_refused_access",
        Kind::Limit => "inserts_refused_limit",
        Kind::Other => "inserts_refused_other",
    }
}

/// The error for senders when the spool is full.
pub(super) fn spool_full(spooled: u64, most: u64, trouble: Option<&str>) -> StoreError {
    let why = trouble.unwrap_or("ClickHouse takes spans slower than they come");
    StoreError::Full {
        reason: format!(
            "{} of {} MiB for spans that wait for ClickHouse are taken: {why}",
            spooled >> 20,
            most >> 20
        ),
        retry_after: Duration::from_secs(5),
    }
}
