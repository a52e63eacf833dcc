//! Writes protobuf, as far as an `ExportTraceServiceRequest` needs it.

/// Appends a base-128 varint.
pub(crate) fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Bytes that [`varint`] appends.
pub(crate) const fn varint_bytes(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends a field of bytes with a number up to 15.
pub(crate) fn bytes(into: &mut Vec<u8>, number: u8, value: &[u8]) {
    header(into, number, value.len());
    into.extend_from_slice(value);
}

/// Appends the header of a field of bytes.
pub(crate) fn header(into: &mut Vec<u8>, number: u8, length: usize) {
    into.push(number << 3 | 2);
    varint(into, length as u64);
}

/// Size of a field with this many bytes.
pub(crate) const fn field_bytes(length: usize) -> usize {
    1 + varint_bytes(length as u64) + length
}

/// Appends a field of eight bytes.
pub(crate) fn fixed64(into: &mut Vec<u8>, number: u8, value: u64) {
    into.push(number << 3 | 1);
    into.extend_from_slice(&value.to_le_bytes());
}

/// Appends a varint field.
pub(crate) fn number(into: &mut Vec<u8>, number: u8, value: u64) {
    into.push(number << 3);
    varint(into, value);
}

/// Appends a message field, written by `write`. The length is not known in advance. A long message
/// is moved by a byte.
pub(crate) fn message(into: &mut Vec<u8>, number: u8, write: impl FnOnce(&mut Vec<u8>)) {
    into.push(number << 3 | 2);
    let at = into.len();
    // Two bytes fit lengths from 128 to 16,383, which most spans have.
    into.extend_from_slice(&[0, 0]);
    write(into);
    let length = into.len() - at - 2;
    let mut prefix = Vec::new();
    match length {
        0x80..0x4000 => {
            into[at..at + 2].copy_from_slice(&[length as u8 | 0x80, (length >> 7) as u8])
        }
        _ => {
            varint(&mut prefix, length as u64);
            into.splice(at..at + 2, prefix);
        }
    }
}
