//! The ClickHouse store: rows are stored in ClickHouse, and spooled locally until it has them.
//!
//! The spool is an [embedded store](crate::embedded). A batch is acknowledged when it is in the
//! spool's log. It is assembled in the spool's memory and sent to ClickHouse once, with its
//! assembled columns. While ClickHouse is unavailable, the spool's files grow and everything else
//! continues. A query asks both. ClickHouse leaves out the rows that are still in the spool, so no
//! answer contains a row twice.
//!
//! ```text
//! append -> log -> memory -> file -> ClickHouse -> the file is removed
//! ```

mod address;
mod client;
mod condition;
mod config;
mod conform;
mod failure;
mod figures;
mod first;
mod literal;
mod migrate;
mod outbox;
mod outgoing;
mod schema;
mod sql;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, UInt64Type};
use async_trait::async_trait;
use parking_lot::Mutex;
use spanwise_model::schema::{column, span_schema};
use spanwise_model::{Assembled, SpanRows};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;

pub use address::Address;
pub use config::ClickHouseConfig;

use crate::contract::{
    Appended, Deleted, Key, Origin, Predicate, Query, Selection, SqlAnswer, SqlFunctions,
    SqlLimits, Store, StoreError, StoreStatus, TimeRange, Unsettled,
};
use crate::embedded::{EmbeddedConfig, EmbeddedStore, engine};
use crate::room::Rooms;
use client::Client;
use condition::{fulfils, has_any, in_range, not_of, selected, where_all};
use conform::to_schema;
use failure::{Kind, RequestError};
use figures::Figures;
use migrate::SetupError;
use outbox::Health;

/// Longer than any query of ours takes. Users' statements have their own timeout.
const READ_TIMEOUT: Duration = Duration::from_secs(40);
/// ClickHouse's own timeout, which is shorter.
const READ_SECONDS: u64 = 30;
/// Maximum bytes of rows in one answer. The largest trace that is read is far smaller.
const MAX_ANSWER_BYTES: usize = 512 << 20;
/// Maximum statements that run, or whose answers are in memory, at the same time.
const SQL_AT_ONCE: usize = 4;
const DELETE_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time to wait for ClickHouse at startup.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);
/// Time for sending when the store closes.
const LAST_SENDING: Duration = Duration::from_secs(1);

/// A store in ClickHouse. See the module's description.
pub struct ClickHouseStore {
    spool: Arc<EmbeddedStore>,
    client: Client,
    /// Slots for users' statements, and for the program's own.
    rooms: Rooms,
    own_rooms: Rooms,
    retain_seconds: Option<u64>,
    /// Maximum bytes of files in the spool. Beyond it, senders are refused.
    spool_max_bytes: u64,
    spooled_bytes: AtomicU64,
    /// Held while files are sent, and while rows are deleted.
    sending: tokio::sync::Mutex<()>,
    /// Held by readers while they read the spool, and by the sender while it removes a file.
    /// ClickHouse leaves out exactly those rows that the reader found in the spool.
    reading: RwLock<()>,
    health: Mutex<Health>,
    figures: Mutex<Figures>,
    closing: AtomicBool,
    outbox: Mutex<Option<JoinHandle<()>>>,
}

impl ClickHouseStore {
    /// Opens the spool, creates or checks the tables, and starts sending. Needs a Tokio runtime. An
    /// unreachable ClickHouse is not an error; sending starts when it is available.
    ///
    /// # Errors
    /// If the spool cannot be opened, ClickHouse denies access, or its tables have a newer version.
    pub async fn open(config: ClickHouseConfig) -> Result<Arc<Self>, StoreError> {
        let client = Client::new(config.address).map_err(StoreError::Invalid)?;
        let spool = EmbeddedConfig { spool: true, retain_bytes: None, ..config.spool };
        let spool = EmbeddedStore::open(spool).await?;
        let there = spool.file_bytes();
        let store = Arc::new(Self {
            spool,
            client,
            rooms: Rooms::new(SQL_AT_ONCE),
            own_rooms: Rooms::new(SQL_AT_ONCE),
            retain_seconds: config.retain_age.map(|age| age.as_secs().max(1)),
            spool_max_bytes: config.spool_max_bytes.saturating_add(there),
            spooled_bytes: AtomicU64::new(there),
            sending: tokio::sync::Mutex::new(()),
            reading: RwLock::new(()),
            health: Mutex::new(Health::default()),
            figures: Mutex::new(Figures::default()),
            closing: AtomicBool::new(false),
            outbox: Mutex::new(None),
        });
        let prepared = tokio::time::timeout(OPEN_PATIENCE, store.prepare()).await;
        match prepared.unwrap_or(Err(RequestError::Late(OPEN_PATIENCE).into())) {
            Ok(()) => {}
            Err(SetupError::Request(trouble)) if trouble.kind() != Kind::Access => {
                tracing::warn!("spans wait on this server's disk for now: {trouble}");
            }
            Err(SetupError::Request(trouble)) => {
                return Err(StoreError::Invalid(format!("{trouble}; {}", trouble.advice())));
            }
            Err(newer) => return Err(StoreError::Invalid(newer.to_string())),
        }
        let task = tokio::spawn(outbox::run(Arc::downgrade(&store)));
        *store.outbox.lock() = Some(task);
        Ok(store)
    }

