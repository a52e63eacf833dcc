//! How many rows there are, of each kind and in each interval.

use ahash::AHashMap;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use spanwise_model::schema::column;

use super::{StoreError, TimeRange};

/// Intervals of all kinds together, at most.
const MAX_CELLS: usize = 8_000_000;

/// Which rows are counted, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counting {
    /// Columns of words that each row has: its service, operation, kind or status.
    pub columns: Vec<&'static str>,
    /// When they started; both ends are given.
    pub time: TimeRange,
    /// Length of the intervals, of which the first begins with the time.
    pub step_nano: i64,
}

/// Rows with the same words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowCounts {
    /// The words, in the order of the columns.
    pub words: Vec<String>,
    /// How many rows there are in each interval.
    pub intervals: Vec<u64>,
}

impl Counting {
    /// Number of intervals.
    pub(crate) fn intervals(&self) -> usize {
        let TimeRange { from_unix_nano, to_unix_nano } = self.time;
        let length = i128::from(to_unix_nano) - i128::from(from_unix_nano);
        let step = i128::from(self.step_nano.max(1));
        usize::try_from((length + step - 1) / step).unwrap_or(0)
    }

    /// The interval of a start that is in the time.
    pub(crate) const fn interval(&self, start_unix_nano: i64) -> usize {
        let since = start_unix_nano.wrapping_sub(self.time.from_unix_nano).cast_unsigned();
        (since / self.step_nano.cast_unsigned()) as usize
    }

    /// That it has as many intervals as can be counted.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.step_nano < 1 || self.intervals() > MAX_CELLS {
            let intervals = self.intervals();
            return Err(StoreError::Limit(format!("there are {intervals} intervals to count")));
        }
        Ok(())
    }

    /// The same as a statement in SQL, for stores that count so.
    pub(super) fn statement(&self) -> String {
        let TimeRange { from_unix_nano: from, to_unix_nano: to } = self.time;
        let words: String = self.columns.iter().map(|column| format!("{column}, ")).collect();
        let (start, step) = (column::START_UNIX_NANO, self.step_nano);
        format!(
            "SELECT {words}CAST(floor(({start} - {from}) / {step}) AS BIGINT) AS place, \
             count(*) AS n FROM spans WHERE {start} >= {from} AND {start} < {to} \
             GROUP BY {words}place"
        )
    }
}

/// Counts under way.
#[derive(Debug)]
pub(crate) struct Counts {
    intervals: usize,
    kinds: AHashMap<Vec<String>, Vec<u64>>,
}

impl Counts {
    pub(crate) fn new(counting: &Counting) -> Self {
        Self { intervals: counting.intervals(), kinds: AHashMap::new() }
    }

    /// The counts of a kind, to be added to.
    pub(crate) fn of(&mut self, words: Vec<String>) -> Result<&mut Vec<u64>, StoreError> {
        if (self.kinds.len() + 1).saturating_mul(self.intervals) > MAX_CELLS
            && !self.kinds.contains_key(&words)
        {
            return Err(StoreError::Limit(format!(
                "there are more than {} kinds of rows to count in {} intervals",
                self.kinds.len(),
                self.intervals
            )));
        }
        Ok(self.kinds.entry(words).or_insert_with(|| vec![0; self.intervals]))
    }

    /// What the [statement](Counting::statement) gave.
    pub(super) fn add(&mut self, batch: &RecordBatch, columns: usize) -> Result<(), StoreError> {
        let cast_to = |place: usize, to: &DataType| -> Result<_, ArrowError> {
            let column = batch.columns().get(place);
            let missing = || ArrowError::SchemaError("a count lacks a column".to_owned());
            cast(column.ok_or_else(missing)?, to)
        };
        let failed = |source: ArrowError| StoreError::Engine {
            context: "cannot read counts".to_owned(),
            source: Box::new(source),
        };
        let words = (0..columns).map(|place| cast_to(place, &DataType::Utf8));
        let words = words.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let places = cast_to(columns, &DataType::Int64).map_err(failed)?;
        let counts = cast_to(columns + 1, &DataType::Int64).map_err(failed)?;
        let (places, counts) =
            (places.as_primitive::<Int64Type>(), counts.as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let word = |words: &arrow::array::ArrayRef| {
                let words = words.as_string::<i32>();
                if words.is_null(row) { String::new() } else { words.value(row).to_owned() }
            };
            let place = usize::try_from(places.value(row)).unwrap_or(usize::MAX);
            let counted = self.of(words.iter().map(word).collect())?.get_mut(place);
            if let Some(counted) = counted {
                *counted += counts.value(row).max(0).cast_unsigned();
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Vec<RowCounts> {
        let kinds = self.kinds.into_iter();
        kinds.map(|(words, intervals)| RowCounts { words, intervals }).collect()
    }
}
