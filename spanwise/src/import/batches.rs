//! Combines records into batches of a reasonable size. Each batch is named after its bytes.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use spanwise_model::schema::span_schema;
use spanwise_model::{ModelError, SpanRows};
use spanwise_wire::files::{FileError, Record};
use spanwise_wire::flight::{ContentName, Origin};

/// A batch is sent from this many rows on. Also the maximum rows of one message.
const ROWS: usize = 16_384;
/// A batch is sent from this many bytes of records on.
const BYTES: usize = 8 << 20;

/// A batch and its name.
pub(super) struct NamedBatch {
    rows: RecordBatch,
    source: [u8; 16],
    /// Number of rejected spans, and the reasons.
    pub(super) rejected: u64,
    pub(super) reasons: Vec<String>,
    /// Number of records with other telemetry.
    pub(super) other: u64,
}

impl NamedBatch {
    pub(super) fn spans(&self) -> usize {
        self.rows.num_rows()
    }

    /// The batch in parts of a size that servers accept, each with its own name.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Origin, RecordBatch)> + '_ {
        (0..self.rows.num_rows()).step_by(ROWS).zip(1..).map(|(from, sequence)| {
            let rows = ROWS.min(self.rows.num_rows() - from);
            (Origin { source: self.source, sequence }, self.rows.slice(from, rows))
        })
    }
}

/// Combines records.
pub(super) struct Batches {
    salt: u64,
    name: ContentName,
    rows: Vec<SpanRows>,
    count: usize,
    bytes: usize,
    rejected: u64,
    reasons: Vec<String>,
    other: u64,
    ended: bool,
}

impl Batches {
    /// Names depend on `salt`. With another salt, the same bytes are stored again.
    pub(super) fn new(salt: u64) -> Self {
        Self {
            salt,
            name: ContentName::new(salt),
            rows: Vec::new(),
            count: 0,
            bytes: 0,
            rejected: 0,
            reasons: Vec::new(),
            other: 0,
            ended: false,
        }
    }

    /// Adds a record.
    pub(super) fn push(&mut self, record: Record) {
        let Some(decoded) = record.decoded else {
            self.other += 1;
            return;
        };
        self.rejected += decoded.rejections.total();
        let reason = decoded.rejections.message();
        self.reasons.extend(reason.map(|reason| format!("{}: {reason}", record.place)));
        self.name.add(&record.bytes);
        self.bytes += record.bytes.len();
        self.count += decoded.batch.num_rows();
        self.rows.push(decoded.batch);
    }

    /// There are no more records.
    pub(super) const fn finish(&mut self) {
        self.ended = true;
    }

    /// The next batch if it is large enough, or the rest if there are no more records.
    pub(super) fn ready(&mut self) -> Option<Result<NamedBatch, FileError>> {
        let nothing = self.rows.is_empty() && self.other == 0;
        if nothing || (self.count < ROWS && self.bytes < BYTES && !self.ended) {
            return None;
        }
        let done = std::mem::replace(self, Self { ended: self.ended, ..Self::new(self.salt) });
        let whole = || -> Result<RecordBatch, ModelError> {
            let rows = done.rows.iter().map(SpanRows::whole).collect::<Result<Vec<_>, _>>()?;
            Ok(concat_batches(&span_schema(), &rows)?)
        };
        let rows = whole().map_err(|error| FileError::Record {
            place: "a batch".to_owned(),
            reason: format!("cannot be put together: {error}"),
        });
        Some(rows.map(|rows| NamedBatch {
            rows,
            source: done.name.source(),
            rejected: done.rejected,
            reasons: done.reasons,
            other: done.other,
        }))
    }
}
