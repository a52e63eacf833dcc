//! Splits the attributes of rows into names and patterns. A pattern is a list of names that many
//! rows share, so the common part is processed once.

use ahash::AHashMap;
use arrow::array::{Array, AsArray, MapArray, StringArray, UInt8Array};
use arrow::datatypes::UInt8Type;
use arrow::error::ArrowError;
use spanwise_model::schema::column;
use spanwise_model::{SpanRows, Template};

use super::fixed::{Hash, add};
use crate::embedded::files::order::RowPlace;
use crate::embedded::keys::{attribute_seed, hash_value};

/// A column of attribute maps.
pub(super) struct Maps<'a> {
    offsets: &'a [i32],
    pub(super) keys: &'a StringArray,
    pub(super) types: &'a UInt8Array,
    pub(super) values: &'a StringArray,
}

impl<'a> Maps<'a> {
    pub(super) fn of(maps: &'a MapArray) -> Result<Self, ArrowError> {
        let taken_apart = || {
            let values = maps.values().as_struct_opt()?;
            Some(Self {
                offsets: maps.value_offsets(),
                keys: maps.keys().as_string_opt()?,
                types: values.columns().first()?.as_primitive_opt::<UInt8Type>()?,
                values: values.columns().get(1)?.as_string_opt()?,
            })
        };
        taken_apart().ok_or_else(mistyped)
    }

    pub(super) fn entries(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }
}

pub(super) fn mistyped() -> ArrowError {
    ArrowError::SchemaError("a column is no map of attributes".to_owned())
}

/// A key with a type.
pub(super) struct Name<'a> {
    pub(super) key: &'a str,
    pub(super) type_number: u8,
    /// The seed for hashes of its values.
    pub(super) seed: u64,
    /// The name that followed it last time. Most spans resemble the previous one.
    next: u32,
    /// The last pattern that contains it.
    met_in: u32,
}

/// An attribute of all rows of a pattern.
pub(super) struct Slot<'a> {
    pub(super) name: u32,
    /// Whether no earlier slot has the same name.
    pub(super) is_first: bool,
    /// The value and its hash, if all rows share it.
    pub(super) value: Option<(&'a str, u64)>,
    /// Whether the shared value belongs to the shape.
    pub(super) is_of_shape: bool,
}

/// The common part of some rows: those of one template, or those whose maps have the same names in
/// the same order.
struct Pattern<'a> {
    slots: Vec<Slot<'a>>,
    /// Hash of the values that belong to the shape.
    shape: Hash,
    /// Slots whose values may belong to the shape, depending on the row, and the index of each
    /// among the row's own texts.
    may_be_of_shape: Vec<(usize, usize)>,
    /// Slots with values that do not belong to the shape, and the same indexes.
    left: Vec<(u32, u32)>,
}

/// Where the rows of a pattern have a value.
#[derive(Clone, Copy)]
pub(super) enum ValuePlace<'a> {
    /// In the pattern.
    OfAll(&'a str),
    /// The index among each row's own texts.
    Own(usize),
}

/// The rows of a batch.
struct BatchRows<'a> {
    /// For each row, the number of its pattern and the index of its first own text.
    rows: Vec<(u32, u32)>,
    /// Own texts of rows with a template, then those of maps.
    texts: [&'a StringArray; 2],
    /// Whether each own text belongs to the shape.
    is_of_shape: Vec<bool>,
}

impl<'a> BatchRows<'a> {
    #[inline]
    fn text(&self, own: usize) -> &'a str {
        let [templated, in_map] = self.texts;
        match own.checked_sub(templated.len()) {
            None => templated.value(own),
            Some(own) => in_map.value(own),
        }
    }
}

/// An attribute of a row.
pub(super) struct Attribute<'s, 'a> {
    pub(super) slot: &'s Slot<'a>,
    pub(super) text: &'a str,
    /// The hash of the text, if it was already computed.
    pub(super) hash: Option<u64>,
    /// Whether the value belongs to the row's shape.
    pub(super) is_of_shape: bool,
}

/// The attributes of batches. See the module's description.
pub(crate) struct Split<'a> {
    pub(super) names: Vec<Name<'a>>,
    patterns: Vec<Pattern<'a>>,
    batches: Vec<BatchRows<'a>>,
}

/// Look-up tables that are used while rows are split.
#[derive(Default)]
struct Numbers<'a> {
    names: AHashMap<(u8, &'a str), u32>,
    /// Patterns of templates, by template id.
    templates: AHashMap<u64, u32>,
    /// Patterns of maps.
    maps: AHashMap<Vec<u32>, u32>,
    /// The previous name.
    before: u32,
}

