//! A column of attributes: for each row a map from key to type and text.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrow::array::{ArrayRef, MapArray, StructArray, UInt8Array};
use arrow::datatypes::{DataType, Field};

use super::reuse::{TextList, forget_offsets, taken, taken_offsets};
use crate::schema::{self, MAP_NAMES};
use crate::{AttributeRef, ModelError};

pub(crate) struct AttributeMaps {
    /// Where each row's attributes begin, and after the last where they end.
    offsets: Vec<i32>,
    keys: TextList,
    types: Vec<u8>,
    texts: TextList,
}

impl Default for AttributeMaps {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            keys: TextList::default(),
            types: Vec::new(),
            texts: TextList::default(),
        }
    }
}

impl AttributeMaps {
    /// Appends an attribute to the row that is being written.
    pub(super) fn push(&mut self, key: &str, value: AttributeRef<'_>) {
        self.keys.push(key);
        self.types.push(value.type_number());
        push_value(&mut self.texts, value);
    }

    /// Appends an attribute whose value is written already.
    pub(crate) fn push_text(&mut self, key: &str, type_number: u8, text: &str) {
        self.keys.push(key);
        self.types.push(type_number);
        self.texts.push(text);
    }

    /// How many there are, of all rows.
    pub(super) const fn len(&self) -> usize {
        self.types.len()
    }

    /// Appends these, which it has, once more.
    pub(super) fn repeat(&mut self, entries: Range<usize>) {
        self.keys.repeat(entries.clone());
        self.types.extend_from_within(entries.clone());
        self.texts.repeat(entries);
    }

    /// Ends the row that was being written.
    pub(crate) fn end_row(&mut self) {
        // The texts' own offsets, which are checked, have the same bound.
        self.offsets.push(self.types.len() as i32);
    }

    /// Whether no row has any; they are ended then, and none is left.
    pub(super) fn end_unset(&mut self) -> bool {
        let is_unset = self.types.is_empty();
        if is_unset {
            forget_offsets(&mut self.offsets);
        }
        is_unset
    }

    pub(crate) fn finish(&mut self) -> Result<MapArray, ModelError> {
        let types = UInt8Array::new(taken(&mut self.types), None);
        let values: [ArrayRef; 2] = [Arc::new(types), Arc::new(self.texts.finish(None)?)];
        let values = StructArray::try_new(schema::value_fields(), values.into(), None)?;
        let entry = schema::map_entry_fields();
        let columns: [ArrayRef; 2] = [Arc::new(self.keys.finish(None)?), Arc::new(values)];
        let entries = StructArray::try_new(entry.clone(), columns.into(), None)?;
        let field = Field::new(MAP_NAMES[0], DataType::Struct(entry), false);
        let offsets = taken_offsets(&mut self.offsets);
        Ok(MapArray::try_new(Arc::new(field), offsets, entries, None, false)?)
    }
}

/// Where the same attributes were written last: they are copied from there, as long as that
/// batch is collected. To be shared by threads, but used by one at a time.
#[derive(Debug, Default)]
pub struct Written {
    batch: AtomicU64,
    start: AtomicU32,
    end: AtomicU32,
}

impl Written {
    pub(super) fn set(&self, batch: BatchId, entries: Range<usize>) {
        let Ok(end) = u32::try_from(entries.end) else { return };
        self.batch.store(batch.0, Ordering::Relaxed);
        self.start.store(entries.start as u32, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
    }

    /// Where in this batch, if in this.
    pub(super) fn entries(&self, batch: BatchId) -> Option<Range<usize>> {
        (self.batch.load(Ordering::Relaxed) == batch.0).then(|| {
            let at = |place: &AtomicU32| place.load(Ordering::Relaxed) as usize;
            at(&self.start)..at(&self.end)
        })
    }
}

/// A batch that is being collected: no two have the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchId(u64);

impl Default for BatchId {
    fn default() -> Self {
        // Zero is that of what was never written.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Adds a value's canonical text.
#[inline]
pub(super) fn push_value(texts: &mut TextList, value: AttributeRef<'_>) {
    match value {
        AttributeRef::String(text) | AttributeRef::Bytes(text) | AttributeRef::Json(text) => {
            texts.push(text);
        }
        AttributeRef::Int(number) => texts.push_ascii(decimal(number, &mut [0; 20])),
        AttributeRef::Bool(true) => texts.push("true"),
        AttributeRef::Bool(false) => texts.push("false"),
        AttributeRef::Double(_) => texts.push(&value.to_string()),
    }
}

/// The number's digits, as `Display` writes them but without its detours.
fn decimal(number: i64, digits: &mut [u8; 20]) -> &[u8] {
    let mut rest = number.unsigned_abs();
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        AttributeValue, Attributes, Capture, Emitter, Kind, Span, SpanBatch, SpanBatchBuilder,
        SpanId, SpanRef,
    };

    fn attributes() -> impl Strategy<Value = Attributes> {
        let value = prop_oneof![
            "\\PC{0,9}".prop_map(AttributeValue::String),
            any::<i64>().prop_map(AttributeValue::Int),
            any::<bool>().prop_map(AttributeValue::Bool),
        ];
        proptest::collection::vec(("[a-d]{0,3}", value), 0..4)
    }

    proptest! {
        #[test]
        fn what_is_repeated_is_what_was_written(
            sets in proptest::collection::vec(attributes(), 1..4),
            batches in proptest::collection::vec(
                proptest::collection::vec((any::<prop::sample::Index>(), attributes()), 0..9), 1..4),
            shares in any::<bool>(),
        ) {
            let written: Vec<Written> = sets.iter().map(|_| Written::default()).collect();
            let id = SpanId([1; SpanId::LEN]);
            let span = Span::new(id, Capture::App, Kind::Server, "s", "op", 1, 1);
            let emitter = Emitter {
                service: "s",
                instance: None,
                host: None,
                process_id: None,
                resource: &span.resource,
            };
            let mut builders = [SpanBatchBuilder::new(), SpanBatchBuilder::new()];
            if shares {
                builders[1] = SpanBatchBuilder::sharing();
            }
            for (number, batch) in batches.iter().enumerate() {
                let builder = &mut builders[number % 2];
                let emitter = builder.emitter(&emitter);
                let mut expected = Vec::new();
                for (set, own) in batch {
                    let set = set.index(sets.len());
                    let mut row = builder.begin(&SpanRef::from(&span), &emitter);
                    let said = sets[set].iter().map(|(key, value)| (key.as_str(), value.as_ref()));
                    row.repeated(&written[set], said);
                    row.attributes(own);
                    expected.push([&sets[set][..], own].concat());
                }
                let rows = SpanBatch::try_from(builder.finish().expect("a batch"));
                let found: Vec<Attributes> = rows
                    .expect("spans")
                    .spans()
                    .map(|span| span.expect("a span").attributes)
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn digits_are_those_of_display() {
        for number in [0, 7, -1, 10, 99, 100, i64::MAX, i64::MIN, -1_000_000_007] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
