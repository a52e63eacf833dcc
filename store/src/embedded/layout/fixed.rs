//! The columns of the span row that shapes have, as two hashes a row.

use ahash::RandomState;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, UInt16Type, UInt32Type};
use arrow::error::ArrowError;
use spanwise_model::schema::{column, span_schema};

use crate::embedded::keys::fold;

/// Columns of the span row that have few distinct values, and fewer yet together.
pub(in super::super) const SHAPED: [&str; 15] = [
    column::SERVICE,
    column::INSTANCE,
    column::OPERATION,
    column::KIND,
    column::PROTOCOL,
    column::STATUS,
    column::STATUS_CODE,
    column::CAPTURE,
    column::SERVER_ADDRESS,
    column::SERVER_PORT,
    column::NETWORK_NAMESPACE,
    column::EVIDENCE,
    column::HOST,
    column::PROCESS_ID,
    column::RESOURCE,
];

/// Together as good as the values themselves: that two differ and their hashes
/// do not happens in no lifetime, and nobody can make it happen, since the
/// hashes begin from random numbers.
pub(super) type Hash = [u64; 2];

const STEPS: Hash = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

/// A hash that depends on this number, too.
pub(super) const fn with(hash: Hash, number: Hash) -> Hash {
    [fold(hash[0] ^ number[0], STEPS[0]), fold(hash[1] ^ number[1], STEPS[1])]
}

/// Makes hashes of values.
pub(super) struct Hasher([RandomState; 2]);

impl Hasher {
    pub(super) fn new() -> Self {
        Self([RandomState::new(), RandomState::new()])
    }

    pub(super) fn hash(&self, value: impl std::hash::Hash + Copy) -> Hash {
        [self.0[0].hash_one(value), self.0[1].hash_one(value)]
    }

    /// Of each row of a batch.
    ///
    /// # Errors
    /// Where it does not have the span schema.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<Vec<Hash>, ArrowError> {
        let mut hashes = vec![[1, 2]; batch.num_rows()];
        let schema = span_schema();
        for name in SHAPED {
            let array = batch.column(schema.index_of(name)?);
            let none = self.hash("");
            if array.null_count() == array.len() {
                continue;
            }
            match array.data_type() {
                DataType::Dictionary(..) => self.texts(array, none, &mut hashes)?,
                DataType::Int32 => self.numbers::<Int32Type>(array, none, &mut hashes),
                DataType::UInt16 => self.numbers::<UInt16Type>(array, none, &mut hashes),
                DataType::UInt32 => self.numbers::<UInt32Type>(array, none, &mut hashes),
                other => {
                    return Err(ArrowError::SchemaError(format!("{name} cannot be {other}")));
                }
            }
        }
        Ok(hashes)
    }

    fn texts(&self, array: &ArrayRef, none: Hash, to: &mut [Hash]) -> Result<(), ArrowError> {
        let mistyped = || ArrowError::SchemaError("a column is no dictionary".to_owned());
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(mistyped)?;
        let values = array.values().as_string_opt::<i32>().ok_or_else(mistyped)?;
        let hashes: Vec<Hash> =
            values.iter().map(|text| text.map_or(none, |text| self.hash(text))).collect();
        for (hash, key) in to.iter_mut().zip(array.keys()) {
            let key = key.and_then(|key| usize::try_from(key).ok());
            let value = key.and_then(|key| hashes.get(key)).copied().unwrap_or(none);
            *hash = with(*hash, value);
        }
        Ok(())
    }

    fn numbers<T>(&self, array: &ArrayRef, none: Hash, to: &mut [Hash])
    where
        T: ArrowPrimitiveType<Native: std::hash::Hash>,
    {
        let array: &PrimitiveArray<T> = array.as_primitive();
        for (hash, number) in to.iter_mut().zip(array) {
            *hash = with(*hash, number.map_or(none, |number| self.hash(number)));
        }
    }
}
