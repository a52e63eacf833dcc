//! Texts as numbers: of many spans, few names are distinct.

use ahash::AHashMap;

/// A text of [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

/// Texts, each once.
#[derive(Debug, Default)]
pub struct Names {
    places: AHashMap<String, u32>,
    texts: Vec<String>,
}

impl Names {
    /// The name that stands for a text.
    pub fn name(&mut self, text: &str) -> Name {
        if let Some(place) = self.places.get(text) {
            return Name(*place);
        }
        let place = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        Name(place)
    }

    /// The text for which a name stands.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", String::as_str)
    }
}
