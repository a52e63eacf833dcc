//! Finds rows by one attribute. Reads only the columns that may contain the value.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use spanwise_model::schema::column;

use super::attribute;
use super::condition::{self, Verdict};
use crate::contract::{AttributeCondition, AttributeTest};
use crate::embedded::files::SpanFile;
use crate::embedded::files::layout::{Own, OwnType, Shapes, Sought, file_column};
use crate::embedded::files::pages::Group;
use crate::embedded::files::reader;
use crate::embedded::keys::hash_attribute;

/// A condition that is asked of many row groups.
pub(crate) struct Asked {
    /// A row that fulfils one of these may do.
    conditions: Vec<(AttributeCondition, Option<Vec<u64>>)>,
    /// Whether events and links may fulfil it, too.
    nested: bool,
}

impl Asked {
    pub(crate) fn new(condition: &AttributeCondition) -> Self {
        Self { conditions: vec![with_hashes(condition.clone())], nested: false }
    }

    pub(crate) fn anywhere(condition: &AttributeCondition) -> Self {
        let both = [condition.clone(), condition::of_scope(condition)];
        Self { conditions: both.map(with_hashes).to_vec(), nested: true }
    }

    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.conditions.iter().flat_map(|(_, hashes)| hashes.iter().flatten().copied())
    }

    /// The blocks of a row group that may contain matching rows, as a bit mask.
    pub(crate) fn blocks(&self, file: &SpanFile, group: usize) -> Result<u32, ParquetError> {
        let mut all = 0;
        for (condition, hashes) in &self.conditions {
            if all == u32::MAX || self.nested && file.may_scatter(&condition.key) {
                return Ok(u32::MAX);
            }
            all |= blocks(file, group, condition, hashes.as_deref())?;
        }
        Ok(all)
    }
}

/// With the hashes of the texts that an equal value may have; none where an index does
/// not help.
fn with_hashes(condition: AttributeCondition) -> (AttributeCondition, Option<Vec<u64>>) {
    let texts = condition.test.of_single().equal_texts();
    let hash = |text: &String| hash_attribute(&condition.key, text);
    let hashes = texts.map(|texts| texts.iter().map(hash).collect());
    (condition, hashes)
}

fn blocks(
    file: &SpanFile,
    group: usize,
    condition: &AttributeCondition,
    hashes: Option<&[u64]>,
) -> Result<u32, ParquetError> {
    let mut blocks = 0;
    match hashes.filter(|_| !may_be_in_lists(file, condition)) {
        Some(hashes) => {
            for hash in hashes {
                blocks |= file.blocks_with_all(group, std::slice::from_ref(hash))?;
            }
        }
        None if may_be_of_spans(file, &condition.key) => return Ok(u32::MAX),
        None => {}
    }
    if blocks == u32::MAX {
        return Ok(blocks);
    }
    let (_, verdicts) = of_resources(file, group, condition)?;
    let holds = verdicts.iter().any(|verdict| verdict.holds(&condition.test));
    Ok(if holds { u32::MAX } else { blocks })
}

/// Whether lists may have an element that passes: of those the index does not tell.
fn may_be_in_lists(file: &SpanFile, condition: &AttributeCondition) -> bool {
    matches!(condition.test, AttributeTest::Element(_)) && file.may_scatter(&condition.key)
}

/// The places of the columns of shapes that say what resources they have.
pub(crate) fn resource_places(file: &SpanFile) -> Vec<usize> {
    // The shape's number comes first.
    let place = file.layout.shapes_schema.index_of(column::RESOURCE).ok();
    std::iter::once(0).chain(place).collect()
}

/// The shapes of a row group, and the verdict of each one's resource.
fn of_resources(
    file: &SpanFile,
    group: usize,
    condition: &AttributeCondition,
) -> Result<(Arc<Shapes>, Vec<Verdict>), ParquetError> {
    let shapes = file.shapes.group(group, &resource_places(file))?;
    let resources = shapes.rows().column_by_name(column::RESOURCE);
    let resources =
        resources.ok_or_else(|| ParquetError::General("shapes have no resources".to_owned()))?;
    let verdicts = condition::of_resources(resources, condition)?;
    Ok((shapes, verdicts))
}

/// Whether spans of a file may have this key as their own attribute.
fn may_be_of_spans(file: &SpanFile, key: &str) -> bool {
    let mut columns = file.layout.own.iter().chain(&file.layout.shaped);
    columns.any(|own| own.key == key) || file.may_map(key)
}

