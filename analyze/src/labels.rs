//! Display names of a trace's rows, read from their columns without copying.

use arrow::array::{Array, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::Int32Type;
use spanwise_model::schema::column;
use spanwise_model::{ModelError, RowRef, Status, Texts};

/// The labels of rows in several batches. [`RowRef::batch`] is an index into these.
pub struct Labels<'a>(Vec<OfBatch<'a>>);

struct OfBatch<'a> {
    services: Texts<'a>,
    operations: Texts<'a>,
    protocols: Texts<'a>,
    statuses: Texts<'a>,
    codes: &'a Int32Array,
    errors: Texts<'a>,
}

impl<'a> Labels<'a> {
    /// The columns with labels.
    pub const COLUMNS: &'static [&'static str] = &[
        column::SERVICE,
        column::OPERATION,
        column::PROTOCOL,
        column::STATUS,
        column::STATUS_CODE,
        column::ERROR,
    ];

    /// The labels of these batches.
    ///
    /// # Errors
    /// If one of [`Self::COLUMNS`] is missing.
    pub fn of(batches: &'a [RecordBatch]) -> Result<Self, ModelError> {
        let of_batch = |batch: &'a RecordBatch| {
            Ok(OfBatch {
                services: Texts::of(batch, column::SERVICE)?,
                operations: Texts::of(batch, column::OPERATION)?,
                protocols: Texts::of(batch, column::PROTOCOL)?,
                statuses: Texts::of(batch, column::STATUS)?,
                codes: batch
                    .column_by_name(column::STATUS_CODE)
                    .and_then(|codes| codes.as_primitive_opt::<Int32Type>())
                    .ok_or(ModelError::Column { column: column::STATUS_CODE })?,
                errors: Texts::of(batch, column::ERROR)?,
            })
        };
        batches.iter().map(of_batch).collect::<Result<_, _>>().map(Self)
    }

    fn text(&self, at: RowRef, texts: impl Fn(&OfBatch<'a>) -> Option<&'a str>) -> Option<&'a str> {
        self.0.get(usize::try_from(at.batch).ok()?).and_then(texts)
    }

    /// The row's service.
    pub fn service(&self, at: RowRef) -> &'a str {
        self.text(at, |batch| batch.services.get(at.row as usize)).unwrap_or_default()
    }

    /// The row's operation.
    pub fn operation(&self, at: RowRef) -> &'a str {
        self.text(at, |batch| batch.operations.get(at.row as usize)).unwrap_or_default()
    }

    /// The row's protocol.
    pub fn protocol(&self, at: RowRef) -> Option<&'a str> {
        self.text(at, |batch| batch.protocols.get(at.row as usize))
    }

    /// Whether the row's status is an error.
    pub fn is_error(&self, at: RowRef) -> bool {
        self.text(at, |batch| batch.statuses.get(at.row as usize)) == Some(Status::Error.as_str())
    }

    /// The protocol's own status code.
    pub fn status_code(&self, at: RowRef) -> Option<i32> {
        let codes = self.0.get(usize::try_from(at.batch).ok()?)?.codes;
        let row = at.row as usize;
        (row < codes.len() && codes.is_valid(row)).then(|| codes.value(row))
    }

    /// The row's error.
    pub fn error(&self, at: RowRef) -> Option<&'a str> {
        self.text(at, |batch| batch.errors.get(at.row as usize)).filter(|text| !text.is_empty())
    }
}
