//! Attributes on the wire: the common part of spans once for each batch, and each span's own
//! values.
//!
//! Two columns follow those of the span schema. `template` is a dictionary whose values are
//! attribute maps. A flag in a value's type means that each row has its own text there. `own_texts`
//! contains these texts in order. A row without a template has its attributes in the map of the
//! span schema.

use std::sync::{Arc, LazyLock};

use ahash::AHashMap;
use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, ListArray, MapArray, RecordBatch,
    StringArray, StructArray, UInt8Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, Int32Type, Schema, SchemaRef, UInt8Type,
};
use arrow::error::ArrowError;
use parking_lot::Mutex;
use spanwise_model::schema::{
    column, map_entries_field, map_entry_fields, map_type, span_schema, value_fields,
};
use spanwise_model::{Slot, SpanRows, Template, Templated};

use super::FlightError;
use super::decode::MOST_ATTRIBUTES;

/// Flag in a value's type: each row has its own text.
const OWN: u8 = 0x80;
/// Maximum attributes of all templates of a batch. A few bytes on the wire can take a hundred times
/// as much in memory.
const MOST_SLOTS: usize = 1 << 18;
/// Approximate maximum bytes of remembered templates.
const MOST_REMEMBERED_BYTES: usize = 16 << 20;

fn text_item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Utf8, false))
}

/// The values of the template dictionary.
pub(super) fn template_values() -> FieldRef {
    Arc::new(Field::new("values", map_type(), true))
}

/// The span schema with the two additional columns.
pub(super) fn sent_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let values = template_values().data_type().clone();
        let template = DataType::Dictionary(Box::new(DataType::Int32), Box::new(values));
        let further = [
            Arc::new(Field::new("template", template, true)),
            Arc::new(Field::new("own_texts", DataType::List(text_item()), false)),
        ];
        let fields = span_schema().fields().iter().cloned().chain(further).collect::<Fields>();
        Arc::new(Schema::new(fields))
    });
    Arc::clone(&SCHEMA)
}

/// Rows in the form in which they are sent.
///
/// # Errors
/// If they do not have the span schema, or texts are too large for one array.
pub(super) fn to_sent(rows: &SpanRows) -> Result<RecordBatch, ArrowError> {
    let spans = rows.columns();
    if spans.schema().fields() != span_schema().fields() {
        return Err(ArrowError::SchemaError("the batch is not of the span schema".to_owned()));
    }
    if rows.templated().is_some_and(|templated| slots_of(templated.templates()) > MOST_SLOTS) {
        return to_sent(&rows.whole()?.into());
    }
    let count = spans.num_rows();
    let (places, templates, offsets, texts) = match rows.templated() {
        Some(templated) => (
            (0..count).map(|row| templated.place(row).map(|place| place as i32)).collect(),
            templated.templates(),
            templated.offsets().clone(),
            templated.texts().clone(),
        ),
        None => {
            let none = StringArray::new_null(0);
            (Int32Array::new_null(count), [].as_slice(), OffsetBuffer::new_zeroed(count), none)
        }
    };
    let template = DictionaryArray::try_new(places, Arc::new(maps_of(templates)?))?;
    let own_texts = ListArray::try_new(text_item(), offsets, Arc::new(texts), None)?;
    let mut columns = spans.columns().to_vec();
    columns.extend([Arc::new(template) as ArrayRef, Arc::new(own_texts)]);
    RecordBatch::try_new(sent_schema(), columns)
}

fn slots_of(templates: &[Arc<Template>]) -> usize {
    templates.iter().map(|template| template.slots().len()).sum()
}

fn maps_of(templates: &[Arc<Template>]) -> Result<MapArray, ArrowError> {
    let slots: Vec<&Slot> = templates.iter().flat_map(|template| template.slots()).collect();
    let slots = || slots.iter();
    let keys = StringArray::from_iter_values(slots().map(|slot| &slot.key));
    let types = slots().map(|slot| slot.type_number | if slot.text.is_none() { OWN } else { 0 });
    let texts = slots().map(|slot| slot.text.as_deref().unwrap_or_default());
    let values: [ArrayRef; 2] = [
        Arc::new(UInt8Array::from_iter_values(types)),
        Arc::new(StringArray::from_iter_values(texts)),
    ];
    let values = StructArray::try_new(value_fields(), values.into(), None)?;
    let entries: [ArrayRef; 2] = [Arc::new(keys), Arc::new(values)];
    let entries = StructArray::try_new(map_entry_fields(), entries.into(), None)?;
    let lengths = templates.iter().map(|template| template.slots().len());
    MapArray::try_new(
        map_entries_field(),
        OffsetBuffer::from_lengths(lengths),
        entries,
        None,
        false,
    )
}

/// The templates that agents have sent. Equal templates are stored once for all agents. All streams
/// of a server share them.
#[derive(Debug, Default)]
pub struct Templates(Mutex<TemplateCache>);

#[derive(Debug, Default)]
struct TemplateCache {
    /// Templates by content.
    templates: AHashMap<Box<[u8]>, Arc<Template>>,
    bytes: usize,
}

