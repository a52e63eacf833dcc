//! What ClickHouse holds, asked now and then for the status page.

use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt64Type};
use spanwise_model::schema::column;

use super::client::Client;
use super::failure::Trouble;
use super::literal;
use super::schema::{SPANS, stored};

/// How often they are asked.
pub(super) const EVERY: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Figures of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Active parts, on the server that is asked.
    pub(super) parts: u64,
    /// Rows in them.
    pub(super) rows: u64,
    /// Bytes of them on disk.
    pub(super) bytes: u64,
    /// The oldest start in all tables; 0 where there is none.
    pub(super) oldest_unix_nano: i64,
}

pub(super) async fn ask(client: &Client) -> Result<Figures, Trouble> {
    let table = literal::text(stored(client.address()));
    let parts = format!(
        "SELECT toUInt64(count()), toUInt64(sum(rows)), toUInt64(sum(bytes_on_disk)) \
         FROM system.parts WHERE active AND database = currentDatabase() AND table = {table}"
    );
    let answer = client.read(&parts, &[], 1 << 20, TIMEOUT).await?;
    let number = |column: usize| {
        let batch = answer.batches.first()?;
        batch.columns().get(column)?.as_primitive_opt::<UInt64Type>()?.iter().next().flatten()
    };
    let mut figures = Figures {
        parts: number(0).unwrap_or(0),
        rows: number(1).unwrap_or(0),
        bytes: number(2).unwrap_or(0),
        oldest_unix_nano: 0,
    };
    if figures.rows > 0 {
        let oldest = format!("SELECT min({}) FROM {SPANS}", column::START_UNIX_NANO);
        let answer = client.read(&oldest, &[], 1 << 20, TIMEOUT).await?;
        let starts = answer.batches.iter().filter_map(|batch| {
            batch.column(0).as_primitive_opt::<Int64Type>()?.iter().next().flatten()
        });
        figures.oldest_unix_nano = starts.min().unwrap_or(0);
    }
    Ok(figures)
}
