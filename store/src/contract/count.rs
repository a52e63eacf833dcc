//! How many rows there are, of each kind and in each interval.

use ahash::AHashMap;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
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
    /// Length of the intervals, of which the first begins with the time; of one for all where only
    /// presence is asked for.
    pub step_nano: i64,
    /// Whether it need only be known that there are such rows: counts may be too low, but not 0.
    pub only_presence: bool,
}

/// Rows with the same words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowCounts {
    /// The words, in the order of the columns.
    pub words: Vec<String>,
    /// How many rows there are in each interval.
    pub intervals: Vec<u64>,
}

/// All rows with the same words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTotal {
    /// The words, in the order of the columns.
    pub words: Vec<String>,
    /// How many rows there are.
    pub rows: u64,
    /// The latest start.
    pub last_start_unix_nano: i64,
}

impl RowTotal {
    /// The columns of which totals can be had.
    pub const COLUMNS: [&'static str; 5] =
        [column::SERVICE, column::CAPTURE, column::STATUS, column::OPERATION, column::KIND];

    /// A statement in SQL for totals, for stores that count so.
    pub(super) fn statement(columns: &[&'static str]) -> String {
        let start = column::START_UNIX_NANO;
        let words = columns.join(", ");
        format!(
            "SELECT {words}, CAST(max({start}) AS BIGINT) AS latest, count(*) AS n FROM spans \
             GROUP BY {words}"
        )
    }

    /// What the [statement](Self::statement) gave.
    pub(super) fn read(batch: &RecordBatch, columns: usize) -> Result<Vec<Self>, StoreError> {
        let words = Words::of(batch, columns)?;
        let (latest, rows) = (words.numbers(columns)?, words.numbers(columns + 1)?);
        let total = |row: usize| Self {
            words: words.of_row(row),
            rows: rows.value(row).max(0).cast_unsigned(),
            last_start_unix_nano: latest.value(row),
        };
        Ok((0..batch.num_rows()).map(total).collect())
    }
}

impl Counting {
    /// Number of intervals.
    pub(crate) fn intervals(&self) -> usize {
        if self.only_presence {
            return 1;
        }
        let TimeRange { from_unix_nano, to_unix_nano } = self.time;
        let length = i128::from(to_unix_nano) - i128::from(from_unix_nano);
        let step = i128::from(self.step_nano.max(1));
        usize::try_from((length + step - 1) / step).unwrap_or(0)
    }

    /// The interval of a start that is in the time.
    pub(crate) const fn interval(&self, start_unix_nano: i64) -> usize {
        if self.only_presence {
            return 0;
        }
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
        let place = match self.only_presence {
            true => "0".to_owned(),
            false => format!("floor(({start} - {from}) / {step})"),
        };
        format!(
            "SELECT {words}CAST({place} AS BIGINT) AS place, count(*) AS n FROM spans WHERE {start} >= {from} AND {start} < {to} \
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
        let words = Words::of(batch, columns)?;
        let (places, counts) = (words.numbers(columns)?, words.numbers(columns + 1)?);
        for row in 0..batch.num_rows() {
            let place = usize::try_from(places.value(row)).unwrap_or(usize::MAX);
            if let Some(counted) = self.of(words.of_row(row))?.get_mut(place) {
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

/// The first columns of what a statement gave, as texts.
struct Words<'a> {
    batch: &'a RecordBatch,
    words: Vec<ArrayRef>,
}

impl<'a> Words<'a> {
    fn of(batch: &'a RecordBatch, columns: usize) -> Result<Self, StoreError> {
        let words = (0..columns).map(|place| cast_to(batch, place, &DataType::Utf8));
        Ok(Self { batch, words: words.collect::<Result<_, _>>()? })
    }

    fn of_row(&self, row: usize) -> Vec<String> {
        let word = |words: &ArrayRef| {
            let words = words.as_string::<i32>();
            if words.is_null(row) { String::new() } else { words.value(row).to_owned() }
        };
        self.words.iter().map(word).collect()
    }

    fn numbers(&self, place: usize) -> Result<Int64Array, StoreError> {
        Ok(cast_to(self.batch, place, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
    }
}

fn cast_to(batch: &RecordBatch, place: usize, to: &DataType) -> Result<ArrayRef, StoreError> {
    let missing = || ArrowError::SchemaError("a count lacks a column".to_owned());
    let column = batch.columns().get(place).ok_or_else(missing);
    column.and_then(|column| cast(column, to)).map_err(|source| StoreError::Engine {
        context: "cannot read counts".to_owned(),
        source: Box::new(source),
    })
}
