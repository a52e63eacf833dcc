//! Attributes of requests and responses.

use spanwise_model::AttributeValue;

/// What is said of a request or a response, in order. All keys are ours.
pub type Attributes = Vec<(&'static str, AttributeValue)>;

/// Bytes that they hold.
pub(super) fn attributes_bytes(attributes: &Attributes) -> usize {
    attributes
        .iter()
        .map(|attribute| {
            let text = attribute.1.as_str().map_or(0, str::len);
            size_of_val(attribute) + text
        })
        .sum()
}