impl<'a> Split<'a> {
    /// # Errors
    /// If a batch does not have the span schema.
    pub(crate) fn new(batches: &'a [SpanRows]) -> Result<Self, ArrowError> {
        let mut split = Self { names: Vec::new(), patterns: Vec::new(), batches: Vec::new() };
        let mut numbers = Numbers::default();
        batches.iter().try_for_each(|batch| split.add(batch, &mut numbers))?;
        Ok(split)
    }

    fn add(&mut self, batch: &'a SpanRows, numbers: &mut Numbers<'a>) -> Result<(), ArrowError> {
        let maps = batch.columns().column_by_name(column::ATTRIBUTES);
        let maps = Maps::of(maps.and_then(|maps| maps.as_map_opt()).ok_or_else(mistyped)?)?;
        let templated = batch.templated();
        let texts = [templated.map_or(maps.values, |templated| templated.texts()), maps.values];
        // Without templates, the texts of maps come first.
        let before_maps = templated.map_or(0, |templated| templated.texts().len());
        let places: Vec<u32> = templated
            .map_or(&[] as &[_], |templated| templated.templates())
            .iter()
            .map(|template| self.of_template(template, numbers))
            .collect();
        let mut sequence = Vec::new();
        let rows = (0..batch.num_rows()).map(|row| {
            if let Some(templated) = templated
                && let Some(place) = templated.place(row)
            {
                return (places[place], templated.own(row).start as u32);
            }
            let entries = maps.entries(row);
            // Arrow's offsets have 31 bits.
            let first = (before_maps + entries.start) as u32;
            sequence.clear();
            sequence.extend(entries.map(|entry| {
                self.number(numbers, maps.keys.value(entry), maps.types.value(entry))
            }));
            (self.of_map(&sequence, numbers), first)
        });
        let rows = rows.collect();
        let is_of_shape = vec![false; before_maps + maps.values.len()];
        self.batches.push(BatchRows { rows, texts, is_of_shape });
        Ok(())
    }

