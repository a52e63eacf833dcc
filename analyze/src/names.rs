//! Interns texts, because many spans share few names.

use std::num::NonZeroU32;

use ahash::AHashMap;
use spanwise_model::System;

/// An interned text of [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(NonZeroU32);

impl Name {
    const fn at(place: usize) -> Self {
        // As many texts as there are numbers do not fit into memory.
        let number = if place < u32::MAX as usize { place as u32 + 1 } else { u32::MAX };
        Self(NonZeroU32::MIN.saturating_add(number - 1))
    }

    /// Its number, which is not 0.
    pub(crate) const fn number(self) -> u32 {
        self.0.get()
    }

    const fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Interned texts.
#[derive(Debug, Default)]
pub struct Names {
    places: AHashMap<String, Name>,
    texts: Vec<String>,
    systems: Vec<Option<&'static System>>,
}

impl Names {
    /// Interns a text.
    pub fn name(&mut self, text: &str) -> Name {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let name = Name::at(self.texts.len());
        self.texts.push(text.to_owned());
        self.systems.push(System::named(text));
        self.places.insert(text.to_owned(), name);
        name
    }

    /// The database, cache or broker with this name, as a protocol. It is looked up once.
    pub fn system(&self, name: Name) -> Option<&'static System> {
        self.systems.get(name.place()).copied().flatten()
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The text of a name.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.place()).map_or("", String::as_str)
    }
}
