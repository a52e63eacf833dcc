//! Rows by the value of one attribute: of the columns only those are read that
//! may hold it.

use std::ops::Range;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use spanwise_model::schema::column;

use super::files::SpanFile;
use super::layout::{Own, OwnType, Shapes, file_column};
use super::pages::Group;
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
        if shapes.is_none() && !is_mapped && !may_be_own(file, group, &rows, &own, &wanted.value)? {
            continue;
        }
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

/// Whether some rows of a row group may have the text in any of these columns.
fn may_be_own(
    file: &SpanFile,
    group: usize,
    rows: &[Range<usize>],
    own: &[(usize, &Own)],
    text: &str,
) -> Result<bool, ParquetError> {
    let first = file.group_rows()[group];
    let rows: Vec<Range<usize>> =
        rows.iter().map(|rows| rows.start - first..rows.end - first).collect();
    let schema = file.metadata.parquet_schema();
    let group = Group { file: &file.file, metadata: file.metadata.metadata(), group, keep: false };
    for (place, own) in own {
        let mut leaves = 0..schema.num_columns();
        let leaf = leaves.rfind(|leaf| schema.get_column_root_idx(*leaf) == *place);
        let leaf = leaf.filter(|_| own.own_type == OwnType::String);
        if leaf.map_or(Ok(true), |leaf| group.may_have_text(leaf, &rows, text))? {
            return Ok(true);
        }
    }
    Ok(false)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::origins::TakenRanges;
    use crate::embedded::writer;
    use parquet::basic::Encoding;
    use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId};

    const SPANS: u64 = 9_000;
    const KEYS: [&str; 2] = ["each", "some"];

    /// The one is another for each span, the other for every fourth of some.
    fn value(key: &str, n: u64) -> String {
        match key {
            "each" => format!("value {n}"),
            _ => format!("value {}", n / 4 % 1500),
        }
    }

    #[test]
    fn texts_are_found_in_the_pages_that_have_them_and_others_hardly_ever() {
        let mut builder = SpanBatchBuilder::new();
        for n in 0..SPANS {
            let id = SpanId::from_u64(n + 1).expect("not zero");
            let mut span = Span::new(id, Capture::App, Kind::Internal, "s", "o", n as i64, 1);
            span.attributes = KEYS.map(|key| (key.to_owned(), value(key, n).into())).to_vec();
            builder.push(&span);
        }
        let directory = tempfile::tempdir().expect("a directory");
        let notes =
            writer::Notes { origins: TakenRanges::new(), deletions: 0, written_unix_nano: 0 };
        let rows = [builder.finish().expect("a batch").into()];
        let file = writer::write(directory.path(), (1, 1), &rows, &notes);
        let file = file.expect("written").expect("rows");
        let blocks: Vec<Range<usize>> = (file.index.blocks.iter())
            .map(|block| block.first_row..block.first_row + block.rows)
            .collect();
        assert_eq!(blocks.len(), 3);
        for key in KEYS {
            let own: Vec<(usize, &Own)> =
                file.layout.own_places().filter(|(_, own)| own.key == key).collect();
            let may = |rows: &[Range<usize>], text: &str| {
                may_be_own(&file, 0, rows, &own, text).expect("read")
            };
            for n in (0..SPANS).step_by(7) {
                let wanted = AttributeMatch { key: key.to_owned(), value: value(key, n) };
                let rows = narrow(&file, std::slice::from_ref(&file.all_rows()), &wanted);
                let rows: Vec<usize> = rows.expect("read").into_iter().flatten().collect();
                assert!(!rows.is_empty(), "{key} {n}");
                for block in &blocks {
                    let has = rows.iter().any(|row| block.contains(row));
                    assert!(may(std::slice::from_ref(block), &wanted.value) || !has, "{key} {n}");
                }
                assert!(may(
                    &[blocks[0].clone(), blocks[2].clone(), blocks[1].clone()],
                    &wanted.value
                ));
            }
            for other in ["value", "value 9001", "alue 12", "\u{b}\0\0\0value"] {
                assert!(!may(&blocks, other), "{key} {other}");
            }
            // No text tells of a page on its own that all have.
            may(&blocks, "");
            let columns = file.metadata.metadata().row_group(0).columns().iter();
            let mut leaves = columns.filter(|leaf| leaf.column_path().string() == own[0].1.name());
            let leaf = leaves.next().expect("a column");
            let has_dictionary = leaf.encodings().any(|it| it == Encoding::RLE_DICTIONARY);
            assert_eq!(has_dictionary, key == "some", "{key}");
        }
    }
}