/// Whether [`narrow`] returns exactly the matching rows: either only resources can have the key, or
/// each row's value of the key is in a single column.
pub(crate) fn is_exact(file: &SpanFile, condition: &AttributeCondition) -> bool {
    let key = &condition.key;
    let all = file.layout.own.iter().chain(&file.layout.shaped);
    let types = all.filter(|own| own.key == *key);
    let mut types = types.map(|own| own.own_type.type_number());
    let first = types.next();
    if *condition.test.of_single() == AttributeTest::Exists {
        return true;
    }
    // A value in the shape is not repeated in the row.
    let is_in_one = types.all(|other| Some(other) == first) && !file.may_map(key);
    is_in_one && (first.is_none() || matches!(condition.test, AttributeTest::Equal(_)))
}

/// The same of [`narrow_anywhere`].
pub(crate) fn is_exact_anywhere(file: &SpanFile, condition: &AttributeCondition) -> bool {
    !file.may_scatter(&condition.key)
        && is_exact(file, condition)
        && is_exact(file, &condition::of_scope(condition))
}

/// Of ascending rows, those that may match: one of their values passes. A row with several
/// attributes of the key may have another value first. Returns all rows if single columns cannot
/// decide.
///
/// # Errors
/// If the file is damaged.
pub(crate) fn narrow(
    file: &SpanFile,
    rows: &[Range<usize>],
    condition: &AttributeCondition,
) -> Result<Vec<Range<usize>>, ParquetError> {
    let test = condition.test.of_single();
    let texts = match test.equal_texts().filter(|_| !may_be_in_lists(file, condition)) {
        Some(texts) => Some(texts),
        None if *test == AttributeTest::Exists => None,
        None if may_be_of_spans(file, &condition.key) => return Ok(rows.to_vec()),
        None => Some(Vec::new()),
    };
    let wanted = Texts { condition, texts };
    let layout = &file.layout;
    let own: Vec<(usize, &Own)> =
        layout.own_places().filter(|(_, own)| own.key == condition.key).collect();
    let shaped: Vec<(usize, &Own)> =
        layout.shaped_places().filter(|(_, own)| own.key == condition.key).collect();
    let is_mapped = file.may_map(&condition.key);
    let mut left: Vec<Range<usize>> = Vec::new();
    for (group, rows) in reader::by_group(file, rows) {
        // Whether each shape matches by its resource or its attributes.
        let (mut shapes, verdicts) = of_resources(file, group, condition)?;
        let mut has_it: Vec<bool> =
            verdicts.iter().map(|verdict| verdict.holds(&condition.test)).collect();
        if !shaped.is_empty() {
            let places: Vec<usize> =
                std::iter::once(0).chain(shaped.iter().map(|(place, _)| *place)).collect();
            shapes = file.shapes.group(group, &places)?;
            let of_shaped = wanted.any_equals(shapes.rows(), &shaped)?;
            has_it.iter_mut().zip(of_shaped).for_each(|(has_it, shaped)| *has_it |= shaped);
        }
        if !has_it.is_empty() && has_it.iter().all(|has_it| *has_it) {
            left.extend(rows);
            continue;
        }
        let shapes = has_it.contains(&true).then_some((shapes, has_it));
        if shapes.is_none() && !is_mapped && !wanted.may_be_own(file, group, &rows, &own)? {
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
            let has = wanted.rows_with(&batch, &own, shapes)?;
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

/// As [`narrow`], where values anywhere in the row count.
///
/// # Errors
/// As [`narrow`].
pub(crate) fn narrow_anywhere(
    file: &SpanFile,
    rows: &[Range<usize>],
    condition: &AttributeCondition,
) -> Result<Vec<Range<usize>>, ParquetError> {
    if file.may_scatter(&condition.key) {
        return Ok(rows.to_vec());
    }
    let own = narrow(file, rows, condition)?;
    let of_scope = narrow(file, rows, &condition::of_scope(condition))?;
    if own.is_empty() || of_scope.is_empty() {
        return Ok(if own.is_empty() { of_scope } else { own });
    }
    let mut all = [own, of_scope].concat();
    all.sort_unstable_by_key(|rows| rows.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(all.len());
    for rows in all {
        match joined.last_mut() {
            Some(last) if last.end >= rows.start => last.end = last.end.max(rows.end),
            _ => joined.push(rows),
        }
    }
    Ok(joined)
}

/// A condition with the texts that an equal value may have.
struct Texts<'a> {
    condition: &'a AttributeCondition,
    /// `None`: any value will do.
    texts: Option<Vec<String>>,
}

impl Texts<'_> {
    /// The texts for a value of this type. A string must equal the requested text, which comes
    /// first.
    fn of(texts: &[String], own_type: OwnType) -> &[String] {
        match own_type {
            OwnType::Int => texts,
            _ => &texts[..texts.len().min(1)],
        }
    }

    /// Whether some rows of a row group may have one of the texts in any of these columns.
    fn may_be_own(
        &self,
        file: &SpanFile,
        group: usize,
        rows: &[Range<usize>],
        own: &[(usize, &Own)],
    ) -> Result<bool, ParquetError> {
        let Some(texts) = &self.texts else { return Ok(!own.is_empty()) };
        let Some(text) = texts.first() else { return Ok(false) };
        may_be_own(file, group, rows, own, text)
    }

    /// Which rows have one of the texts in any of these columns.
    fn any_equals(
        &self,
        batch: &RecordBatch,
        columns: &[(usize, &Own)],
    ) -> Result<Vec<bool>, ArrowError> {
        let mut any = vec![false; batch.num_rows()];
        for (_, own) in columns {
            let Some(column) = batch.column_by_name(&own.name()) else { continue };
            let Some(texts) = &self.texts else {
                any.iter_mut().enumerate().for_each(|(row, any)| *any |= column.is_valid(row));
                continue;
            };
            for text in Self::of(texts, own.own_type) {
                let equal = own.equals(column, text)?;
                let has_value = |row: &usize| equal.is_valid(*row);
                equal.values().set_indices().filter(has_value).for_each(|row| any[row] = true);
            }
        }
        Ok(any)
    }

    /// Which rows match by their own columns, their map, or their shape.
    fn rows_with(
        &self,
        batch: &RecordBatch,
        own: &[(usize, &Own)],
        shapes: Option<(&Shapes, &[bool])>,
    ) -> Result<Vec<bool>, ArrowError> {
        let mut has = self.any_equals(batch, own)?;
        if let Some((shapes, has_it)) = shapes {
            let places = shapes.places(batch)?;
            for (has, place) in has.iter_mut().zip(places.values()) {
                *has |= has_it[*place as usize];
            }
        }
        let maps = batch.column_by_name(column::ATTRIBUTES).and_then(|column| column.as_map_opt());
        let texts = maps.and_then(|maps| attribute::texts(maps, &self.condition.key));
        for (has, text) in has.iter_mut().zip(texts.into_iter().flatten()) {
            let Some(text) = text else { continue };
            *has |= self.texts.as_ref().is_none_or(|texts| texts.iter().any(|it| it == text));
        }
        Ok(has)
    }
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
        let may = match (own.sought(text), leaf) {
            (Sought::Bytes(value), Some(leaf)) => group.may_have(leaf, &rows, &value)?,
            (Sought::Nothing, _) => false,
            _ => true,
        };
        if may {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::duplicates::origins::TakenRanges;
    use crate::embedded::files::writer;
    use parquet::basic::Encoding;
    use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId};

    const SPANS: u64 = 9_000;
    const KEYS: [&str; 4] = ["each", "some", "digits", "uuid"];

    /// Some keys have the same value in every fourth span. The others have distinct values.
    fn value(key: &str, n: u64) -> String {
        match key {
            "each" => format!("value {n}"),
            "digits" => format!("a{:031x}", n * 0x9e37_79b9_7f4a),
            "uuid" => format!("{:08x}-0000-4000-8000-{:012x}", n * 7_919, n << 20),
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
                let test = AttributeTest::Equal(value(key, n));
                let wanted = AttributeCondition { key: key.to_owned(), test };
                let rows = narrow(&file, std::slice::from_ref(&file.all_rows()), &wanted);
                let rows: Vec<usize> = rows.expect("read").into_iter().flatten().collect();
                assert!(!rows.is_empty(), "{key} {n}");
                for block in &blocks {
                    let has = rows.iter().any(|row| block.contains(row));
                    assert!(may(std::slice::from_ref(block), &value(key, n)) || !has, "{key} {n}");
                }
                assert!(may(
                    &[blocks[0].clone(), blocks[2].clone(), blocks[1].clone()],
                    &value(key, n)
                ));
            }
            for other in ["value", "value 9001", "alue 12", "\u{b}\0\0\0value"] {
                assert!(!may(&blocks, other), "{key} {other}");
            }
            // The empty text is in all pages, so it excludes none.
            may(&blocks, "");
            let columns = file.metadata.metadata().row_group(0).columns().iter();
            let mut leaves = columns.filter(|leaf| leaf.column_path().string() == own[0].1.name());
            let leaf = leaves.next().expect("a column");
            let has_dictionary = leaf.encodings().any(|it| it == Encoding::RLE_DICTIONARY);
            assert_eq!(has_dictionary, key == "some", "{key}");
        }
    }
}