    fn of_template(&mut self, template: &'a Template, numbers: &mut Numbers<'a>) -> u32 {
        if let Some(number) = numbers.templates.get(&template.id()) {
            return *number;
        }
        let slots: Vec<(u32, Option<&'a str>)> = (template.slots().iter())
            .map(|slot| (self.number(numbers, &slot.key, slot.type_number), slot.text.as_deref()))
            .collect();
        let number = self.pattern(slots);
        numbers.templates.insert(template.id(), number);
        number
    }

    fn of_map(&mut self, sequence: &[u32], numbers: &mut Numbers<'a>) -> u32 {
        if let Some(number) = numbers.maps.get(sequence) {
            return *number;
        }
        let number = self.pattern(sequence.iter().map(|name| (*name, None)).collect());
        numbers.maps.insert(sequence.to_vec(), number);
        number
    }

    fn pattern(&mut self, slots: Vec<(u32, Option<&'a str>)>) -> u32 {
        let number = self.patterns.len() as u32;
        let slot = |(name, text): (u32, Option<&'a str>)| {
            let Name { seed, met_in, .. } = &mut self.names[name as usize];
            let is_first = *met_in != number;
            *met_in = number;
            let value = text.map(|text| (text, hash_value(*seed, text)));
            Slot { name, is_first, value, is_of_shape: false }
        };
        let slots = slots.into_iter().map(slot).collect();
        self.patterns.push(Pattern {
            slots,
            shape: [0; 2],
            may_be_of_shape: Vec::new(),
            left: Vec::new(),
        });
        number
    }

    fn number(&mut self, numbers: &mut Numbers<'a>, key: &'a str, type_number: u8) -> u32 {
        let before = numbers.before as usize;
        let guess = self.names.get(before).map_or(0, |name| name.next);
        let is_it = |name: &&Name<'a>| name.key == key && name.type_number == type_number;
        if self.names.get(guess as usize).filter(is_it).is_some() {
            numbers.before = guess;
            return guess;
        }
        let number = *numbers.names.entry((type_number, key)).or_insert_with(|| {
            let seed = attribute_seed(key);
            self.names.push(Name { key, type_number, seed, next: 0, met_in: u32::MAX });
            self.names.len() as u32 - 1
        });
        if let Some(name) = self.names.get_mut(before) {
            name.next = number;
        }
        numbers.before = number;
        number
    }

    /// The attributes of a row.
    pub(super) fn row(&self, (batch, row): RowPlace) -> impl Iterator<Item = Attribute<'_, 'a>> {
        let batch = &self.batches[batch];
        let (pattern, own) = batch.rows[row];
        let mut own = own as usize;
        self.patterns[pattern as usize].slots.iter().map(move |slot| match slot.value {
            Some((text, hash)) => {
                Attribute { slot, text, hash: Some(hash), is_of_shape: slot.is_of_shape }
            }
            None => {
                own += 1;
                let is_of_shape = batch.is_of_shape[own - 1];
                Attribute { slot, text: batch.text(own - 1), hash: None, is_of_shape }
            }
        })
    }

    /// Number of patterns.
    pub(super) const fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// The pattern of a row.
    pub(super) fn pattern_of(&self, (batch, row): RowPlace) -> usize {
        self.batches[batch].rows[row].0 as usize
    }

    /// Where the rows of a pattern have the value of a name, if they do.
    pub(super) fn find(&self, pattern: usize, name: u32) -> Option<ValuePlace<'a>> {
        let slots = &self.patterns[pattern].slots;
        let at = slots.iter().position(|slot| slot.name == name)?;
        Some(match slots[at].value {
            Some((text, _)) => ValuePlace::OfAll(text),
            None => ValuePlace::Own(slots[..at].iter().filter(|slot| slot.value.is_none()).count()),
        })
    }

    /// The text of a row at the place that [`Self::find`] returned for its pattern.
    #[inline]
    pub(super) fn text(&self, (batch, row): RowPlace, found: ValuePlace<'a>) -> &'a str {
        match found {
            ValuePlace::OfAll(text) => text,
            ValuePlace::Own(own) => {
                let batch = &self.batches[batch];
                batch.text(batch.rows[row].1 as usize + own)
            }
        }
    }

    /// Reads a few bytes of a row's data, to prefetch it.
    #[inline]
    pub(super) fn touch(&self, (batch, row): RowPlace) -> u64 {
        let batch = &self.batches[batch];
        let own = batch.rows[row].1 as usize;
        let Some(is_of_shape) = batch.is_of_shape.get(own) else { return 0 };
        let first = batch.text(own).as_bytes().first();
        u64::from(*is_of_shape) + first.map_or(0, |byte| u64::from(*byte))
    }

    /// The attributes of a row that do not belong to its shape.
    #[inline]
    pub(super) fn left(&self, (batch, row): RowPlace) -> impl Iterator<Item = Attribute<'_, 'a>> {
        let batch = &self.batches[batch];
        let (pattern, first) = batch.rows[row];
        let pattern = &self.patterns[pattern as usize];
        pattern.left.iter().filter_map(move |&(place, own)| {
            let slot = &pattern.slots[place as usize];
            if let Some((text, hash)) = slot.value {
                return Some(Attribute { slot, text, hash: Some(hash), is_of_shape: false });
            }
            let own = (first + own) as usize;
            (!batch.is_of_shape[own]).then(|| Attribute {
                slot,
                text: batch.text(own),
                hash: None,
                is_of_shape: false,
            })
        })
    }

    /// Moves values into shapes. `hash_of` returns the hash of a frequent value, given its name,
    /// hash and text. The hashes are added to those of the rows.
    pub(super) fn give_to_shapes(
        &mut self,
        hashes: &mut [Vec<Hash>],
        is_shaped: impl Fn(u32) -> bool,
        hash_of: impl Fn(u32, u64, &str) -> Option<Hash>,
    ) {
        for pattern in &mut self.patterns {
            let mut own = 0;
            for (place, slot) in pattern.slots.iter_mut().enumerate() {
                let concerned = slot.is_first && is_shaped(slot.name);
                match slot.value {
                    Some((text, hash)) if concerned => {
                        if let Some(hash) = hash_of(slot.name, hash, text) {
                            slot.is_of_shape = true;
                            add(&mut pattern.shape, hash);
                        }
                    }
                    None if concerned => pattern.may_be_of_shape.push((place, own)),
                    _ => {}
                }
                if !slot.is_of_shape {
                    // Less than the number of names in a batch.
                    pattern.left.push((place as u32, own as u32));
                }
                own += usize::from(slot.value.is_none());
            }
        }
        for (batch, hashes) in self.batches.iter_mut().zip(hashes) {
            for (row, row_hash) in hashes.iter_mut().enumerate() {
                let (pattern, first) = batch.rows[row];
                let pattern = &self.patterns[pattern as usize];
                add(row_hash, pattern.shape);
                for (place, own) in &pattern.may_be_of_shape {
                    let (name, own) = (pattern.slots[*place].name, first as usize + own);
                    let text = batch.text(own);
                    let hash = hash_value(self.names[name as usize].seed, text);
                    if let Some(hash) = hash_of(name, hash, text) {
                        batch.is_of_shape[own] = true;
                        add(row_hash, hash);
                    }
                }
            }
        }
    }
}
