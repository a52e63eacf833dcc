//! Templates in the log. A segment defines each template once, before the first record that refers
//! to it.
//!
//! ```text
//! templates: count | template...              numbers are LEB128 unless stated otherwise
//! template:  id u64 | slots | slot...
//! slot:      type u8 | key length | key | has a text u8 | text length | text
//!
//! rows:      has templates u8 | of templates | columns (see [`columns`])
//! of templates: rows | count | id u64... | indexes of the ids, counted from 1, 0 for a row
//!            whose attributes are in the map | texts of their own (as a column)
//! ```

use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::Array;
use arrow::error::ArrowError;
use spanwise_model::{Slot, SpanRows, Template, Templated};

use super::columns::{self, Reader, malformed, put_number, put_places, put_texts};

/// The templates that a segment has defined so far, by id.
pub(crate) type TemplatesByNumber = AHashMap<u64, Arc<Template>>;

/// Encodes templates.
pub(crate) fn write(templates: &[Arc<Template>], bytes: &mut Vec<u8>) {
    let put_text = |bytes: &mut Vec<u8>, text: &str| {
        put_number(bytes, text.len());
        bytes.extend_from_slice(text.as_bytes());
    };
    put_number(bytes, templates.len());
    for template in templates {
        bytes.extend_from_slice(&template.id().to_le_bytes());
        put_number(bytes, template.slots().len());
        for slot in template.slots() {
            bytes.push(slot.type_number);
            put_text(bytes, &slot.key);
            bytes.push(u8::from(slot.text.is_some()));
            put_text(bytes, slot.text.as_deref().unwrap_or_default());
        }
    }
}

/// Decodes templates and adds them to the known ones.
pub(crate) fn read(bytes: &[u8], known: &mut TemplatesByNumber) -> Result<(), ArrowError> {
    let mut reader = Reader::new(bytes);
    for _ in 0..reader.number()? {
        let id = reader.u64()?;
        let mut slots = Vec::new();
        for _ in 0..reader.number()? {
            let type_number = reader.byte()?;
            let key = reader.text()?.into();
            let has_text = reader.byte()? != 0;
            let text = reader.text()?;
            slots.push(Slot { key, type_number, text: has_text.then(|| text.into()) });
        }
        known.insert(id, Arc::new(Template::new(slots)));
    }
    match reader.is_empty() {
        true => Ok(()),
        false => Err(malformed()),
    }
}

/// Encodes rows.
pub(crate) fn write_rows(rows: &SpanRows, bytes: &mut Vec<u8>) -> Result<(), ArrowError> {
    bytes.push(u8::from(rows.templated().is_some()));
    if let Some(templated) = rows.templated() {
        put_number(bytes, templated.len());
        let templates = templated.templates();
        put_number(bytes, templates.len());
        for template in templates {
            bytes.extend_from_slice(&template.id().to_le_bytes());
        }
        let places = (0..templated.len())
            .map(|row| templated.place(row).map_or(0, |place| place as i32 + 1));
        put_places(bytes, places, templates.len() + 1);
        put_number(bytes, templated.texts().len());
        put_texts(bytes, templated.texts());
    }
    columns::write(rows.columns(), bytes)
}

/// Decodes rows.
pub(crate) fn read_rows(bytes: &[u8], known: &TemplatesByNumber) -> Result<SpanRows, ArrowError> {
    let mut reader = Reader::new(bytes);
    if reader.byte()? == 0 {
        return Ok(columns::read(reader.rest())?.into());
    }
    let rows = reader.number()?;
    let mut templates = Vec::new();
    for _ in 0..reader.number()? {
        templates.push(Arc::clone(known.get(&reader.u64()?).ok_or_else(malformed)?));
    }
    let places = reader.places(rows, templates.len() + 1)?;
    let places = places.into_iter().map(|place| u32::try_from(place).ok()?.checked_sub(1));
    let places = places.collect();
    let count = reader.number()?;
    let texts = reader.texts(count, None)?;
    let columns = columns::read(reader.rest())?;
    Ok(SpanRows::new(columns, Templated::new(templates, places, texts)?)?)
}
