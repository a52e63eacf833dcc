//! The layout of rows in a file. Any Parquet reader can read the columns. Repeated values are
//! written once, and derivable ones not at all.
//!
//! A file has the columns of the span row, with these differences:
//!
//! - `shape` is the number of a row in another file, the shapes file. It contains what many spans
//!   have in common: the columns [`SHAPED`], and attributes with frequent values. Each attribute
//!   has its own column, named by type and key, such as `string:http.route` or `int:server.port`.
//!   The row groups of both files correspond.
//! - Every other frequent attribute has its own column in the file itself. Values of one key are
//!   similar, and a search for one key reads no other. Texts of hexadecimal digits or UUIDs are
//!   stored as bytes in `hex:request.id` or `uuid:user.id`. Texts of the same attribute that are
//!   neither are in `string:…` or in the map. The map `attributes` contains the remaining ones.
//! - `parent_row_offset` is the distance in rows to the parent's row within the row group. If it
//!   has a value, `parent_span_id` is null. `assembled_parent_row_offset` is the same for
//!   `assembled_parent`.
//! - `follows`, in the shapes file, says which columns are derived and therefore null. It is the
//!   sum of: 1 if `assembled_trace_id` and `assembled_parent` equal `trace_id` and
//!   `parent_span_id`; 2 if `client_address` and `client_port` equal the attributes
//!   `network.peer.address` and `network.peer.port`; 4 if they equal `client.address` and
//!   `client.port`; 8 if `confidence` is 1 with `evidence` and null without.
//! - `longest_in_blocks`, in the shapes file, has for each block of the row group the [approximate
//!   length](super::lengths) of the longest span; 0 if the block has no span of the shape. Of all
//!   shapes with the same service, operation and status, the first has the values for all, and the
//!   others are null.
//! - A column without any value may be missing.
//!
//! Offsets and shape numbers remain valid when a row group is copied into another file.

mod derived;
mod digits;
mod fixed;
mod longest;
mod maps;
mod own;
mod parents;
mod plan;
mod restore;
mod shapes;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use derived::{Packed, assembled_as_sent, pack};
pub(crate) use fixed::SHAPED;
pub(crate) use longest::ASKED;
pub(crate) use own::{Own, OwnType, Sought};
pub(crate) use parents::{Parents, SpanIds};
pub(crate) use plan::Plan;
pub(crate) use restore::{Shapes, Wanted, not_of_file, of_shapes, restore, shape_numbers};
pub(crate) use shapes::{NUMBERS as SHAPE_NUMBERS, OwnEncoders, Rows};

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use spanwise_model::schema::{column, span_schema};

use own::Texts;

use super::index::block_sets::MOST_BLOCKS;

/// Names of columns that only exist in files.
pub(crate) mod file_column {
    pub(crate) const SHAPE: &str = "shape";
    pub(crate) const FOLLOWS: &str = "follows";
    pub(crate) const LONGEST_IN_BLOCKS: &str = "longest_in_blocks";
    pub(crate) const PARENT_ROW_OFFSET: &str = "parent_row_offset";
    pub(crate) const ASSEMBLED_PARENT_ROW_OFFSET: &str = "assembled_parent_row_offset";
}

/// Number of columns before attributes in a file of shapes: the shape's number, `follows`,
/// `longest_in_blocks`, and the [`SHAPED`].
const SHAPE_FIELDS: usize = 3 + SHAPED.len();

/// Maximum attributes of a file with their own columns. A reader's metadata for columns must stay
/// small.
const MAX_OWN: usize = 250;

/// All possible columns besides attributes, in order, and whether each may be missing.
fn common_fields() -> &'static [(FieldRef, bool)] {
    static FIELDS: LazyLock<Vec<(FieldRef, bool)>> = LazyLock::new(|| {
        let optional = |name: &str| Arc::new(Field::new(name, DataType::Int32, true));
        let number = Arc::new(Field::new(file_column::SHAPE, DataType::Int64, false));
        let mut fields = vec![(number, false)];
        let schema = span_schema();
        for field in schema.fields().iter().filter(|f| !SHAPED.contains(&f.name().as_str())) {
            let may_miss = field.is_nullable()
                || [column::EVENTS, column::LINKS, column::ATTRIBUTES]
                    .contains(&field.name().as_str());
            fields.push((Arc::clone(field), may_miss));
            match field.name().as_str() {
                column::PARENT_SPAN_ID => {
                    fields.push((optional(file_column::PARENT_ROW_OFFSET), true));
                }
                column::ASSEMBLED_PARENT => {
                    fields.push((optional(file_column::ASSEMBLED_PARENT_ROW_OFFSET), true));
                }
                _ => {}
            }
        }
        fields
    });
    &FIELDS
}

