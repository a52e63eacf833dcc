//! Converts rows of a file to rows of the span schema.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, Int64Array, RecordBatch,
    RecordBatchOptions, UInt32Array, new_empty_array, new_null_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Int32Type, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use spanwise_model::absent::without_values;
use spanwise_model::schema::{column, span_schema};

use super::derived;
use super::maps::{self, Source};
use super::own::Texts;
use super::{Layout, Parents, SHAPE_FIELDS, SHAPED, file_column};

/// The requested parts of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Columns of the span schema; `None` means all.
    pub(crate) columns: Option<&'a [&'static str]>,
    /// Keys of attributes; `None` means all.
    pub(crate) keys: Option<&'a [&'a str]>,
    /// Whether parent ids are requested, or only whether there is a parent.
    pub(crate) parent_ids: bool,
}

impl<'a> Wanted<'a> {
    /// Everything.
    pub(crate) const ALL: Self = Self { columns: None, keys: None, parent_ids: true };

    /// Only these columns.
    pub(crate) const fn columns(columns: &'a [&'static str]) -> Self {
        Self { columns: Some(columns), ..Self::ALL }
    }

    fn has(&self, name: &str) -> bool {
        self.columns.is_none_or(|columns| columns.contains(&name))
    }

    fn has_client(&self) -> bool {
        self.has(column::CLIENT_ADDRESS) || self.has(column::CLIENT_PORT)
    }

    /// Whether any requested column may be derived from others.
    fn has_following(&self) -> bool {
        [column::ASSEMBLED_TRACE_ID, column::ASSEMBLED_PARENT, column::CONFIDENCE]
            .iter()
            .any(|name| self.has(name))
            || self.has_client()
    }

    /// Whether the attribute must be read.
    fn has_key(&self, key: &str) -> bool {
        self.has(column::ATTRIBUTES) && self.keys.is_none_or(|keys| keys.contains(&key))
            || self.has_client() && derived::is_of_client(key)
    }

    /// Whether ids of other rows are needed.
    pub(crate) fn needs_parents(&self) -> bool {
        self.parent_ids && (self.has(column::PARENT_SPAN_ID) || self.has(column::ASSEMBLED_PARENT))
    }

    /// Indexes of the shapes' columns that must be read. Empty if nothing of the shapes is needed.
    pub(crate) fn shape_places(&self, layout: &Layout) -> Vec<usize> {
        let fields = layout.shapes_schema.fields().iter();
        let fixed = fields.take(SHAPE_FIELDS).map(|field| match field.name().as_str() {
            file_column::FOLLOWS => self.has_following(),
            // Never part of a row.
            file_column::LONGEST_IN_BLOCKS => false,
            column::EVIDENCE => self.has(column::EVIDENCE) || self.has(column::CONFIDENCE),
            name => self.has(name),
        });
        let shaped = layout.shaped.iter().map(|own| self.has_key(&own.key));
        let places = fixed.chain(shaped).enumerate().skip(1);
        let places: Vec<usize> = places.filter(|(_, has)| *has).map(|(place, _)| place).collect();
        // The shape's number comes first.
        match places.is_empty() {
            true => places,
            false => std::iter::once(0).chain(places).collect(),
        }
    }

    /// Whether the map of attributes must be read. `may_map` says which keys it may contain.
    fn needs_map(&self, may_map: impl Fn(&str) -> bool) -> bool {
        let of_keys = |keys: &[&str]| keys.iter().any(|key| may_map(key));
        self.has(column::ATTRIBUTES) && self.keys.is_none_or(of_keys)
            || self.has_client() && derived::client_keys().any(may_map)
    }

    /// Indexes of the file's columns that must be read. `may_map` says which keys the map may
    /// contain.
    pub(crate) fn places(&self, layout: &Layout, may_map: impl Fn(&str) -> bool) -> Vec<usize> {
        let needs_map = self.needs_map(may_map);
        let needed = |name: &str| match name {
            file_column::SHAPE => !self.shape_places(layout).is_empty(),
            column::TRACE_ID => self.has(name) || self.has(column::ASSEMBLED_TRACE_ID),
            column::SPAN_ID => self.has(name) || self.needs_parents(),
            column::PARENT_SPAN_ID | file_column::PARENT_ROW_OFFSET => {
                self.has(column::PARENT_SPAN_ID) || self.has(column::ASSEMBLED_PARENT)
            }
            file_column::ASSEMBLED_PARENT_ROW_OFFSET => self.has(column::ASSEMBLED_PARENT),
            column::ATTRIBUTES => needs_map,
            _ => self.has(name),
        };
        let first = layout.schema.fields().len() - layout.own.len();
        let common = layout.schema.fields().iter().take(first).enumerate();
        let common = common.filter(|(_, field)| needed(field.name())).map(|(place, _)| place);
        let own = layout.own.iter().enumerate().filter(|(_, own)| self.has_key(&own.key));
        common.chain(own.map(|(place, _)| first + place)).collect()
    }

    /// The schema of the result.
    pub(crate) fn schema(&self) -> SchemaRef {
        let all = span_schema();
        if self.columns.is_none() {
            return all;
        }
        let fields = all.fields().iter().filter(|field| self.has(field.name())).cloned();
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// The shapes of a row group, all or some of them.
#[derive(Debug)]
pub(crate) struct Shapes {
    rows: RecordBatch,
    numbers: Numbers,
}

/// The numbers of the shapes, ascending.
#[derive(Debug)]
enum Numbers {
    /// Consecutive, from this one on.
    From(i64),
    Some(Vec<i64>),
}

impl Shapes {
    /// All shapes of a row group. Returns `None` if their numbers are not consecutive.
    pub(crate) fn all(rows: RecordBatch) -> Option<Self> {
        let (rows, numbers) = Self::numbered(rows)?;
        let first = *numbers.first()?;
        let in_order = numbers.iter().zip(first..).all(|(number, next)| *number == next);
        in_order.then_some(Self { rows, numbers: Numbers::From(first) })
    }

    /// The shapes of a row group with these numbers, ascending. Returns `None` if the rows have
    /// other numbers.
    pub(crate) fn some(rows: RecordBatch, wanted: Vec<i64>) -> Option<Self> {
        let (rows, numbers) = Self::numbered(rows)?;
        (*numbers == *wanted).then_some(Self { rows, numbers: Numbers::Some(wanted) })
    }

    /// The shapes without their numbers, which take more memory than one or two of the other
    /// columns.
    fn numbered(mut rows: RecordBatch) -> Option<(RecordBatch, ScalarBuffer<i64>)> {
        let place = rows.schema().index_of(file_column::SHAPE).ok()?;
        let numbers = rows.remove_column(place);
        let numbers = numbers.as_primitive_opt::<Int64Type>()?.values().clone();
        Some((rows, numbers))
    }

    /// The number of the first shape, if these are all shapes.
    pub(crate) const fn first(&self) -> Option<i64> {
        match &self.numbers {
            Numbers::From(first) => Some(*first),
            Numbers::Some(_) => None,
        }
    }

    /// Memory that the shapes use.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.rows.get_array_memory_size()
    }

    /// The columns of the shapes, without their numbers.
    pub(crate) const fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    /// The index of each row's shape.
    ///
    /// # Errors
    /// If a row has none of these shapes.
    pub(crate) fn places(&self, batch: &RecordBatch) -> Result<UInt32Array, ArrowError> {
        let place = |number: &i64| {
            let place = match &self.numbers {
                Numbers::From(first) => u32::try_from(number.wrapping_sub(*first)).ok(),
                Numbers::Some(numbers) => {
                    numbers.binary_search(number).ok().map(|place| place as u32)
                }
            };
            let place = place.filter(|place| (*place as usize) < self.rows.num_rows());
            place.ok_or_else(not_of_file)
        };
        let numbers = shape_numbers(batch)?.values();
        numbers.iter().map(place).collect::<Result<Vec<u32>, _>>().map(UInt32Array::from)
    }

    fn column(&self, name: &str) -> Result<&ArrayRef, ArrowError> {
        self.rows
            .column_by_name(name)
            .ok_or_else(|| ArrowError::SchemaError(format!("shapes have no column {name}")))
    }
}

