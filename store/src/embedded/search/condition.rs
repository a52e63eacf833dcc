//! Evaluates conditions on attributes and resources of rows.

use std::fmt;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::or;
use arrow::datatypes::{Int32Type, UInt8Type};
use arrow::error::ArrowError;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use spanwise_model::schema::column;
use spanwise_model::{SpanRows, Template};

use crate::contract::{AttributeCondition, AttributeTest, typed_text};

/// Whether there is a value of the condition's key, and whether one passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) has: bool,
    pub(crate) passes: bool,
}

impl Verdict {
    fn of(test: &AttributeTest, (type_number, text): (u8, &str)) -> Self {
        Self { has: true, passes: test.passes(type_number, text) }
    }

    /// The combination of two sources of values.
    const fn and(self, other: Self) -> Self {
        Self { has: self.has || other.has, passes: self.passes || other.passes }
    }

    /// Whether a row with this verdict matches the test.
    pub(crate) const fn holds(self, test: &AttributeTest) -> bool {
        test.holds(self.has, self.passes)
    }
}

/// The rows that match. Their attributes must be in maps.
///
/// # Errors
/// If the batch lacks the columns of attributes and resources.
pub(crate) fn of_rows(
    batch: &RecordBatch,
    condition: &AttributeCondition,
) -> Result<BooleanArray, ArrowError> {
    let resources = Resources::of(column_of(batch, column::RESOURCE)?, condition)?;
    let maps = Maps::of(batch)?;
    let holds = |row| {
        let own = maps.value(row, &condition.key);
        let own = own.map(|value| Verdict::of(&condition.test, value)).unwrap_or_default();
        own.and(resources.verdict(row)).holds(&condition.test)
    };
    Ok(BooleanBuffer::collect_bool(batch.num_rows(), holds).into())
}

/// The same for rows in memory. Each template is evaluated once.
///
/// # Errors
/// The errors of [`of_rows`].
pub(crate) fn of_rows_in_memory(
    rows: &SpanRows,
    condition: &AttributeCondition,
) -> Result<BooleanArray, ArrowError> {
    let Some(templated) = rows.templated() else { return of_rows(rows.columns(), condition) };
    let resources = Resources::of(column_of(rows.columns(), column::RESOURCE)?, condition)?;
    let maps = Maps::of(rows.columns())?;
    let of_templates: Vec<OfTemplate> =
        templated.templates().iter().map(|it| OfTemplate::of(it, condition)).collect();
    let holds = |row| {
        let own = match templated.place(row).map(|place| of_templates[place]) {
            Some(OfTemplate::All(verdict)) => verdict,
            Some(OfTemplate::Own(type_number, own)) => {
                let text = templated.texts().value(templated.own(row).start + own);
                Verdict::of(&condition.test, (type_number, text))
            }
            None => {
                let own = maps.value(row, &condition.key);
                own.map(|value| Verdict::of(&condition.test, value)).unwrap_or_default()
            }
        };
        own.and(resources.verdict(row)).holds(&condition.test)
    };
    Ok(BooleanBuffer::collect_bool(rows.num_rows(), holds).into())
}

/// Which rows fulfil it anywhere; they have their attributes in the map.
///
/// # Errors
/// As [`of_rows`].
pub(crate) fn of_rows_anywhere(
    batch: &RecordBatch,
    condition: &AttributeCondition,
) -> Result<BooleanArray, ArrowError> {
    let own = or(&of_rows(batch, condition)?, &of_rows(batch, &of_scope(condition))?)?;
    or(&own, &of_nested(batch, condition))
}

/// The same of rows that are not in files.
///
/// # Errors
/// As [`of_rows`].
pub(crate) fn of_rows_in_memory_anywhere(
    rows: &SpanRows,
    condition: &AttributeCondition,
) -> Result<BooleanArray, ArrowError> {
    let own = of_rows_in_memory(rows, condition)?;
    let own = or(&own, &of_rows_in_memory(rows, &of_scope(condition))?)?;
    or(&own, &of_nested(rows.columns(), condition))
}

