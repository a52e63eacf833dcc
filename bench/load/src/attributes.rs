//! Writes attributes: `KeyValue` messages in a field of their owner.

use std::fmt::Write as _;

use crate::protobuf::{field_bytes, header, varint, varint_bytes};

/// Writes attributes into one field of a message.
pub(crate) struct Attributes<'a> {
    into: &'a mut Vec<u8>,
    number: u8,
    /// Scratch space for formatted values.
    scratch: &'a mut String,
}

impl<'a> Attributes<'a> {
    /// Writes into the field `number`: 1 for resources, 9 for spans, 3 for events and scopes.
    pub(crate) const fn new(into: &'a mut Vec<u8>, number: u8, scratch: &'a mut String) -> Self {
        Self { into, number, scratch }
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        write_text(self.into, self.number, key, value);
    }

    /// A formatted text.
    pub(crate) fn format(&mut self, key: &str, value: std::fmt::Arguments<'_>) {
        self.scratch.clear();
        // Writing to a String cannot fail.
        let _ = self.scratch.write_fmt(value);
        write_text(self.into, self.number, key, self.scratch);
    }

    pub(crate) fn int(&mut self, key: &str, value: u64) {
        let inner = 1 + varint_bytes(value);
        header(self.into, self.number, field_bytes(key.len()) + field_bytes(inner));
        header(self.into, 1, key.len());
        self.into.extend_from_slice(key.as_bytes());
        header(self.into, 2, inner);
        self.into.push(3 << 3);
        varint(self.into, value);
    }

    pub(crate) fn flag(&mut self, key: &str, value: bool) {
        header(self.into, self.number, field_bytes(key.len()) + field_bytes(2));
        header(self.into, 1, key.len());
        self.into.extend_from_slice(key.as_bytes());
        self.into.extend_from_slice(&[0x12, 2, 0x10, u8::from(value)]);
    }
}

fn write_text(into: &mut Vec<u8>, number: u8, key: &str, value: &str) {
    let inner = field_bytes(value.len());
    header(into, number, field_bytes(key.len()) + field_bytes(inner));
    header(into, 1, key.len());
    into.extend_from_slice(key.as_bytes());
    header(into, 2, inner);
    header(into, 1, value.len());
    into.extend_from_slice(value.as_bytes());
}