/// The columns of a file and of its shapes file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Indexes in [`common_fields`], ascending.
    common: Vec<usize>,
    /// Attributes of rows, in order.
    pub(crate) own: Vec<Own>,
    /// Attributes of shapes, in order.
    pub(crate) shaped: Vec<Own>,
    pub(crate) schema: SchemaRef,
    pub(crate) shapes_schema: SchemaRef,
}

impl Layout {
    /// Indexes of the shapes' columns that are read to compare lengths.
    pub(crate) const LENGTHS: [usize; 2] = [0, 2];

    /// A layout with these attribute columns, and those optional columns for which `has` returns
    /// true.
    pub(crate) fn new(own: Vec<Own>, shaped: Vec<Own>, has: impl Fn(&str) -> bool) -> Self {
        let fields = common_fields().iter().enumerate();
        let common = fields
            .filter(|(_, (field, may_miss))| !may_miss || has(field.name()))
            .map(|(place, _)| place);
        Self::of(common.collect(), own, shaped)
    }

    fn of(mut common: Vec<usize>, mut own: Vec<Own>, mut shaped: Vec<Own>) -> Self {
        common.sort_unstable();
        common.dedup();
        for names in [&mut own, &mut shaped] {
            names.sort_unstable();
            names.dedup();
        }
        let fields = common.iter().map(|place| Arc::clone(&common_fields()[*place].0));
        let fields = fields.chain(own.iter().map(|own| own.field(Texts::Plain)));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let span = span_schema();
        let number = Arc::clone(&common_fields()[0].0);
        let follows = Arc::new(Field::new(file_column::FOLLOWS, DataType::UInt8, false));
        let fixed = SHAPED.iter().filter_map(|name| span.field_with_name(name).ok());
        let fixed = fixed.map(|field| Arc::new(field.clone()));
        let lengths = DataType::FixedSizeBinary(MOST_BLOCKS as i32);
        let longest = Arc::new(Field::new(file_column::LONGEST_IN_BLOCKS, lengths, true));
        let fields = [number, follows, longest]
            .into_iter()
            .chain(fixed)
            .chain(shaped.iter().map(|own| own.field(Texts::Dictionary)));
        let shapes_schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { common, own, shaped, schema, shapes_schema }
    }

    /// The layout of an existing file and its shapes. Returns `None` if the columns are not those
    /// of this version.
    pub(crate) fn of_file(schema: &Schema, shapes_schema: &Schema) -> Option<Self> {
        let place = |field: &FieldRef| {
            common_fields().iter().position(|(common, _)| common.name() == field.name())
        };
        let common: Vec<usize> = schema.fields().iter().map_while(place).collect();
        let own = schema.fields().iter().skip(common.len());
        let own: Option<Vec<Own>> = own.map(|field| Own::of_field(field, Texts::Plain)).collect();
        let shaped = shapes_schema.fields().iter().skip(SHAPE_FIELDS);
        let shaped: Option<Vec<Own>> =
            shaped.map(|field| Own::of_field(field, Texts::Dictionary)).collect();
        let layout = Self::of(common, own?, shaped?);
        let whole = Self::new(Vec::new(), Vec::new(), |_| false);
        let has_all = whole.common.iter().all(|place| layout.common.contains(place));
        let same = layout.schema.fields() == schema.fields()
            && layout.shapes_schema.fields() == shapes_schema.fields();
        (has_all && same).then_some(layout)
    }

    /// A layout with the columns of all these layouts, up to the maximum.
    pub(crate) fn union<'a>(layouts: impl IntoIterator<Item = &'a Self>) -> Self {
        let none = Self::new(Vec::new(), Vec::new(), |_| false);
        layouts.into_iter().fold(none, |all, layout| {
            let common = all.common.iter().chain(&layout.common).copied().collect();
            let both = |one: &[Own], other: &[Own]| [one, other].concat();
            let (own, shaped) = (both(&all.own, &layout.own), both(&all.shaped, &layout.shaped));
            let more = Self::of(common, own, shaped);
            match more.own.len().max(more.shaped.len()) <= MAX_OWN {
                true => more,
                false => Self::of(more.common, all.own, all.shaped),
            }
        })
    }

    /// The indexes of attribute columns in a file.
    pub(crate) fn own_places(&self) -> impl Iterator<Item = (usize, &Own)> {
        let first = self.schema.fields().len() - self.own.len();
        self.own.iter().enumerate().map(move |(place, own)| (first + place, own))
    }

    /// The indexes of attribute columns in its shapes file.
    pub(crate) fn shaped_places(&self) -> impl Iterator<Item = (usize, &Own)> {
        self.shaped.iter().enumerate().map(|(place, own)| (SHAPE_FIELDS + place, own))
    }

    /// Whether this layout has all columns of the other one.
    pub(crate) fn has_all_of(&self, other: &Self) -> bool {
        other.common.iter().all(|place| self.common.contains(place))
            && other.own.iter().all(|own| self.own.binary_search(own).is_ok())
            && other.shaped.iter().all(|own| self.shaped.binary_search(own).is_ok())
    }
}
