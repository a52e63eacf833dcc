//! Rows by the value of one attribute: of the columns only those are read that
//! may hold it.

use std::ops::Range;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use spanwise_model::schema::column;

use super::files::SpanFile;
use super::layout::{Own, Shapes, file_column};
use super::{attribute, reader};
use crate::contract::AttributeMatch;

/// Whether [`narrow`] leaves just the rows that have the attribute: each row's
/// value of this key is in one column, if there is one.
pub(super) fn is_exact(file: &SpanFile, key: &str) -> bool {
    let all = file.layout.own.iter().chain(&file.layout.shaped);
    let mut types = all.filter(|own| own.key == key).map(|own| own.own_type);
    let first = types.next();
    // What a shape has, the row does not have once more.
    types.all(|other| Some(other) == first) && !file.may_map(key)
}

/// Those of some rows, given in order, that may have this value of an attribute:
/// somewhere they do. A row whose attributes have the key more than once may have
/// another one first.
///
/// # Errors
/// Where the file is damaged.
pub(super) fn narrow(
    file: &SpanFile,
    rows: &[Range<usize>],
    wanted: &AttributeMatch,
) -> Result<Vec<Range<usize>>, ParquetError> {
    let layout = &file.layout;
    let own: Vec<(usize, &Own)> =
        layout.own_places().filter(|(_, own)| own.key == wanted.key).collect();
    let shaped: Vec<(usize, &Own)> =
        layout.shaped_places().filter(|(_, own)| own.key == wanted.key).collect();
    let is_mapped = file.may_map(&wanted.key);
    let mut left: Vec<Range<usize>> = Vec::new();
    for (group, rows) in reader::by_group(file, rows) {
        let shapes = match shaped.is_empty() {
            true => None,
            false => {
                // The number of each shape comes first.
                let places: Vec<usize> =
                    std::iter::once(0).chain(shaped.iter().map(|(place, _)| *place)).collect();
                let shapes = file.shapes.group(group, &places)?;
                let has = any_equals(shapes.rows(), &shaped, &wanted.value)?;
                has.contains(&true).then_some((shapes, has))
            }
        };
        let mut places: Vec<usize> = own.iter().map(|(place, _)| *place).collect();
        let mut also = |needed: bool, name| -> Result<(), ArrowError> {
            if needed {
                places.push(layout.schema.index_of(name)?);
            }
            Ok(())
        };
        also(shapes.is_some(), file_column::SHAPE)?;
        also(is_mapped && layout.schema.index_of(column::ATTRIBUTES).is_ok(), column::ATTRIBUTES)?;
        if places.is_empty() {
            continue;
        }
        let mut numbers = rows.iter().cloned().flatten();
        for batch in reader::read_places(file, group, &rows, places)? {
            let shapes = shapes.as_ref().map(|(shapes, has)| (shapes.as_ref(), has.as_slice()));
            let has = rows_with(&batch, &own, shapes, wanted)?;
            for (number, _) in
                numbers.by_ref().take(batch.num_rows()).zip(has).filter(|(_, has)| *has)
            {
                match left.last_mut() {
                    Some(last) if last.end == number => last.end += 1,
                    _ => left.push(number..number + 1),
                }
            }
        }
    }
    Ok(left)
}

/// Which rows have the text in any of these columns.
fn any_equals(
    batch: &RecordBatch,
    columns: &[(usize, &Own)],
    text: &str,
) -> Result<Vec<bool>, ArrowError> {
    let mut any = vec![false; batch.num_rows()];
    for (_, own) in columns {
        let Some(column) = batch.column_by_name(&own.name()) else { continue };
        let equal = own.equals(column, text)?;
        let has_value = |row: &usize| equal.is_valid(*row);
        equal.values().set_indices().filter(has_value).for_each(|row| any[row] = true);
    }
    Ok(any)
}

/// Which rows have the value in columns of their own, in their shapes, of which
/// some have it, or in their maps.
fn rows_with(
    batch: &RecordBatch,
    own: &[(usize, &Own)],
    shapes: Option<(&Shapes, &[bool])>,
    wanted: &AttributeMatch,
) -> Result<Vec<bool>, ArrowError> {
    let mut has = any_equals(batch, own, &wanted.value)?;
    if let Some((shapes, has_it)) = shapes {
        let places = shapes.places(batch)?;
        for (has, place) in has.iter_mut().zip(places.values()) {
            *has |= has_it[*place as usize];
        }
    }
    let maps = batch.column_by_name(column::ATTRIBUTES).and_then(|column| column.as_map_opt());
    let texts = maps.and_then(|maps| attribute::texts(maps, &wanted.key));
    for (has, text) in has.iter_mut().zip(texts.into_iter().flatten()) {
        *has |= text == Some(wanted.value.as_str());
    }
    Ok(has)
}
