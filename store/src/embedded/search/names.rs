//! Names and values of attributes: what files note of their rows, without reading any.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahash::AHashSet;
use arrow::array::{Array as _, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use parquet::errors::ParquetError;
use serde::de::IgnoredAny;
use serde_json::Value;
use spanwise_model::Template;
use spanwise_model::schema::column;

use super::attribute_search::resource_places;
use super::condition::scope_key;
use crate::contract::{AttributeNames, AttributeValues, TimeRange, typed_text};
use crate::embedded::files::SpanFile;
use crate::embedded::files::layout::{Own, OwnType};
use crate::embedded::keys::overlaps;
use crate::embedded::recent::chunk::View;
use crate::embedded::state::Snapshot;

/// What was found; `None` where rows must be read. And the files that could not be read.
pub(in crate::embedded) struct Answer<T> {
    pub(in crate::embedded) found: Option<T>,
    pub(in crate::embedded) unreadable: Vec<Arc<SpanFile>>,
}

/// All names.
pub(in crate::embedded) fn names(snapshot: &Snapshot, time: TimeRange) -> Answer<AttributeNames> {
    let mut names = AttributeNames::default();
    let mut known = Known::default();
    for view in in_time(&snapshot.recent, time) {
        let columns = view.rows.columns();
        for template in templates(view) {
            names.own.extend(template.slots().iter().map(|slot| slot.key.to_string()));
        }
        for key in map_keys(columns) {
            if !names.own.contains(key) {
                names.own.insert(key.to_owned());
            }
        }
        known.each_new(columns, |text| add_names(text, &mut names.resources));
    }
    each_file(snapshot, time, |file, groups| {
        // Too many to be noted?
        let Some(mapped) = file.mapped_keys() else { return Ok(None) };
        let columns = file.layout.own.iter().chain(&file.layout.shaped);
        names.own.extend(columns.map(|own| own.key.clone()).chain(mapped.iter().cloned()));
        let places = resource_places(file);
        file.shapes.prepare(groups.iter().copied(), &places)?;
        for group in groups {
            let shapes = file.shapes.group(*group, &places)?;
            known.each_new(shapes.rows(), |text| add_names(text, &mut names.resources));
        }
        Ok(Some(()))
    })
    .with(names)
}

/// All values of an attribute.
pub(in crate::embedded) fn values(
    snapshot: &Snapshot,
    key: &str,
    time: TimeRange,
) -> Answer<AttributeValues> {
    let mut values = AttributeValues::default();
    let mut known = Known::default();
    for view in in_time(&snapshot.recent, time) {
        if !add_recent(view, key, &mut values.own) {
            return Answer { found: None, unreadable: Vec::new() };
        }
        known.each_new(view.rows.columns(), |text| add_value(text, key, &mut values.resources));
    }
    let of_scope = scope_key(key);
    each_file(snapshot, time, |file, groups| {
        let own = |own: &Own| own.key == key || own.key == of_scope;
        let elsewhere = |own: &Own| own.key == of_scope || !is_listed(own.own_type);
        let shaped: Vec<(usize, &Own)> =
            file.layout.shaped_places().filter(|(_, it)| own(it)).collect();
        if file.may_map(key)
            || file.may_map(&of_scope)
            || file.may_scatter(key)
            || file.layout.own.iter().any(own)
            || shaped.iter().any(|(_, own)| elsewhere(own))
        {
            return Ok(None);
        }
        let mut places = resource_places(file);
        places.extend(shaped.iter().map(|(place, _)| *place));
        file.shapes.prepare(groups.iter().copied(), &places)?;
        for group in groups {
            let shapes = file.shapes.group(*group, &places)?;
            for (_, own) in &shaped {
                if let Some(column) = shapes.rows().column_by_name(&own.name()) {
                    add_column(own.own_type, column, &mut values.own);
                }
            }
            known.each_new(shapes.rows(), |text| add_value(text, key, &mut values.resources));
        }
        Ok(Some(()))
    })
    .with(values)
}

impl Answer<()> {
    fn with<T>(self, found: T) -> Answer<T> {
        Answer { found: self.found.map(|()| found), unreadable: self.unreadable }
    }
}

fn in_time(recent: &[Arc<View>], time: TimeRange) -> impl Iterator<Item = &View> {
    recent.iter().map(AsRef::as_ref).filter(move |view| overlaps(view.starts, time))
}

/// Calls `look` with each file and its row groups of the time, until it needs rows.
fn each_file(
    snapshot: &Snapshot,
    time: TimeRange,
    mut look: impl FnMut(&SpanFile, &BTreeSet<usize>) -> Result<Option<()>, ParquetError>,
) -> Answer<()> {
    let mut unreadable = Vec::new();
    for file in &snapshot.files {
        let blocks = file.index.blocks.iter().filter(|block| overlaps(block.starts, time));
        let groups: BTreeSet<usize> = blocks.map(|block| block.group).collect();
        if groups.is_empty() {
            continue;
        }
        // What is noted of rows that were deleted must not be told.
        let looked = if file.gone().is_some() { Ok(None) } else { look(file, &groups) };
        match looked {
            Ok(Some(())) => {}
            Ok(None) => return Answer { found: None, unreadable },
            Err(error) => {
                tracing::warn!("{} cannot be read: {error}", file.path.display());
                unreadable.push(Arc::clone(file));
            }
        }
    }
    Answer { found: Some(()), unreadable }
}

/// The templates that rows have.
fn templates(view: &View) -> impl Iterator<Item = &Template> {
    let templated = view.rows.templated();
    let places = templated.into_iter().flat_map(|rows| (0..rows.len()).map(|row| rows.place(row)));
    let used: BTreeSet<usize> = places.flatten().collect();
    let templates = templated.into_iter().flat_map(|rows| rows.templates()).enumerate();
    templates.filter(move |(place, _)| used.contains(place)).map(|(_, template)| template.as_ref())
}

/// The keys of all attributes that are in maps.
fn map_keys(columns: &RecordBatch) -> impl Iterator<Item = &str> {
    let maps = columns.column_by_name(column::ATTRIBUTES).and_then(|maps| maps.as_map_opt());
    let keys = maps.and_then(|maps| maps.keys().as_string_opt::<i32>());
    keys.into_iter().flatten().flatten()
}

/// Adds the values of rows in memory; whether they are known without reading rows.
fn add_recent(view: &View, key: &str, values: &mut BTreeSet<(u8, String)>) -> bool {
    let columns = view.rows.columns();
    let of_scope = scope_key(key);
    for template in templates(view) {
        for slot in template.slots() {
            match &slot.text {
                _ if *slot.key == *of_scope => return false,
                _ if *slot.key != *key => {}
                Some(text) if slot.type_number <= MOST_LISTED => {
                    values.insert((slot.type_number, text.to_string()));
                }
                _ => return false,
            }
        }
    }
    if map_keys(columns).any(|known| known == key || known == of_scope) {
        return false;
    }
    // Nearly no batch has the key in events or links.
    let has_nested = [column::EVENTS, column::LINKS].into_iter().any(|name| {
        let nested = || {
            let lists = columns.column_by_name(name)?.as_list_opt::<i32>()?;
            let maps = lists.values().as_struct_opt()?.column_by_name(column::ATTRIBUTES)?;
            maps.as_map_opt()?.keys().as_string_opt::<i32>()
        };
        nested().is_some_and(|keys| keys.iter().flatten().any(|nested| nested == key))
    });
    !has_nested
}

/// The highest number of a type whose values are listed: texts, numbers and flags, but no lists.
const MOST_LISTED: u8 = OwnType::Bool.type_number();

const fn is_listed(own_type: OwnType) -> bool {
    matches!(own_type, OwnType::String | OwnType::Int | OwnType::Bool)
}

/// Adds all values of a column of shapes.
fn add_column(own_type: OwnType, column: &ArrayRef, values: &mut BTreeSet<(u8, String)>) {
    let number = own_type.type_number();
    if let Some(dictionary) = column.as_dictionary_opt::<Int32Type>() {
        let texts = dictionary.values().as_string_opt::<i32>();
        let mut texts: AHashSet<&str> = texts.into_iter().flatten().flatten().collect();
        values.extend(texts.drain().map(|text| (number, text.to_owned())));
    } else if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        let numbers: AHashSet<i64> = numbers.iter().flatten().collect();
        values.extend(numbers.into_iter().map(|value| (number, value.to_string())));
    } else if let Some(flags) = column.as_boolean_opt() {
        let flags: BTreeSet<bool> = flags.iter().flatten().collect();
        values.extend(flags.into_iter().map(|flag| (number, flag.to_string())));
    }
}

