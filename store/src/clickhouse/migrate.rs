//! Creates the tables and migrates them to this version.

use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::UInt32Type;

use super::client::Client;
use super::failure::RequestError;
use super::literal;
use super::schema::{self, VERSIONS};

/// The version of the schema that this program writes and reads.
const VERSION: u32 = 2;
const TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout on a cluster, where every server must execute the statement.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(120);

/// Why the tables are not usable.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error("{0}")]
    Request(#[from] RequestError),
    #[error(
        "the tables in {place} are of version {found}, made by a newer Spanwise; this one knows \
         versions up to {VERSION}: run that one, or name another database"
    )]
    Newer { place: String, found: u32 },
}

/// Creates missing tables. Tables of this version stay unchanged, except for their retention time.
pub(super) async fn prepare(
    client: &Client,
    retain_seconds: Option<u64>,
) -> Result<(), SetupError> {
    let address = client.address();
    let timeout = if address.cluster.is_some() { CLUSTER_TIMEOUT } else { TIMEOUT };
    let run = async |statement: &str| client.execute(statement, &[], timeout).await;
    let found = version(client).await?;
    if found > VERSION {
        return Err(SetupError::Newer { place: address.to_string(), found });
    }
    let ttl = state(client, retain_seconds).await?;
    if found < VERSION || ttl == Ttl::NoTable {
        run(&schema::create_versions(address)).await?;
        for statement in schema::create_spans(address, retain_seconds) {
            run(&statement).await?;
        }
        // Migrations from older versions. Each is idempotent, because several servers may find an
        // old table at the same time.
        if found < 2 && ttl != Ttl::NoTable {
            for statement in schema::add_lists(address) {
                run(&statement).await?;
            }
        }
        run(&format!("INSERT INTO {VERSIONS} (version) VALUES ({VERSION})")).await?;
        tracing::info!("the tables in {address} are of version {VERSION} now");
        // Another server may have created the table with a different retention time.
    }
    if state(client, retain_seconds).await? == Ttl::Other {
        run(&schema::modify_ttl(address, retain_seconds)).await?;
        tracing::info!("{address} keeps spans for another time from now on");
    }
    Ok(())
}

/// The version of the existing tables; 0 if there are none.
async fn version(client: &Client) -> Result<u32, RequestError> {
    let statement = format!("SELECT toUInt32(max(version)) AS version FROM {VERSIONS}");
    match client.read(&statement, &[], 1 << 20, TIMEOUT).await {
        Ok(answer) => Ok(answer
            .batches
            .iter()
            .filter_map(|batch| batch.column(0).as_primitive_opt::<UInt32Type>())
            .flat_map(|versions| versions.iter().flatten())
            .max()
            .unwrap_or(0)),
        Err(trouble) if trouble.is_missing_table() => Ok(0),
        Err(trouble) => Err(trouble),
    }
}

/// The retention time (TTL) of the spans table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ttl {
    NoTable,
    /// The configured retention time.
    Wanted,
    Other,
}

async fn state(client: &Client, retain_seconds: Option<u64>) -> Result<Ttl, RequestError> {
    let table = literal::text(schema::stored(client.address()));
    // ClickHouse stores the expression as it was written.
    let wanted = literal::text(&schema::ttl(retain_seconds).unwrap_or_default());
    let statement = format!(
        "SELECT toUInt32(trim(extract(create_table_query, ' TTL (.*?) SETTINGS ')) = {wanted}) \
         FROM system.tables WHERE database = currentDatabase() AND name = {table}"
    );
    let answer = client.read(&statement, &[], 1 << 20, TIMEOUT).await?;
    let same = answer.batches.iter().filter_map(|batch| {
        batch.column(0).as_primitive_opt::<UInt32Type>()?.iter().next().flatten()
    });
    Ok(match same.max() {
        None => Ttl::NoTable,
        Some(0) => Ttl::Other,
        Some(_) => Ttl::Wanted,
    })
}
