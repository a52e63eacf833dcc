//! Hashes of the span columns that belong to shapes, for each row.

use ahash::RandomState;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, UInt16Type, UInt32Type};
use arrow::error::ArrowError;
use spanwise_model::schema::{column, span_schema};

use crate::embedded::keys::fold;

/// Columns of the span row with few distinct values and few distinct combinations.
pub(crate) const SHAPED: [&str; 15] = [
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

/// The sort order of shapes. Columns that searches use come first, so that matching shapes are
/// adjacent. Most columns then have long runs.
const ORDER: [&str; 6] = [
    column::SERVICE,
    column::OPERATION,
    column::STATUS,
    column::KIND,
    column::STATUS_CODE,
    column::INSTANCE,
];
const ORDER_BITS: u32 = u128::BITS / ORDER.len() as u32;

/// The order in which shapes are written, given their [`SHAPED`] columns. Equal values are
/// adjacent. The order of different values does not matter.
pub(super) fn order(columns: &[ArrayRef]) -> Vec<u32> {
    let shapes = columns.first().map_or(0, |column| column.len());
    let mut keys: Vec<u128> = vec![0; shapes];
    for name in ORDER {
        let column = SHAPED.iter().position(|shaped| *shaped == name);
        let Some(column) = column.and_then(|place| columns.get(place)) else { continue };
        let texts = column.as_dictionary_opt::<Int32Type>().map(|texts| texts.keys().values());
        let numbers = column.as_primitive_opt::<Int32Type>().map(|numbers| numbers.values());
        let Some(numbers) = texts.or(numbers) else { continue };
        for ((shape, number), key) in numbers.iter().enumerate().zip(&mut keys) {
            let number =
                if column.is_valid(shape) { number.cast_unsigned().wrapping_add(1) } else { 0 };
            *key = *key << ORDER_BITS | u128::from(number & ((1 << ORDER_BITS) - 1));
        }
    }
    let mut order: Vec<u32> = (0..shapes as u32).collect();
    order.sort_by_key(|shape| keys[*shape as usize]);
    order
}

/// A 128-bit hash in place of values. Collisions are practically impossible, and nobody can
/// construct one, since the hash keys are random.
pub(super) type Hash = [u64; 2];

const STEPS: Hash = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

/// A hash that also depends on this number.
pub(super) const fn with(hash: Hash, number: Hash) -> Hash {
    [fold(hash[0] ^ number[0], STEPS[0]), fold(hash[1] ^ number[1], STEPS[1])]
}

/// Adds a part's hash to a sum. The order of parts does not matter.
pub(super) const fn add(to: &mut Hash, part: Hash) {
    *to = [to[0].wrapping_add(part[0]), to[1].wrapping_add(part[1])];
}

/// Computes hashes of values.
pub(super) struct Hasher([RandomState; 2]);

impl Hasher {
    pub(super) fn new() -> Self {
        Self([RandomState::new(), RandomState::new()])
    }

    pub(super) fn hash(&self, value: impl std::hash::Hash + Copy) -> Hash {
        [self.0[0].hash_one(value), self.0[1].hash_one(value)]
    }

    /// For each row of a batch, the sum of the hashes of its values, each combined with its
    /// column's number. A value that all rows share is added once.
    ///
    /// # Errors
    /// If the batch does not have the span schema.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<Vec<Hash>, ArrowError> {
        let mut hashes = vec![[0; 2]; batch.num_rows()];
        let mut of_all = [1, 2];
        let schema = span_schema();
        for (number, name) in (1..).zip(SHAPED) {
            let array = batch.column(schema.index_of(name)?);
            // A row without a value adds nothing.
            if array.null_count() == array.len() {
                continue;
            }
            match array.data_type() {
                DataType::Dictionary(..) => {
                    self.texts(array, number, &mut hashes, &mut of_all)?;
                }
                DataType::Int32 => self.numbers::<Int32Type>(array, number, &mut hashes),
                DataType::UInt16 => self.numbers::<UInt16Type>(array, number, &mut hashes),
                DataType::UInt32 => self.numbers::<UInt32Type>(array, number, &mut hashes),
                other => {
                    return Err(ArrowError::SchemaError(format!("{name} cannot be {other}")));
                }
            }
        }
        hashes.iter_mut().for_each(|hash| add(hash, of_all));
        Ok(hashes)
    }

    fn value(&self, value: impl std::hash::Hash + Copy, column: u64) -> Hash {
        with(self.hash(value), [column; 2])
    }

    fn texts(
        &self,
        array: &ArrayRef,
        column: u64,
        to: &mut [Hash],
        of_all: &mut Hash,
    ) -> Result<(), ArrowError> {
        let mistyped = || ArrowError::SchemaError("a column is no dictionary".to_owned());
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(mistyped)?;
        let values = array.values().as_string_opt::<i32>().ok_or_else(mistyped)?;
        let hashes: Vec<Hash> = (values.iter())
            .map(|text| text.map_or([0; 2], |text| self.value(text, column)))
            .collect();
        let keys = array.keys();
        if let ([only], 0) = (hashes.as_slice(), keys.null_count()) {
            add(of_all, *only);
            return Ok(());
        }
        for (row, (hash, key)) in to.iter_mut().zip(keys.values()).enumerate() {
            let value = usize::try_from(*key).ok().and_then(|key| hashes.get(key));
            if let Some(value) = value.filter(|_| keys.is_valid(row)) {
                add(hash, *value);
            }
        }
        Ok(())
    }

    fn numbers<T>(&self, array: &ArrayRef, column: u64, to: &mut [Hash])
    where
        T: ArrowPrimitiveType<Native: std::hash::Hash>,
    {
        let array: &PrimitiveArray<T> = array.as_primitive();
        let mut before = None;
        for (hash, number) in to.iter_mut().zip(array) {
            let Some(number) = number else { continue };
            let value = match before {
                Some((known, value)) if known == number => value,
                _ => self.value(number, column),
            };
            before = Some((number, value));
            add(hash, value);
        }
    }
}
