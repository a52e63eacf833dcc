//! Delta encoding: differences between neighbours, bit-packed for each miniblock (Parquet format,
//! Encodings, `DELTA_BINARY_PACKED`).

use super::hybrid::{put_packed, put_varint, put_zigzag};

const BLOCK: usize = 128;
const MINIBLOCKS: usize = 4;
const MINIBLOCK: usize = BLOCK / MINIBLOCKS;

/// Appends numbers; `bytes` is the size of each, four or eight.
pub(super) fn put(numbers: &[i64], bytes: usize, to: &mut Vec<u8>) {
    for head in [BLOCK, MINIBLOCKS, numbers.len()] {
        put_varint(head as u64, to);
    }
    put_zigzag(numbers.first().copied().unwrap_or(0), to);
    // Differences wrap around at the size of the numbers.
    let wrapped = |number: i64| if bytes == 4 { i64::from(number as i32) } else { number };
    let unsigned = |number: i64| {
        if bytes == 4 { u64::from(number as u32) } else { number.cast_unsigned() }
    };
    let mut block = Vec::with_capacity(BLOCK);
    for start in (1..numbers.len()).step_by(BLOCK) {
        let pairs = numbers[start - 1..numbers.len().min(start + BLOCK)].windows(2);
        block.clear();
        block.extend(pairs.map(|pair| wrapped(pair[1].wrapping_sub(pair[0]))));
        let least = block.iter().copied().min().unwrap_or(0);
        put_zigzag(least, to);
        let over = |difference: &i64| unsigned(difference.wrapping_sub(least));
        let mut widths = [0; MINIBLOCKS];
        for (width, miniblock) in widths.iter_mut().zip(block.chunks(MINIBLOCK)) {
            let all = miniblock.iter().map(over).fold(0, |all, one| all | one);
            *width = (u64::BITS - all.leading_zeros()) as u8;
        }
        to.extend_from_slice(&widths);
        for (width, miniblock) in widths.into_iter().zip(block.chunks(MINIBLOCK)) {
            let end = to.len() + MINIBLOCK / 8 * usize::from(width);
            put_packed(miniblock.iter().map(over), width.into(), to);
            to.resize(end, 0);
        }
    }
}
