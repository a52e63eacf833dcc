//! Attributes of requests and responses.

use spanwise_model::AttributeValue;

/// Attributes of a request or a response, in order. All keys are defined by Spanwise.
pub type Attributes = Vec<(&'static str, AttributeValue)>;

/// Number of bytes that the attributes hold.
pub(super) fn attributes_bytes(attributes: &Attributes) -> usize {
    attributes
        .iter()
        .map(|attribute| {
            let text = attribute.1.as_str().map_or(0, str::len);
            size_of_val(attribute) + text
        })
        .sum()
}