/// The condition on the attribute of the instrumentation scope that has its key.
pub(crate) fn of_scope(condition: &AttributeCondition) -> AttributeCondition {
    AttributeCondition { key: scope_key(&condition.key), test: condition.test.clone() }
}

/// The key that an attribute of the instrumentation scope has among the span's own.
pub(crate) fn scope_key(key: &str) -> String {
    format!("otel.scope.{key}")
}

/// Which rows have an event or a link that fulfils it.
fn of_nested(batch: &RecordBatch, condition: &AttributeCondition) -> BooleanArray {
    let mut passes = vec![false; batch.num_rows()];
    for name in [column::EVENTS, column::LINKS] {
        let nested = || {
            let lists = batch.column_by_name(name)?.as_list_opt::<i32>()?;
            let maps = lists.values().as_struct_opt()?.column_by_name(column::ATTRIBUTES)?;
            Some((lists, Maps::taken_apart(maps)?))
        };
        let Some((lists, maps)) = nested() else { continue };
        // Nearly no batch has the key at all.
        let key = condition.key.as_bytes();
        if !key.is_empty() && memchr::memmem::find(maps.keys.value_data(), key).is_none() {
            continue;
        }
        for (passes, items) in passes.iter_mut().zip(lists.value_offsets().windows(2)) {
            let mut items = items[0] as usize..items[1] as usize;
            *passes |= items.any(|item| {
                let value = maps.value(item, &condition.key);
                value.is_some_and(|value| Verdict::of(&condition.test, value).passes)
            });
        }
    }
    passes.into()
}

/// What the resources of some shapes say of it.
///
/// # Errors
/// If they are not texts.
pub(crate) fn of_resources(
    resources: &ArrayRef,
    condition: &AttributeCondition,
) -> Result<Vec<Verdict>, ArrowError> {
    let resources = Resources::of(resources, condition)?;
    Ok((0..resources.rows()).map(|row| resources.verdict(row)).collect())
}

fn column_of<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, ArrowError> {
    batch
        .column_by_name(name)
        .ok_or_else(|| ArrowError::SchemaError(format!("there is no column {name}")))
}

/// How rows of a template have an attribute.
#[derive(Clone, Copy)]
enum OfTemplate {
    /// The verdict is the same for all.
    All(Verdict),
    /// Values have this type. Each row's value is its own text with this index.
    Own(u8, usize),
}

impl OfTemplate {
    fn of(template: &Template, condition: &AttributeCondition) -> Self {
        let slots = template.slots();
        let Some(place) = slots.iter().position(|slot| *slot.key == *condition.key) else {
            return Self::All(Verdict::default());
        };
        let slot = &slots[place];
        match &slot.text {
            Some(text) => Self::All(Verdict::of(&condition.test, (slot.type_number, text))),
            None => {
                let own = slots[..place].iter().filter(|slot| slot.text.is_none()).count();
                Self::Own(slot.type_number, own)
            }
        }
    }
}

/// The attribute maps of a batch.
struct Maps<'a> {
    offsets: &'a [i32],
    keys: &'a StringArray,
    types: &'a [u8],
    texts: &'a StringArray,
}

impl<'a> Maps<'a> {
    fn taken_apart(column: &'a ArrayRef) -> Option<Self> {
        let maps = column.as_map_opt()?;
        let values = maps.values().as_struct_opt()?;
        Some(Self {
            offsets: maps.value_offsets(),
            keys: maps.keys().as_string_opt()?,
            types: values.columns().first()?.as_primitive_opt::<UInt8Type>()?.values(),
            texts: values.columns().get(1)?.as_string_opt()?,
        })
    }

    fn of(batch: &'a RecordBatch) -> Result<Self, ArrowError> {
        let column = column_of(batch, column::ATTRIBUTES)?;
        Self::taken_apart(column)
            .ok_or_else(|| ArrowError::SchemaError("attributes are no map of texts".to_owned()))
    }