/// The shape numbers of rows that were read.
///
/// # Errors
/// If the numbers were not read.
pub(crate) fn shape_numbers(batch: &RecordBatch) -> Result<&Int64Array, ArrowError> {
    let numbers = batch.column_by_name(file_column::SHAPE);
    let numbers = numbers.and_then(|array| array.as_primitive_opt());
    numbers.ok_or_else(|| ArrowError::SchemaError("there are no shapes".to_owned()))
}

pub(crate) fn not_of_file() -> ArrowError {
    ArrowError::ParquetError("a row's shape is not among the file's".to_owned())
}

/// Expands a column of shapes to one of rows. A dictionary is reduced to the texts in use, each
/// once.
pub(crate) fn of_shapes(array: &ArrayRef, places: &UInt32Array) -> Result<ArrayRef, ArrowError> {
    let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() else {
        return take(array, places, None);
    };
    let mut numbers: Vec<i32> = vec![-1; dictionary.values().len()];
    let mut used: Vec<u32> = Vec::new();
    let keys = dictionary.keys();
    let keys: Int32Array = (places.values().iter())
        .map(|place| {
            let place = *place as usize;
            let key = keys.is_valid(place).then(|| keys.value(place))?;
            let text = usize::try_from(key).ok()?;
            let number = numbers.get_mut(text)?;
            if *number < 0 {
                *number = used.len() as i32;
                used.push(text as u32);
            }
            Some(*number)
        })
        .collect();
    let values = take(dictionary.values(), &UInt32Array::from(used), None)?;
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}

