//! Attributes that many spans have alike, written once.
//!
//! Most spans of one operation have the same keys in the same order, and most of
//! their values, too. A template has all of that; a row has the number of its
//! template and the few values that are its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An attribute of all rows of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its key.
    pub key: Arc<str>,
    /// See [`crate::AttributeValue::type_number`].
    pub type_number: u8,
    /// The value's canonical text; none where each row has one of its own.
    pub text: Option<Box<str>>,
}

/// The attributes of some rows, in their order.
#[derive(Debug)]
pub struct Template {
    id: u64,
    slots: Box<[Slot]>,
    own_texts: usize,
}

impl Template {
    /// A template with these attributes.
    pub fn new(slots: Vec<Slot>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let own_texts = slots.iter().filter(|slot| slot.text.is_none()).count();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self { id, slots: slots.into(), own_texts }
    }

    /// Tells it from every other one of this process.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Its attributes, in their order.
    pub const fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// How many texts each row has of its own.
    pub const fn own_texts(&self) -> usize {
        self.own_texts
    }

    /// Memory that it takes, about. Keys are shared by many.
    pub fn memory_bytes(&self) -> usize {
        let texts = self.slots.iter().filter_map(|slot| slot.text.as_deref());
        size_of::<Self>() + texts.map(|text| text.len() + size_of::<Slot>()).sum::<usize>()
    }

    /// Its attributes with the values of one row, whose own texts are these.
    pub fn attributes<'a>(
        &'a self,
        mut own: impl Iterator<Item = &'a str>,
    ) -> impl Iterator<Item = (&'a str, u8, &'a str)> {
        self.slots.iter().map(move |slot| {
            let text = slot.text.as_deref().or_else(|| own.next());
            (&*slot.key, slot.type_number, text.unwrap_or_default())
        })
    }
}
