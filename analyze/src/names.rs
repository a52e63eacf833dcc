//! Interns texts, because many spans share few names.

use ahash::AHashMap;

/// An interned text of [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

/// Interned texts.
#[derive(Debug, Default)]
pub struct Names {
    places: AHashMap<String, u32>,
    texts: Vec<String>,
}

impl Names {
    /// Interns a text.
    pub fn name(&mut self, text: &str) -> Name {
        if let Some(place) = self.places.get(text) {
            return Name(*place);
        }
        let place = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        Name(place)
    }

    /// The text of a name.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", String::as_str)
    }
}