/// Restores rows of the span schema. The batch is of one row group and has the [requested
/// columns](Wanted::places). Its first row is number `first` of all rows read from the group.
///
/// # Errors
/// If the batch does not come from such a file.
pub(crate) fn restore(
    layout: &Layout,
    batch: &RecordBatch,
    first: usize,
    wanted: &Wanted<'_>,
    shapes: Option<&Shapes>,
    parents: &Parents,
) -> Result<RecordBatch, ArrowError> {
    let rows = batch.num_rows();
    let all = span_schema();
    let plain = |name: &str| match batch.column_by_name(name) {
        Some(array) => Ok(Arc::clone(array)),
        None => without_values(all.field_with_name(name)?, rows),
    };
    let ids = |name: &str, offsets: &str| {
        parents.restore(&plain(name)?, batch.column_by_name(offsets), first)
    };
    let known = || shapes.ok_or_else(|| ArrowError::SchemaError("no shapes were read".to_owned()));
    let places = match shapes {
        Some(shapes) => Some(shapes.places(batch)?),
        None => None,
    };
    let places = places.as_ref();
    let attributes = |keep: &dyn Fn(&str) -> bool| -> Result<ArrayRef, ArrowError> {
        let mut sources = Vec::new();
        for own in layout.own.iter().filter(|own| keep(&own.key)) {
            let array = batch.column_by_name(&own.name()).cloned();
            let array =
                array.unwrap_or_else(|| new_null_array(own.field(Texts::Plain).data_type(), rows));
            sources.push(Source { own, array, of_shapes: false });
        }
        for own in layout.shaped.iter().filter(|own| keep(&own.key)) {
            let array = Arc::clone(known()?.column(&own.name())?);
            sources.push(Source { own, array, of_shapes: true });
        }
        let rest = batch.column_by_name(column::ATTRIBUTES);
        match places {
            Some(places) => maps::join(places.values(), &mut sources, rest),
            // No attribute of shapes is requested, so any shape will do.
            None => maps::join(&vec![0; rows], &mut sources, rest),
        }
    };
    let shaped = |name: &str| match places {
        Some(places) => of_shapes(known()?.column(name)?, places),
        None => known().and_then(|shapes| Ok(new_empty_array(shapes.column(name)?.data_type()))),
    };
    // Several columns are derived from this one. Read only if one of them is requested.
    let empty = || Ok(new_empty_array(&DataType::Null));
    let follows = if wanted.has_following() { shaped(file_column::FOLLOWS) } else { empty() }?;
    let has_sent = wanted.has(column::PARENT_SPAN_ID) || wanted.has(column::ASSEMBLED_PARENT);
    let sent = match has_sent {
        true => ids(column::PARENT_SPAN_ID, file_column::PARENT_ROW_OFFSET)?,
        false => empty()?,
    };
    let client = if wanted.has_client() { attributes(&derived::is_of_client) } else { empty() }?;
    let schema = wanted.schema();
    let columns = schema.fields().iter().map(|field| match field.name().as_str() {
        column::PARENT_SPAN_ID => Ok(Arc::clone(&sent)),
        column::ASSEMBLED_TRACE_ID => {
            derived::assembled(&follows, &plain(field.name())?, &plain(column::TRACE_ID)?)
        }
        column::ASSEMBLED_PARENT => {
            let found = ids(field.name(), file_column::ASSEMBLED_PARENT_ROW_OFFSET)?;
            derived::assembled(&follows, &found, &sent)
        }
        column::CLIENT_ADDRESS => {
            derived::client_addresses(&follows, &plain(field.name())?, client.as_map())
        }
        column::CLIENT_PORT => {
            derived::client_ports(&follows, &plain(field.name())?, client.as_map())
        }
        column::ATTRIBUTES => attributes(&|key| wanted.keys.is_none_or(|keys| keys.contains(&key))),
        column::CONFIDENCE => {
            derived::confidences(&follows, &plain(field.name())?, &shaped(column::EVIDENCE)?)
        }
        name if SHAPED.contains(&name) => shaped(name),
        name => plain(name),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options)
}