/// Resources that were met, each of which is read once.
#[derive(Default)]
struct Known(AHashSet<String>);

impl Known {
    fn each_new(&mut self, rows: &RecordBatch, mut give: impl FnMut(&str)) {
        let resources = rows.column_by_name(column::RESOURCE);
        let resources = resources.and_then(|it| it.as_dictionary_opt::<Int32Type>());
        let Some(resources) = resources else { return };
        let Some(texts) = resources.values().as_string_opt::<i32>() else { return };
        // There may be others, of rows that were deleted.
        let mut used = vec![false; texts.len()];
        for place in resources.keys().iter().flatten() {
            if let Some(used) = usize::try_from(place).ok().and_then(|it| used.get_mut(it)) {
                *used = true;
            }
        }
        for (text, _) in texts.iter().zip(used).filter(|(_, used)| *used) {
            let Some(text) = text else { continue };
            if !self.0.contains(text) {
                self.0.insert(text.to_owned());
                give(text);
            }
        }
    }
}

fn add_names(resource: &str, names: &mut BTreeSet<String>) {
    let members: Result<BTreeMap<String, IgnoredAny>, _> = serde_json::from_str(resource);
    names.extend(members.into_iter().flatten().map(|(name, _)| name));
}

fn add_value(resource: &str, key: &str, values: &mut BTreeSet<(u8, String)>) {
    let Ok(Value::Object(members)) = serde_json::from_str(resource) else { return };
    let Some(value) = members.get(key) else { return };
    let each = match value {
        Value::Array(elements) => elements.as_slice(),
        value => std::slice::from_ref(value),
    };
    for value in each {
        let (number, text) = typed_text(value);
        values.insert((number, text.into_owned()));
    }
}