    /// Prepares the tables once.
    async fn prepare(&self) -> Result<(), SetupError> {
        if !self.health.lock().prepared {
            migrate::prepare(&self.client, self.retain_seconds).await?;
            self.health.lock().prepared = true;
        }
        Ok(())
    }

    async fn update_figures(&self) {
        match figures::ask(&self.client).await {
            Ok(figures) => *self.figures.lock() = figures,
            Err(trouble) => tracing::debug!("the figures stay as they were: {trouble}"),
        }
    }

    /// The insert ids of the spool's files, as first and last of each run.
    fn held(&self) -> Vec<(u64, u64)> {
        let runs = self.spool.held();
        let id = |generation| self.spool.insert_id(generation);
        runs.into_iter().map(|(first, last)| (id(first), id(last))).collect()
    }

    /// Rows in ClickHouse that fulfil all conditions of any branch, the first of each branch, in
    /// the types of the span schema.
    async fn select(
        &self,
        schema: &SchemaRef,
        branches: &[Vec<String>],
        order_and_limit: &str,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let names = names.join(", ");
        let branch = |conditions: &Vec<String>| {
            let conditions = where_all(conditions);
            format!("SELECT {names} FROM {}{conditions}{order_and_limit}", schema::SPANS)
        };
        let branches: Vec<String> = branches.iter().map(branch).collect();
        let statement = branches.join(" UNION ALL ");
        let settings = [
            ("readonly", "1".to_owned()),
            ("max_execution_time", READ_SECONDS.to_string()),
            ("max_query_size", (64 << 20).to_string()),
        ];
        let read = self.client.read(&statement, &settings, MAX_ANSWER_BYTES, READ_TIMEOUT).await;
        let answer = match read {
            // The table does not exist yet, so it has no rows.
            Err(trouble) if trouble.is_missing_table() && !self.health.lock().prepared => {
                return Ok(Vec::new());
            }
            answer => answer.map_err(RequestError::of_question)?,
        };
        let batches = answer.batches.iter().map(|batch| to_schema(batch, schema));
        batches
            .collect::<Result<_, _>>()
            .map_err(engine("ClickHouse's rows are not those of spans"))
    }
}

/// The columns of an answer to this query, in the schema's order.
fn answered(query: &Query) -> SchemaRef {
    let whole = span_schema();
    let wanted = |name: &str| {
        query.columns.is_empty()
            || query.columns.contains(&name)
            || first::columns(query.order).contains(&name)
    };
    let fields: Vec<_> =
        whole.fields().iter().filter(|field| wanted(field.name())).cloned().collect();
    Arc::new(arrow::datatypes::Schema::new(fields))
}

#[async_trait]
impl Store for ClickHouseStore {
    async fn append(&self, rows: SpanRows, origin: Option<Origin>) -> Result<Appended, StoreError> {
        let spooled = self.spooled_bytes.load(Ordering::Relaxed);
        if spooled >= self.spool_max_bytes {
            let mut health = self.health.lock();
            health.count("batches_refused_spool_full", 1);
            let trouble = health.trouble.as_deref();
            return Err(outbox::spool_full(spooled, self.spool_max_bytes, trouble));
        }
        self.spool.append(rows, origin).await
    }

    async fn annotate(&self, rows: &[Assembled]) -> Result<(), StoreError> {
        self.spool.annotate(rows).await
    }

    fn unsettled(&self) -> Vec<Unsettled> {
        self.spool.unsettled()
    }

    async fn find_by_keys(
        &self,
        keys: &[Key],
        time: TimeRange,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let kinds = has_any(keys);
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let (mut found, held) = {
            let _reading = self.reading.read().await;
            (self.spool.find_by_keys(keys, time).await?, self.held())
        };
        let always = [in_range(time), not_of(&held)].concat();
        let branches = kinds.into_iter().map(|kind| [always.clone(), vec![kind]].concat());
        let branches: Vec<_> = branches.collect();
        found.extend(self.select(&span_schema(), &branches, "").await?);
        Ok(found)
    }

    async fn find(&self, query: &Query) -> Result<Vec<RecordBatch>, StoreError> {
        let (mut found, held) = {
            let _reading = self.reading.read().await;
            // The spool does not know which rows of a trace are elsewhere.
            let predicate = Predicate { above: None, ..query.predicate.clone() };
            let of_spool = Query { predicate, ..query.clone() };
            (self.spool.find(&of_spool).await?, self.held())
        };
        if query.limit == 0 {
            return Ok(found);
        }
        let always = [in_range(query.time), not_of(&held)].concat();
        let ways = fulfils(&query.predicate).into_iter();
        let ways: Vec<_> = ways.map(|way| [always.clone(), way].concat()).collect();
        let by: Vec<String> =
            first::columns(query.order).iter().map(|name| format!("{name} DESC")).collect();
        let mut order = format!(" ORDER BY {}", by.join(", "));
        if query.limit < usize::MAX {
            order.push_str(&format!(" LIMIT {}", query.limit));
        }
        found.extend(self.select(&answered(query), &ways, &order).await?);
        first::first(found, query.order, query.limit).map_err(engine("cannot put rows in order"))
    }

