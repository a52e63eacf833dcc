//! Logical chains: what belongs to one business key, such as an order's number, over minutes or
//! days. A key is taken from configured places; it ties traces together.

mod body;
mod hash;
mod place;
#[cfg(test)]
mod tests;
mod timeline;

use spanwise_model::AttributeValue;

pub use hash::KeyHash;
pub use place::{LONGEST_KEY, Place, PlaceError};
pub use timeline::{Gap, HandOff, MAX_STEPS, Step, Timeline, Visit};

/// How keys of one name are found.
#[derive(Debug, Clone)]
pub struct KeyRule {
    /// What the key is called, such as `order`.
    pub name: String,
    /// Where it may be, the best place first.
    pub places: Vec<Place>,
    /// The hash that replaces it, if it must not be stored.
    pub hash: Option<KeyHash>,
}

impl KeyRule {
    /// The key in a span's attributes, hashed if the rule says so.
    pub fn find(&self, attributes: &[(String, AttributeValue)]) -> Option<String> {
        let key = self.places.iter().find_map(|place| place.find(attributes))?;
        Some(self.shown(&key))
    }

    /// The form of a key in which it is stored, and searched for.
    pub fn shown(&self, key: &str) -> String {
        match &self.hash {
            Some(hash) => hash.hash(&self.name, key),
            None => key.to_owned(),
        }
    }
}
