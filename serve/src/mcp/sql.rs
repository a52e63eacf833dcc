//! The tool `run_sql`.

use super::text::{MOST_BYTES, Text};
use crate::Shared;
use crate::native::Parameters;
use crate::problem::Problem;
use crate::sql;

/// Rows: where nothing is said, and at most.
pub(super) const DEFAULT_ROWS: usize = 100;
pub(super) const MOST_ROWS: usize = 1_000;

pub(super) async fn run(shared: &Shared, parameters: &Parameters) -> Result<String, Problem> {
    let rows = parameters.count("limit", DEFAULT_ROWS, MOST_ROWS)?;
    let statement = parameters.text("query").unwrap_or_default();
    // Notes are beyond the bound of the lines.
    let bytes = MOST_BYTES - 1_000;
    let (csv, first_rows) = sql::csv_of(shared, statement, rows, bytes).await?;
    let mut text = Text::default();
    text.line(csv.replace("\r\n", "\n").trim_end());
    if let Some(rows) = first_rows {
        text.note(&format!(
            "these are the first {rows} rows; there are more: use LIMIT and OFFSET, an aggregate, \
             fewer columns, or substr() of long texts (an answer has {MOST_ROWS} rows and \
             {MOST_BYTES} bytes at most)"
        ));
    }
    Ok(text.finish())
}
