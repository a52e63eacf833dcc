//! HPACK's Huffman code (RFC 7541, section 5.2 and appendix B). It is canonical:
//! the lengths of its codes say what they are.

use super::Malformed;

/// Bits of each symbol's code; the last symbol ends a string, and is never sent.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// Bits of the shortest code.
pub(super) const MIN_BITS: usize = 5;
/// Bits of the longest code.
pub(super) const MAX_BITS: usize = 30;
const END: u16 = 256;

struct Codes {
    /// The first code of each length.
    first: [u32; MAX_BITS + 1],
    /// How many codes have the length.
    count: [u32; MAX_BITS + 1],
    /// Where their symbols begin.
    at: [usize; MAX_BITS + 1],
    /// All symbols, in the order of their codes.
    symbols: [u16; 257],
}

static CODES: Codes = codes();

const fn codes() -> Codes {
    let mut codes = Codes {
        first: [0; MAX_BITS + 1],
        count: [0; MAX_BITS + 1],
        at: [0; MAX_BITS + 1],
        symbols: [0; 257],
    };
    let (mut bits, mut code, mut next) = (MIN_BITS, 0, 0);
    while bits <= MAX_BITS {
        codes.first[bits] = code;
        codes.at[bits] = next;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == bits {
                codes.symbols[next] = symbol as u16;
                next += 1;
                code += 1;
            }
            symbol += 1;
        }
        codes.count[bits] = code - codes.first[bits];
        code <<= 1;
        bits += 1;
    }
    codes
}

/// Appends the text that `bytes` stand for, at most `limit` bytes of it.
pub(super) fn decode(bytes: &[u8], limit: usize, to: &mut Vec<u8>) -> Result<(), Malformed> {
    let end = to.len() + limit;
    let mut rest = bytes.iter();
    // The next bits, in the upper end.
    let (mut window, mut filled) = (0_u64, 0_usize);
    loop {
        while filled <= 56
            && let Some(byte) = rest.next()
        {
            window |= u64::from(*byte) << (56 - filled);
            filled += 8;
        }
        let mut found = None;
        for bits in MIN_BITS..=MAX_BITS.min(filled) {
            let code = (window >> (64 - bits)) as u32;
            let nth = code.wrapping_sub(CODES.first[bits]);
            if nth < CODES.count[bits] {
                found = Some((bits, CODES.symbols[CODES.at[bits] + nth as usize]));
                break;
            }
        }
        let Some((bits, symbol)) = found else {
            // What fills the last byte is the beginning of the code that ends:
            // fewer than eight ones.
            let padding = filled < 8 && window == !(u64::MAX >> filled);
            return if padding { Ok(()) } else { Err(Malformed) };
        };
        if symbol == END {
            return Err(Malformed);
        }
        if to.len() >= end {
            return Ok(());
        }
        // Symbols but the last are bytes.
        to.push(symbol as u8);
        window <<= bits;
        filled -= bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<String, Malformed> {
        let mut text = Vec::new();
        decode(bytes, 1000, &mut text).map(|()| String::from_utf8(text).unwrap())
    }

    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        // RFC 7541, appendices C.4 and C.6.
        let cases: [(&[u8], &str); 5] = [
            (b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (b"\x64\x02", "302"),
        ];
        for (bytes, text) in cases {
            assert_eq!(decoded(bytes).as_deref(), Ok(text));
        }
        assert_eq!(decoded(b"").as_deref(), Ok(""));
    }

    #[test]
    fn the_code_has_a_symbol_for_every_sequence_of_bits() {
        let used: u64 = LENGTHS.iter().map(|bits| 1 << (MAX_BITS - usize::from(*bits))).sum();
        assert_eq!(used, 1 << MAX_BITS);
    }

    #[test]
    fn wrong_padding_and_the_end_symbol_are_malformed() {
        assert_eq!(decoded(b"\xff\xff\xff\xff"), Err(Malformed));
        // A whole byte of padding; padding of zeros.
        assert_eq!(decoded(b"\x64\x02\xff"), Err(Malformed));
        assert_eq!(decoded(b"\x60"), Err(Malformed));
    }

    #[test]
    fn what_is_longer_than_the_limit_is_cut() {
        let mut text = Vec::new();
        decode(b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", 3, &mut text).unwrap();
        assert_eq!(text, b"www");
    }
}
