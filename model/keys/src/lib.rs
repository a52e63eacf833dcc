//! Business keys, such as an order's number: where they are found in requests, messages and spans,
//! and how they are hidden. A key ties traces together that belong to one logical chain.

mod body;
mod carrier;
mod hash;
mod place;
mod rules;
#[cfg(test)]
mod tests;

pub use carrier::{Carrier, SpanAttributes};
pub use hash::KeyHash;
pub use place::{FoundKey, LONGEST_KEY, Place, PlaceError};
pub use rules::{
    ATTRIBUTE_PREFIX, BODY_BYTES, KeyRule, KeyRules, RuleError, SpanKey, Unhashed, attribute_of,
};
