//! Ids, which join the tables of a batch. They are delta-encoded (the specification's "Transport
//! Optimized Encodings").

use arrow::array::{UInt16Array, UInt32Array};
use arrow::datatypes::DataType;

use super::OtapError;
use super::columns::{Column, Columns};

/// The encoding of a column of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    /// Differences to the previous id.
    Delta,
    /// Differences, but only if the rest of the row equals the previous row.
    QuasiDelta,
}

/// Metadata key of a column's encoding. The Rust producer sets it. The Go producer does not, and
/// uses the default.
const ENCODING: &str = "encoding";

/// A column of 16-bit or 32-bit ids.
pub(super) struct IdColumn<'a> {
    columns: Columns<'a>,
    name: &'static str,
    cells: Cells<'a>,
    /// The declared encoding.
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

    /// Whether the encoding is declared.
    pub(super) const fn is_explicit(&self) -> bool {
        self.encoding.is_some()
    }

    fn get(&self, row: usize) -> Option<u32> {
        match &self.cells {
            Cells::U16(cells) => cells.get(row).map(u32::from),
            Cells::U32(cells) => cells.get(row),
        }
    }

    /// The sum with the column's width. A difference may be negative.
    const fn sum(&self, id: u32, difference: u32) -> u32 {
        match self.cells {
            Cells::U16(_) => id.wrapping_add(difference) & 0xffff,
            Cells::U32(_) => id.wrapping_add(difference),
        }
    }

    /// The ids of the rows themselves. Rows that nothing refers to have none.
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

    /// The ids of the rows' parents. `same` returns whether a row equals the previous one.
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
            // Limited by the maximum rows of a batch.
            pairs.push((before, u32::try_from(row).unwrap_or(u32::MAX)));
        }
        Ok(Parents::new(pairs))
    }
}

/// Which rows belong to which parent.
#[derive(Debug, Default)]
pub(super) struct Parents {
    /// Parent and row, sorted.
    pairs: Vec<(u32, u32)>,
}

impl Parents {
    fn new(mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        Self { pairs }
    }

    /// The rows of this parent.
    pub(super) fn rows_of(&self, parent: u32) -> impl Iterator<Item = usize> {
        let from = self.pairs.partition_point(|(other, _)| *other < parent);
        let rows = self.pairs[from..].iter().take_while(move |(other, _)| *other == parent);
        rows.filter_map(|(_, row)| usize::try_from(*row).ok())
    }

    /// Number of rows without a parent among these.
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
