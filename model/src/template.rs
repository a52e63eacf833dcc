//! Attributes that many spans share, stored once.
//!
//! Most spans of one operation have the same keys in the same order, and most of their values. The
//! template contains these. A row has the number of its template and its own values.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An attribute of all rows of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its key.
    pub key: Arc<str>,
    /// See [`crate::AttributeValue::type_number`].
    pub type_number: u8,
    /// The value's canonical text; `None` if each row has its own.
    pub text: Option<Box<str>>,
}

/// The attributes of some rows, in order.
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

    /// A number that is unique in this process.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Its attributes, in order.
    pub const fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Number of each row's own texts.
    pub const fn own_texts(&self) -> usize {
        self.own_texts
    }

    /// Approximate memory, without the keys, which templates share.
    pub fn memory_bytes(&self) -> usize {
        let texts = self.slots.iter().filter_map(|slot| slot.text.as_deref());
        size_of::<Self>() + texts.map(|text| text.len() + size_of::<Slot>()).sum::<usize>()
    }

    /// Its attributes with the values of one row, which has these own texts.
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
