//! Statistics of ClickHouse for the status page, fetched regularly.

use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt64Type};

use super::client::Client;
use super::failure::RequestError;
use super::literal;
use super::schema::stored;

/// Interval between two fetches.
pub(super) const EVERY: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Statistics of the table. On a cluster, they cover one replica of each shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Active parts.
    pub(super) parts: u64,
    /// Rows in active parts.
    pub(super) rows: u64,
    /// Bytes on disk of active parts.
    pub(super) bytes: u64,
    /// Start of the oldest partition; 0 if there is none.
    pub(super) oldest_unix_nano: i64,
}

/// Fetches the statistics. The query is cheap for ClickHouse.
pub(super) async fn ask(client: &Client) -> Result<Figures, RequestError> {
    let address = client.address();
    let table = literal::text(stored(address));
    let database = literal::text(&address.database);
    let parts = match &address.cluster {
        Some(cluster) => format!("cluster({}, system.parts)", literal::text(cluster)),
        None => "system.parts".to_owned(),
    };
    let statement = format!(
        "SELECT toUInt64(count()), toUInt64(sum(rows)), toUInt64(sum(bytes_on_disk)), \
         toInt64(min(min_date)) * 86400000000000 \
         FROM {parts} WHERE active AND database = {database} AND table = {table}"
    );
    let answer = client.read(&statement, &[], 1 << 20, TIMEOUT).await?;
    let Some(row) = answer.batches.first().filter(|batch| batch.num_rows() == 1) else {
        return Ok(Figures::default());
    };
    let number = |column: usize| {
        row.columns().get(column).and_then(|array| array.as_primitive_opt::<UInt64Type>())
    };
    let number = |column| number(column).map_or(0, |array| array.value(0));
    let oldest = row.columns().get(3).and_then(|array| array.as_primitive_opt::<Int64Type>());
    Ok(Figures {
        parts: number(0),
        rows: number(1),
        bytes: number(2),
        oldest_unix_nano: oldest.map_or(0, |array| array.value(0)),
    })
}