impl Templates {
    /// Decodes rows whose columns have the types of [`sent_schema`].
    pub(super) fn rows(&self, sent: &RecordBatch) -> Result<SpanRows, FlightError> {
        let (spans, further) = sent.columns().split_at(span_schema().fields().len());
        let spans = RecordBatch::try_new(span_schema(), spans.to_vec());
        let spans = spans.map_err(FlightError::malformed)?;
        let [template, own_texts] = further else { return Err(unmatched()) };
        let template = template.as_dictionary_opt::<Int32Type>().ok_or_else(unmatched)?;
        let own_texts = own_texts.as_list_opt::<i32>().ok_or_else(unmatched)?;
        let maps = template.values().as_map_opt().ok_or_else(unmatched)?;
        let keys = template.keys();
        if keys.null_count() == keys.len() && own_texts.values().is_empty() {
            return Ok(spans.into());
        }
        let (templates, new_bytes) = self.of_maps(maps)?;
        let texts = own_texts.values().as_string_opt::<i32>().ok_or_else(unmatched)?;
        let places: Vec<Option<u32>> = keys.iter().map(|key| key.map(|key| key as u32)).collect();
        let templated = Templated::new(templates, places, texts.clone());
        // Each row must have exactly the texts that its template needs.
        let templated = templated.ok().filter(|found| found.offsets() == own_texts.offsets());
        let has_none_besides = no_attributes_beside(keys.nulls(), &spans);
        let templated = templated.filter(|_| has_none_besides).ok_or_else(unmatched)?;
        let rows = SpanRows::new(spans, templated).map_err(FlightError::malformed)?;
        Ok(rows.with_new_templates(new_bytes))
    }

    /// The templates, and the memory of the new ones.
    fn of_maps(&self, maps: &MapArray) -> Result<(Vec<Arc<Template>>, usize), FlightError> {
        let keys = maps.keys().as_string_opt::<i32>().ok_or_else(unmatched)?;
        let values = maps.values().as_struct_opt().ok_or_else(unmatched)?;
        let types = values.column(0).as_primitive_opt::<UInt8Type>().ok_or_else(unmatched)?;
        let texts = values.column(1).as_string_opt::<i32>().ok_or_else(unmatched)?;
        if maps.value_offsets().last().is_some_and(|end| *end as usize > MOST_SLOTS) {
            let what = "attributes of templates";
            return Err(FlightError::TooLarge { what, limit: MOST_SLOTS });
        }
        let lengths = (0..maps.len()).map(|template| maps.value_length(template) as usize);
        if lengths.max().is_some_and(|most| most > MOST_ATTRIBUTES) {
            let what = "attributes of a span";
            return Err(FlightError::TooLarge { what, limit: MOST_ATTRIBUTES });
        }
        let mut remembered = self.0.lock();
        let mut new_bytes = 0;
        let mut said = Vec::new();
        let templates = (0..maps.len()).map(|template| {
            let slots = maps.value_offsets()[template] as usize
                ..maps.value_offsets()[template + 1] as usize;
            said.clear();
            for slot in slots.clone() {
                let (key, text) = (keys.value(slot), texts.value(slot));
                said.push(types.value(slot));
                said.extend((key.len() as u32).to_le_bytes());
                said.extend((text.len() as u32).to_le_bytes());
                said.extend_from_slice(key.as_bytes());
                said.extend_from_slice(text.as_bytes());
            }
            if let Some(known) = remembered.templates.get(said.as_slice()) {
                return Arc::clone(known);
            }
            let slots = slots.map(|slot| {
                let own = types.value(slot) & OWN != 0;
                let text = (!own).then(|| texts.value(slot).into());
                let type_number = types.value(slot) & !OWN;
                Slot { key: keys.value(slot).into(), type_number, text }
            });
            let template = Arc::new(Template::new(slots.collect()));
            new_bytes += template.memory_bytes();
            remembered.add(said.as_slice().into(), Arc::clone(&template));
            template
        });
        let templates = templates.collect();
        Ok((templates, new_bytes))
    }
}

impl TemplateCache {
    fn add(&mut self, said: Box<[u8]>, template: Arc<Template>) {
        let bytes = said.len() + template.memory_bytes();
        if bytes > MOST_REMEMBERED_BYTES {
            return;
        }
        if self.bytes + bytes > MOST_REMEMBERED_BYTES {
            self.templates.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.templates.insert(said, template);
    }
}

/// Whether the maps of rows with a template are empty.
fn no_attributes_beside(with_template: Option<&NullBuffer>, spans: &RecordBatch) -> bool {
    let maps = spans.column_by_name(column::ATTRIBUTES).and_then(|maps| maps.as_map_opt());
    maps.is_some_and(|maps| {
        (0..maps.len()).all(|row| {
            maps.value_length(row) == 0 || with_template.is_some_and(|valid| valid.is_null(row))
        })
    })
}

fn unmatched() -> FlightError {
    FlightError::malformed("rows and templates of attributes do not belong together")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_templates_is_bounded() {
        let mut remembered = TemplateCache::default();
        for number in 0..200_u32 {
            // Includes the largest possible template.
            let bytes = if number == 100 { MOST_REMEMBERED_BYTES } else { 1 << 20 };
            let text = Some("x".repeat(bytes).into());
            let slot = Slot { key: "key".into(), type_number: 0, text };
            let template = Arc::new(Template::new(vec![slot]));
            remembered.add(number.to_le_bytes().into(), template);
            let held = remembered.templates.values().map(|template| template.memory_bytes());
            assert!(held.sum::<usize>() <= remembered.bytes);
            assert!(remembered.bytes <= MOST_REMEMBERED_BYTES);
            assert!(!remembered.templates.is_empty());
        }
    }
}
