//! Ids, which join the tables of a batch: written as differences (the
//! specification's "Transport Optimized Encodings").

use arrow::array::{UInt16Array, UInt32Array};
use arrow::datatypes::DataType;

use super::OtapError;
use super::columns::{Column, Columns};

/// How a column of ids is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    /// Each as the difference to the one before.
    Delta,
    /// The same, but only where the rest of the row is as in the one before.
    QuasiDelta,
}

/// Key of a column's metadata under which the Rust producer says how it is
/// written; the Go producer says nothing, and uses what is usual.
const ENCODING: &str = "encoding";

/// A column of ids, of 16 or 32 bits.
pub(super) struct IdColumn<'a> {
    columns: Columns<'a>,
    name: &'static str,
    cells: Cells<'a>,
    /// As the sender says.
    encoding: Option<Encoding>,
}

enum Cells<'a> {
    U16(Column<'a, UInt16Array>),
    U32(Column<'a, UInt32Array>),
}

impl<'a> IdColumn<'a> {
    pub(super) fn new(columns: Columns<'a>, name: &'static str) -> Result<Self, OtapError> {
        let field = columns.find(name).map(|(field, _)| field);
        let encoding = match field.and_then(|field| field.metadata().get(ENCODING)) {
            None => None,
            Some(text) => Some(match text.as_str() {
                "plain" => Encoding::Plain,
                "delta" => Encoding::Delta,
                "quasidelta" => Encoding::QuasiDelta,
                other => {
                    return Err(columns.malformed(format_args!(
                        "column `{name}` has the unknown encoding {other:?}"
                    )));
                }
            }),
        };
        let wide = field.is_some_and(|field| match field.data_type() {
            DataType::Dictionary(_, values) => **values == DataType::UInt32,
            other => *other == DataType::UInt32,
        });
        let cells = if wide {
            Cells::U32(columns.column(name)?)
        } else {
            Cells::U16(columns.column(name)?)
        };
        Ok(Self { columns, name, cells, encoding })
    }

    /// Whether the sender says how the column is written.
    pub(super) const fn is_explicit(&self) -> bool {
        self.encoding.is_some()
    }

    fn get(&self, row: usize) -> Option<u32> {
        match &self.cells {
            Cells::U16(cells) => cells.get(row).map(u32::from),
            Cells::U32(cells) => cells.get(row),
        }
    }

    /// The sum, in as many bits as the column has: a difference may be negative.
    const fn sum(&self, id: u32, difference: u32) -> u32 {
        match self.cells {
            Cells::U16(_) => id.wrapping_add(difference) & 0xffff,
            Cells::U32(_) => id.wrapping_add(difference),
        }
    }

    /// Ids of the rows themselves; rows to which nothing refers have none.
    pub(super) fn own(&self) -> Result<Vec<Option<u32>>, OtapError> {
        let plain = match self.encoding {
            None | Some(Encoding::Delta) => false,
            Some(Encoding::Plain) => true,
            Some(Encoding::QuasiDelta) => {
                return Err(self.columns.malformed(format_args!(
                    "column `{}` has the encoding of parent ids",
                    self.name
                )));
            }
        };
        let mut before = 0;
        let ids = (0..self.columns.rows()).map(|row| {
            let value = self.get(row)?;
            before = if plain { value } else { self.sum(before, value) };
            Some(before)
        });
        Ok(ids.collect())
    }

    /// Ids of the rows that these belong to. `same` is asked of each row in turn
    /// whether it is as the one before it.
    pub(super) fn parents(
        &self,
        mut same: impl FnMut(usize) -> Result<bool, OtapError>,
    ) -> Result<Parents, OtapError> {
        let encoding = self.encoding.unwrap_or(Encoding::QuasiDelta);
        let mut before = 0;
        let mut pairs = Vec::with_capacity(self.columns.rows());
        for row in 0..self.columns.rows() {
            let value = self.get(row).ok_or_else(|| {
                self.columns.malformed(format_args!("row {row} has no `{}`", self.name))
            })?;
            let same = same(row)?;
            let is_difference = match encoding {
                Encoding::Plain => false,
                Encoding::Delta => true,
                Encoding::QuasiDelta => same,
            };
            before = if is_difference { self.sum(before, value) } else { value };
            // Bounded by the rows that a batch may have.
            pairs.push((before, u32::try_from(row).unwrap_or(u32::MAX)));
        }
        Ok(Parents::new(pairs))
    }
}

/// Which rows belong to which.
#[derive(Debug, Default)]
pub(super) struct Parents {
    /// Parent and row, in order.
    pairs: Vec<(u32, u32)>,
}

impl Parents {
    fn new(mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        Self { pairs }
    }

    /// The rows that belong to this one.
    pub(super) fn rows_of(&self, parent: u32) -> impl Iterator<Item = usize> {
        let from = self.pairs.partition_point(|(other, _)| *other < parent);
        let rows = self.pairs[from..].iter().take_while(move |(other, _)| *other == parent);
        rows.filter_map(|(_, row)| usize::try_from(*row).ok())
    }

    /// How many rows belong to none of these.
    pub(super) fn orphans(&self, owners: &[Option<u32>]) -> usize {
        let mut owners: Vec<u32> = owners.iter().copied().flatten().collect();
        owners.sort_unstable();
        let mut owners = owners.into_iter().peekable();
        let is_orphan = |&&(parent, _): &&(u32, u32)| {
            while owners.next_if(|owner| *owner < parent).is_some() {}
            owners.peek() != Some(&parent)
        };
        self.pairs.iter().filter(is_orphan).count()
    }
}