    async fn sql(&self, statement: &str, limits: SqlLimits) -> Result<SqlAnswer, StoreError> {
        sql::run(&self.client, &self.rooms, statement, limits).await
    }

    async fn sql_with(
        &self,
        statement: &str,
        functions: Arc<dyn SqlFunctions>,
        limits: SqlLimits,
    ) -> Result<SqlAnswer, StoreError> {
        let answer = self.sql(statement, limits).await;
        match &answer {
            Err(StoreError::Invalid(_)) => match sql::called(statement, functions.names()) {
                Some(name) => Err(StoreError::Invalid(functions.instead(name))),
                None => answer,
            },
            _ => answer,
        }
    }

    async fn own_sql(
        &self,
        statement: &str,
        limits: SqlLimits,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        Ok(sql::run(&self.client, &self.own_rooms, statement, limits).await?.batches)
    }

    async fn drop_before(&self, unix_nano: i64) -> Result<(), StoreError> {
        let _sending = self.sending.lock().await;
        self.spool.drop_before(unix_nano).await?;
        self.delete_where(&format!("{} < {unix_nano}", column::START_UNIX_NANO)).await
    }

    async fn delete(&self, selection: &Selection) -> Result<Deleted, StoreError> {
        // No rows move from the spool to ClickHouse during the deletion.
        let _sending = self.sending.lock().await;
        let condition = selected(selection);
        let there = self.count_where(&condition).await?;
        self.delete_where(&condition).await?;
        let here = self.spool.delete(selection).await?;
        Ok(Deleted { rows: there + here.rows })
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.closing.store(true, Ordering::Release);
        let task = self.outbox.lock().take();
        if let Some(task) = task {
            let outbox = task.abort_handle();
            // A file that is in progress when time is up is sent again at the next start.
            let sending = async {
                let _ = task.await;
                self.spool.write_settled().await;
                self.send_all().await;
            };
            if tokio::time::timeout(LAST_SENDING, sending).await.is_err() {
                outbox.abort();
                tracing::info!("what is not sent yet stays in the spool for the next start");
            }
        }
        self.spool.close().await
    }

    fn status(&self) -> StoreStatus {
        let spool = self.spool.status();
        let figures = *self.figures.lock();
        let health = self.health.lock();
        let mut counters = spool.counters;
        counters.extend(health.counters());
        counters.push(("spool_files".to_owned(), spool.files));
        let oldest = [spool.oldest_unix_nano, figures.oldest_unix_nano];
        StoreStatus {
            kind: "clickhouse",
            recent_rows: spool.recent_rows + spool.file_rows,
            recent_bytes: spool.recent_bytes,
            wal_bytes: spool.wal_bytes + spool.file_bytes,
            files: figures.parts,
            file_rows: figures.rows,
            file_bytes: figures.bytes,
            oldest_unix_nano: oldest.into_iter().filter(|start| *start != 0).min().unwrap_or(0),
            counters,
            warnings: health.trouble.iter().cloned().chain(spool.warnings).collect(),
            object_storage: None,
        }
    }
}

impl ClickHouseStore {
    /// Number of rows in ClickHouse that fulfil a condition and are not in the spool.
    async fn count_where(&self, condition: &str) -> Result<u64, StoreError> {
        let conditions = [vec![condition.to_owned()], not_of(&self.held())].concat();
        let statement =
            format!("SELECT toUInt64(count()) FROM {}{}", schema::SPANS, where_all(&conditions));
        match self.client.read(&statement, &[], MAX_ANSWER_BYTES, READ_TIMEOUT).await {
            Err(trouble) if trouble.is_missing_table() => Ok(0),
            Err(trouble) => Err(trouble.of_question()),
            Ok(answer) => {
                let first = answer.batches.first().and_then(|batch| batch.columns().first());
                let counts = first.and_then(|column| column.as_primitive_opt::<UInt64Type>());
                Ok(counts.and_then(|counts| counts.iter().next().flatten()).unwrap_or(0))
            }
        }
    }

    /// Deletes rows in ClickHouse. No answer contains them once this returns.
    async fn delete_where(&self, condition: &str) -> Result<(), StoreError> {
        let address = self.client.address();
        let statement = format!(
            "DELETE FROM {}{} WHERE {condition}",
            schema::stored(address),
            schema::on_cluster(address)
        );
        let settings =
            [("lightweight_deletes_sync", "2".to_owned()), ("mutations_sync", "2".to_owned())];
        match self.client.execute(&statement, &settings, DELETE_TIMEOUT).await {
            Err(trouble) if trouble.is_missing_table() => Ok(()),
            done => done.map_err(RequestError::of_question),
        }
    }
}
