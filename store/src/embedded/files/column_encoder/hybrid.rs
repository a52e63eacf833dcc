//! Small numbers as a mix of runs and bit-packed groups (Parquet format, Encodings, "RLE /
//! Bit-Packing Hybrid"). Used for definition levels and dictionary indexes.

/// Bit-packed numbers come in groups of this size.
const GROUP: usize = 8;
/// This many groups of equal bits become a run.
const LEAST_EQUAL_GROUPS: usize = 4;

/// Appends a number with seven bits in each byte (ULEB128).
pub(super) fn put_varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends a number that may be negative (zigzag encoding).
pub(super) fn put_zigzag(number: i64, to: &mut Vec<u8>) {
    put_varint((number << 1 ^ number >> 63).cast_unsigned(), to);
}

fn put_run(count: usize, number: u32, width: u32, to: &mut Vec<u8>) {
    put_varint((count as u64) << 1, to);
    to.extend_from_slice(&number.to_le_bytes()[..width.div_ceil(8) as usize]);
}

fn put_packed_head(groups: usize, to: &mut Vec<u8>) {
    put_varint((groups as u64) << 1 | 1, to);
}

/// Appends bits, lowest first. Unused bits of the last byte are zero.
pub(super) fn put_bits(bits: &[u8], count: usize, to: &mut Vec<u8>) {
    let bits = &bits[..count.div_ceil(GROUP)];
    let put_groups = |bits: &[u8], to: &mut Vec<u8>| {
        if !bits.is_empty() {
            put_packed_head(bits.len(), to);
            to.extend_from_slice(bits);
        }
    };
    // Start of the bits that are not written yet.
    let mut first = 0;
    let mut at = 0;
    while let Some(byte) = bits.get(at) {
        let mut end = at + 1;
        if matches!(byte, 0 | 0xff) {
            end += bits[end..].iter().take_while(|other| *other == byte).count();
            if end - at >= LEAST_EQUAL_GROUPS {
                put_groups(&bits[first..at], to);
                put_run((end * GROUP).min(count) - at * GROUP, u32::from(byte & 1), 1, to);
                first = end;
            }
        }
        at = end;
    }
    put_groups(&bits[first..], to);
}

/// Appends one bit that is the same in all rows.
pub(super) fn put_equal_bits(bit: bool, count: usize, to: &mut Vec<u8>) {
    put_run(count, bit.into(), 1, to);
}

/// Appends numbers of `width` bits each.
pub(super) fn put_numbers(numbers: &[u32], width: u32, to: &mut Vec<u8>) {
    let put_groups = |numbers: &[u32], to: &mut Vec<u8>| {
        if !numbers.is_empty() {
            put_packed_head(numbers.len().div_ceil(GROUP), to);
            put_packed(numbers.iter().map(|number| u64::from(*number)), width, to);
        }
    };
    let mut first = 0;
    let mut at = 0;
    while let Some(number) = numbers.get(at) {
        let end = at + numbers[at..].iter().take_while(|other| *other == number).count();
        // A run can begin only at the end of a group.
        let from = first + (at - first).next_multiple_of(GROUP);
        if end >= from + GROUP {
            put_groups(&numbers[first..from], to);
            put_run(end - from, *number, width, to);
            first = end;
        }
        at = end;
    }
    put_groups(&numbers[first..], to);
}

/// Appends the lowest `width` bits of each number, padded with zeros to a full group of eight.
pub(super) fn put_packed(
    numbers: impl ExactSizeIterator<Item = u64>,
    width: u32,
    to: &mut Vec<u8>,
) {
    let end = to.len() + numbers.len().div_ceil(GROUP) * width as usize;
    to.reserve(end - to.len() + size_of::<u64>());
    let (mut word, mut bits) = (0u64, 0);
    for number in numbers {
        word |= number << bits;
        bits += width;
        if bits >= u64::BITS {
            to.extend_from_slice(&word.to_le_bytes());
            bits -= u64::BITS;
            // The bits of the number that did not fit into the word.
            word = number.checked_shr(width - bits).unwrap_or(0);
        }
    }
    to.extend_from_slice(&word.to_le_bytes());
    to.resize(end, 0);
}