    /// The first value of a key.
    fn value(&self, row: usize, key: &str) -> Option<(u8, &'a str)> {
        let mut entries = self.offsets[row] as usize..self.offsets[row + 1] as usize;
        let entry = entries.find(|entry| self.keys.value(*entry) == key)?;
        Some((self.types[entry], self.texts.value(entry)))
    }
}

/// Verdicts of resources. Each distinct resource is parsed once.
struct Resources<'a> {
    places: &'a arrow::array::Int32Array,
    verdicts: Vec<Verdict>,
}

impl<'a> Resources<'a> {
    fn of(column: &'a ArrayRef, condition: &AttributeCondition) -> Result<Self, ArrowError> {
        let taken_apart = || {
            let dictionary = column.as_dictionary_opt::<Int32Type>()?;
            Some((dictionary.keys(), dictionary.values().as_string_opt::<i32>()?))
        };
        let (places, texts) = taken_apart()
            .ok_or_else(|| ArrowError::SchemaError("resources are no dictionary".to_owned()))?;
        let verdicts = texts.iter().map(|text| of_resource(text.unwrap_or_default(), condition));
        Ok(Self { places, verdicts: verdicts.collect() })
    }

    fn rows(&self) -> usize {
        self.places.len()
    }

    fn verdict(&self, row: usize) -> Verdict {
        let place = usize::try_from(self.places.value(row)).ok();
        let place = place.filter(|_| self.places.is_valid(row));
        place.and_then(|place| self.verdicts.get(place)).copied().unwrap_or_default()
    }
}

/// The verdict of a resource, which is a JSON object.
fn of_resource(text: &str, condition: &AttributeCondition) -> Verdict {
    // An invalid JSON object has no attributes.
    let found = serde_json::Deserializer::from_str(text).deserialize_map(Find(&condition.key));
    let verdict = |value: Value| {
        let (type_number, text) = typed_text(&value);
        Verdict::of(&condition.test, (type_number, &text))
    };
    found.ok().flatten().map(verdict).unwrap_or_default()
}

/// Finds the value of a key in an object and skips all others.
struct Find<'k>(&'k str);

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = entries.next_key_seed(IsKey(self.0))? {
            if is_it {
                found = Some(entries.next_value()?);
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Compares a text without copying it.
struct IsKey<'k>(&'k str);

impl<'de> DeserializeSeed<'de> for IsKey<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for IsKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, text: &str) -> Result<bool, E> {
        Ok(text == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_have_values_of_every_type() {
        let text = r#"{"a":"x","b":{"c":"y"},"d":7,"e":0.5,"f":true,"g":[1,"z"],"k\"q":"r"}"#;
        let check = |key: &str, test: AttributeTest, holds: bool| {
            let condition = AttributeCondition { key: key.to_owned(), test: test.clone() };
            assert_eq!(of_resource(text, &condition).holds(&test), holds, "{condition:?}");
        };
        let equal = |text: &str| AttributeTest::Equal(text.to_owned());
        for (key, shown) in [
            ("a", "x"),
            ("d", "7"),
            ("d", "7.0"),
            ("e", "0.5"),
            ("f", "true"),
            ("g", r#"[1,"z"]"#),
            ("k\"q", "r"),
        ] {
            check(key, equal(shown), true);
            check(key, equal("other"), false);
            check(key, AttributeTest::NotEqual("other".to_owned()), true);
            check(key, AttributeTest::NotEqual(shown.to_owned()), false);
            check(key, AttributeTest::Exists, true);
        }
        for key in ["c", "", "A"] {
            check(key, AttributeTest::Absent, true);
            check(key, AttributeTest::NotEqual("x".to_owned()), false);
        }
        let condition = AttributeCondition { key: "a".to_owned(), test: AttributeTest::Exists };
        for broken in ["", "[]", "{", "null", "{\"b\":"] {
            assert_eq!(of_resource(broken, &condition), Verdict::default(), "{broken}");
        }
    }
}
